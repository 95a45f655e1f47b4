//===- Evaluate.cpp - one run of a program on given inputs -------------------===//

#include "tools/cleave-run/Evaluate.h"
#include "runtime/exec/TensorFiles.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using namespace cleave::runtime;

llvm::Expected<std::unique_ptr<Session>> run::runOnce(const Program &program,
                                                      const Options &options) {
  if (options.inputs.empty() && !program.inputs().empty())
    return makeError("{0}: expected --inputs FILE: the program takes '{1}' and runs on one "
                     "microbatch of it",
                     program.path(), program.inputs().front().name);
  SessionOptions sessionOptions;
  sessionOptions.seed = options.seed;
  sessionOptions.lossSeed = 1.0;
  sessionOptions.weightGradients = options.weightGradients;
  auto session = Session::create(program, sessionOptions);
  if (!session)
    return session.takeError();
  if (!program.weights().empty())
    if (llvm::Error error = loadWeights(**session, options.weights))
      return error;
  if (!options.inputs.empty())
    if (llvm::Error error = loadInputs(**session, options.inputs))
      return error;
  if (llvm::Error error = (*session)->runMicrobatch(1, 0))
    return error;
  return session;
}

llvm::Error run::evaluate(const Program &program, const Options &options) {
  auto session = runOnce(program, options);
  if (!session)
    return session.takeError();
  if (!options.dump.empty())
    if (llvm::Error error = dumpResults(**session, options.dump))
      return error;
  for (const ValueInfo &value : program.outcomes())
    if (value.role == RoleKind::Loss)
      llvm::outs() << "loss " << llvm::format("%.9g", (*session)->loss()) << "\n";
  return llvm::Error::success();
}
