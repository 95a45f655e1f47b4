//===- Evaluate.cpp - one run of a program on given inputs -------------------===//

#include "tools/cleave-run/Evaluate.h"
#include "runtime/exec/Compare.h"
#include "runtime/exec/TensorFiles.h"
#include "runtime/train/Agreement.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using namespace cleave::runtime;

static llvm::Error checkInputs(const Program &program, const run::Options &options) {
  if (options.inputs.empty() && !program.inputs().empty())
    return makeError("{0}: expected --inputs FILE: the program takes '{1}' and runs on one "
                     "microbatch of it",
                     program.path(), program.inputs().front().name);
  return llvm::Error::success();
}

static llvm::Error load(Session &session, const run::Options &options) {
  if (!session.program().weights().empty())
    if (llvm::Error error = loadWeights(session, options.weights))
      return error;
  return options.inputs.empty() ? llvm::Error::success() : loadInputs(session, options.inputs);
}

llvm::Expected<std::vector<WholeTensor>> run::runOnce(const Program &program, Communicator &world,
                                                      const Options &options) {
  std::string seed = std::to_string(options.seed), check = options.check.isOn ? "replicated" : "";
  if (llvm::Error error = agreeOnProgram(world, program, {{"--seed", seed}, {"--check", check}}))
    return error;
  if (llvm::Error error = agree(world, checkInputs(program, options), "the options"))
    return error;
  SessionOptions sessionOptions;
  sessionOptions.communicator = &world;
  sessionOptions.seed = options.seed;
  sessionOptions.lossSeed = 1.0;
  sessionOptions.weightGradients = options.weightGradients;
  sessionOptions.check = options.check;
  auto session = Session::create(program, sessionOptions);
  llvm::Error failure = session ? load(**session, options) : session.takeError();
  if (llvm::Error error = agree(world, std::move(failure), "the weights and inputs"))
    return error;
  if (llvm::Error error = (*session)->runMicrobatch(1, 0))
    return error;
  return collectResults(**session);
}

/// The mean of what the ranks say.
static llvm::Expected<double> average(Communicator &world, double mine) {
  auto all = world.allGatherBytes(llvm::StringRef(reinterpret_cast<char *>(&mine), sizeof mine),
                                  "the loss");
  if (!all)
    return all.takeError();
  double sum = 0;
  for (const std::string &bytes : *all) {
    double value;
    std::copy_n(bytes.data(), sizeof value, reinterpret_cast<char *>(&value));
    sum += value;
  }
  return sum / world.size();
}

llvm::Error run::evaluate(const Program &program, Communicator &world, const Options &options) {
  auto results = runOnce(program, world, options);
  if (!results)
    return results.takeError();
  bool isShared = program.isTyped() || world.size() == 1;
  if (!options.dump.empty()) {
    llvm::Error error = llvm::Error::success();
    if (world.rank() == 0)
      error = dump(*results, options.dump);
    else if (!isShared)
      error = dump(*results, options.dump + ".rank" + std::to_string(world.rank()));
    if (llvm::Error refusal = agree(world, std::move(error), "the dump"))
      return refusal;
  }
  for (auto [value, tensor] : llvm::zip_equal(program.outcomes(), *results)) {
    if (value.role != RoleKind::Loss)
      continue;
    double mine = toNumber(tensor.ref());
    llvm::Expected<double> loss = isShared ? mine : average(world, mine);
    if (!loss)
      return loss.takeError();
    if (world.rank() == 0)
      llvm::outs() << "loss " << llvm::format("%.9g", *loss) << "\n";
  }
  return llvm::Error::success();
}
