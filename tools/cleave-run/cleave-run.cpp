//===- cleave-run.cpp - runs training programs --------------------------------===//
//
// Trains a program, evaluates it once, compares two programs, or says what a program will cost.
//
//===----------------------------------------------------------------------===//

#include "runtime/aten/CpuFeatures.h"
#include "runtime/io/Error.h"
#include "tools/cleave-run/Against.h"
#include "tools/cleave-run/DryRun.h"
#include "tools/cleave-run/Evaluate.h"
#include "tools/cleave-run/Training.h"

#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using namespace cleave::runtime;

static llvm::Error runTool(const run::Options &options) {
  llvm::StringRef unheeded = run::givenTrainingOption();
  if (!unheeded.empty() && !options.dryRun)
    return makeError("expected --steps and --data with --{0}, which is for training; without them "
                     "the program is evaluated once, on one rank",
                     unheeded);
  auto program = loadProgram(options.program);
  if (!program)
    return program.takeError();
  if (options.dryRun) {
    if (options.weightGradients == WeightGradients::Deferred)
      if (llvm::Error error = checkDeferrable(**program))
        return error;
    run::printCosts(**program, run::getMicrobatches(), options.weightGradients, llvm::outs());
    return llvm::Error::success();
  }
  if (options.memoryLimit)
    if (llvm::Error error =
            checkMemoryLimit(**program, 1, options.weightGradients, *options.memoryLimit))
      return error;
  installCachingAllocator();
  if (options.threads)
    setNumThreads(options.threads);
  if (!options.against.empty())
    return run::compare(**program, options);
  return run::evaluate(**program, options);
}

int main(int argc, char **argv) {
  avoidRefusedAmx(); // before LLVM's handlers, which would report the child's end
  llvm::InitLLVM initialize(argc, argv);
  run::Options options = run::parseOptions(argc, argv);
  if (run::isTraining() && !options.dryRun)
    return run::runTraining(options);
  llvm::Error error = runTool(options);
  if (!error)
    return EXIT_SUCCESS;
  llvm::WithColor::error(llvm::errs(), "cleave-run") << llvm::toString(std::move(error)) << "\n";
  return EXIT_FAILURE;
}
