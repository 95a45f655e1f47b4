//===- cleave-check-proof.cpp - whether a log of cleave-prove is a proof ----===//
//
// Replays the log against both programs, without the prover. The exit status is the answer.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "lib/prove/Assume.h"
#include "lib/replay/Replay.h"
#include "tools/ReadProgram.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;
using namespace cleave;

enum ExitStatus { Checked = 0, Rejected = 1, Trusting = 2, BadInput = 3 };

static cl::OptionCategory category("cleave-check-proof options");
static cl::opt<std::string> globalOption(cl::Positional, cl::Required, cl::cat(category),
                                         cl::value_desc("GLOBAL"),
                                         cl::desc("<program of one device>"));
static cl::opt<std::string> localOption(cl::Positional, cl::Required, cl::cat(category),
                                        cl::value_desc("LOCAL"),
                                        cl::desc("<program of each rank>"));
static cl::opt<std::string> logOption(cl::Positional, cl::Required, cl::cat(category),
                                      cl::value_desc("LOG"), cl::desc("<log of cleave-prove>"));
static cl::opt<bool> exactCastsOption(
    "assume-exact-casts", cl::cat(category),
    cl::desc("The log is of cleave-prove --assume=exact-casts: conversions between floating-point "
             "types change no value"));
static cl::opt<bool> ownBuffersOption(
    "assume-own-buffers", cl::cat(category),
    cl::desc("The log is of cleave-prove --assume=own-buffers: buffers may be each rank's own"));

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "cleave-check-proof") << message << "\n";
  return BadInput;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << "cleave-check-proof\n"; });
  if (!cl::ParseCommandLineOptions(
          argc, argv,
          "Checks a log that cleave-prove --log wrote, without the prover.\nExit status: 0 "
          "checked, "
          "1 rejected, 2 checked but for lemmas that it lists, 3 bad input\n",
          &llvm::errs()))
    return BadInput;
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  mlir::OwningOpRef<mlir::ModuleOp> global, local;
  for (auto [path, program] : {std::pair(&globalOption, &global), {&localOption, &local}}) {
    auto parsed = readProgram(*path, context);
    if (!parsed)
      return fail(llvm::toString(parsed.takeError()));
    if (!*parsed)
      return BadInput;
    *program = std::move(*parsed);
  }
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> text = mlir::openInputFile(logOption, &message);
  if (!text)
    return fail(message);
  if (exactCastsOption)
    if (llvm::Error error = prove::assumeExactCasts({*global, *local}))
      return fail(llvm::toString(std::move(error)));
  replay::Forms forms;
  llvm::Expected<replay::Log> log = replay::readLog(text->getBuffer(), logOption, forms);
  if (!log) {
    llvm::outs() << "rejected: " << llvm::toString(log.takeError()) << "\n";
    return Rejected;
  }
  replay::Outcome outcome = replay::check(*global, *local, *log, forms, ownBuffersOption);
  if (!outcome.problem.empty()) {
    llvm::outs() << "rejected: ";
    if (outcome.line)
      llvm::outs() << logOption << ":" << outcome.line << ": ";
    llvm::outs() << outcome.problem << "\n";
    return Rejected;
  }
  llvm::outs() << "checked: " << outcome.numResults << " results, by " << outcome.numValues
               << " values\n";
  if (exactCastsOption)
    llvm::outs() << "assumed: conversions between floating-point types change no value\n";
  if (ownBuffersOption)
    llvm::outs() << "assumed: buffers may be each rank's own, of the microbatches that it runs\n";
  for (const auto &[lemma, count] : outcome.trusted)
    llvm::outs() << "trusted: " << lemma << ", " << count << " values\n";
  return outcome.trusted.empty() ? Checked : Trusting;
}
