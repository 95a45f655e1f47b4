//===- cleave-run.cpp - runs training programs --------------------------------===//
//
// Trains a program, evaluates it once, compares two programs, or says what a program will cost.
//
//===----------------------------------------------------------------------===//

#include "runtime/aten/CpuFeatures.h"
#include "runtime/environment/Environment.h"
#include "runtime/environment/OperatorLibrary.h"
#include "runtime/io/Error.h"
#include "runtime/ranks/StageMap.h"
#include "runtime/train/Agreement.h"
#include "tools/cleave-run/Against.h"
#include "tools/cleave-run/Devices.h"
#include "tools/cleave-run/DryRun.h"
#include "tools/cleave-run/Evaluate.h"
#include "tools/cleave-run/Initialize.h"
#include "tools/cleave-run/Ranks.h"
#include "tools/cleave-run/Training.h"
#include "tools/cleave-run/WholeStep.h"

#include "llvm/Support/Compiler.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <unistd.h>

using namespace cleave;
using namespace cleave::runtime;

/// On one of the ranks of `world`.
static llvm::Error evaluate(const run::Options &options, Communicator &world) {
  auto program = loadProgram(options.program, {world.rank(), world.size()});
  llvm::Error failure = program ? llvm::Error::success() : program.takeError();
  if (!failure && options.memoryLimit)
    failure = isRunBySchedule(**program, &world)
                  ? checkScheduleMemoryLimit(**program, *options.memoryLimit)
                  : checkMemoryLimit(**program, run::countMicrobatches(**program),
                                     options.weightGradients, *options.memoryLimit);
  if (llvm::Error error = agree(world, std::move(failure), "the program"))
    return error;
  if (options.wholeStep)
    return run::compareSteps(**program, world, options);
  return options.against.empty() ? run::evaluate(**program, world, options)
                                 : run::compare(**program, world, options);
}

static llvm::Error printCosts(const run::Options &options) {
  auto program = loadProgram(options.program);
  if (!program)
    return program.takeError();
  if (options.weightGradients == WeightGradients::Deferred)
    if (llvm::Error error = checkDeferrable(**program))
      return error;
  run::printCosts(**program, run::getMicrobatches(), options.weightGradients, llvm::outs());
  return llvm::Error::success();
}

/// Of this process, with the device that --device asks for. What is wrong is part of it: the text
/// is for reports.
static llvm::Error printEnvironment() {
  std::string refusal;
  RankEnvironment place;
  if (llvm::Expected<RankEnvironment> environment = RankEnvironment::detect())
    place = *environment;
  else
    refusal = llvm::toString(environment.takeError());
  llvm::Error error = run::loadDevice();
  OwnedDevice device;
  if (!error) {
    if (llvm::Expected<OwnedDevice> opened = run::openDevice(place))
      device = std::move(*opened);
    else
      error = opened.takeError();
  }
  llvm::outs() << describeEnvironment();
  if (!refusal.empty())
    llvm::outs() << "  refused: " << refusal << "\n";
  if (error)
    return error;
  return run::flushOutput();
}

/// In this process alone.
static llvm::Error runHere(const run::Options &options) {
  if (options.dryRun) {
    if (llvm::Error error = printCosts(options))
      return error;
    return run::flushOutput();
  }
  if (llvm::Error error = run::loadDevice())
    return error;
  installCachingAllocator();
  if (options.threads)
    setNumThreads(options.threads);
  llvm::Expected<OwnedDevice> device = run::openDevice(RankEnvironment());
  if (!device)
    return device.takeError();
  run::Options mine = options;
  mine.device = device->get();
  if (llvm::Error error = evaluate(mine, *makeSingleRankCommunicator()))
    return error;
  return run::flushOutput();
}

static int fail(llvm::Error error) {
  llvm::consumeError(run::flushOutput());
  llvm::WithColor::error(llvm::errs(), "cleave-run") << llvm::toString(std::move(error)) << "\n";
  return EXIT_FAILURE;
}

static int runTool(int argc, char **argv) {
  llvm::InitLLVM initialize(argc, argv);
  run::Options options = run::parseOptions(argc, argv);
  if (options.printEnvironment) {
    llvm::Error error = printEnvironment();
    return error ? fail(std::move(error)) : EXIT_SUCCESS;
  }
  if (llvm::Error error = checkTorchVersion())
    return fail(std::move(error));
  std::vector<NamedPath> inputs = run::listInputs(options), outputs = run::listOutputs(options);
  llvm::append_range(inputs, run::listTrainingInputs());
  llvm::append_range(outputs, run::listTrainingOutputs());
  if (llvm::Error error = checkOutputs(inputs, outputs))
    return fail(std::move(error));
  if (!options.dryRun) {
    for (const std::string &library : options.libraries)
      if (llvm::Error error = loadOperatorLibrary(library))
        return fail(std::move(error));
    llvm::StringRef unheeded =
        run::isTraining() ? "" : run::givenTrainingOption(options.wholeStep != 0);
    if (!unheeded.empty())
      return fail(makeError("expected --steps and --data with --{0}, which is for training; "
                            "without them the program is evaluated",
                            unheeded));
    if (!options.init.empty())
      if (llvm::Error error = run::initializeWeights(options))
        return fail(std::move(error));
    if (run::isTraining())
      return run::runTraining(options);
    if (run::hasRanks())
      return run::runOnRanks(options, [](Communicator &world, const run::Options &mine) {
        return evaluate(mine, world);
      });
  }
  llvm::Error error = runHere(options);
  return error ? fail(std::move(error)) : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  avoidRefusedAmx(); // before LLVM's handlers, which would report the child's end
  int status = runTool(argc, argv);
#if !LLVM_ADDRESS_SANITIZER_BUILD // which reports leaks at exit
  // PyTorch's destructors remove each operator from its tables: 0.1 s, a third of a short run.
  llvm::outs().flush();
  std::fflush(nullptr);
  ::_exit(status);
#endif
  return status;
}
