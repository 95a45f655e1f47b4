//===- solve-sharding.cpp - the cheapest choices under a limit of memory ----===//
//
// Reads a problem, writes one choice a line, and prints cost and bound as JSON.
//
//===----------------------------------------------------------------------===//

#include "lib/solve/InstanceFile.h"
#include "lib/solve/OutputFile.h"
#include "lib/solve/Solve.h"
#include "lib/solve/Timer.h"
#include "lib/support/Error.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;
using namespace cleave;
using namespace cleave::solve;

static cl::OptionCategory category("solve-sharding options");
static cl::opt<std::string> inputOption(cl::Positional, cl::Required, cl::cat(category),
                                        cl::value_desc("problem.iop.gz"),
                                        cl::desc("<problem.iop.gz, or its text>"));
static cl::opt<std::string>
    limitOption("time-limit", cl::cat(category), cl::init("60"), cl::value_desc("seconds"),
                cl::desc("Time in all, with reading and checking (60 if not given)"));
static cl::opt<uint64_t> seedOption("seed", cl::cat(category), cl::init(1), cl::value_desc("N"),
                                    cl::desc("Seed of the search (1 if not given)"));
static cl::opt<uint64_t>
    movesOption("moves", cl::cat(category), cl::value_desc("N"),
                cl::desc("Moves of the search: with them, the same seed gives the same result"));
static cl::opt<std::string> traceOption("trace", cl::cat(category), cl::value_desc("file.csv"),
                                        cl::desc("Write cost and bound over time"));
static cl::opt<std::string> outputOption("o", cl::cat(category), cl::value_desc("file"),
                                         cl::Required,
                                         cl::desc("Write one choice a line, by node"));

static llvm::Error run(Timer &timer) {
  if (llvm::Error error = timer.setLimit(limitOption))
    return error;
  if (movesOption.getNumOccurrences() && movesOption == 0)
    return makeError("--moves: expected 1 or more, found 0");
  auto problem = readProblem(inputOption);
  if (!problem)
    return problem.takeError();
  auto output = openOutput(outputOption, inputOption);
  if (!output)
    return output.takeError();
  std::unique_ptr<llvm::ToolOutputFile> traceFile;
  if (traceOption.getNumOccurrences())
    if (llvm::Error error = openOutput(traceOption, inputOption).moveInto(traceFile))
      return error;

  SolveOptions options;
  options.start = timer.getStart();
  options.deadline = timer.getDeadline();
  options.seed = seedOption;
  options.stop = &isSignalled;
  if (movesOption.getNumOccurrences())
    options.moves = movesOption;
  std::string trace = "seconds,cost,lower_bound\n";
  options.report = [&](const Progress &progress) {
    trace += llvm::formatv("{0:f2},{1},{2}\n", progress.seconds,
                           progress.cost ? toString(*progress.cost) : "",
                           progress.bound ? toString(*progress.bound) : "");
  };
  SolveResult result = solve::solve(*problem, options);

  if (result.assignment) {
    std::string text;
    for (unsigned choice : *result.assignment)
      text += std::to_string(choice) + '\n';
    if (llvm::Error error = writeText(**output, text))
      return error;
  }
  if (traceFile)
    if (llvm::Error error = writeText(*traceFile, trace))
      return error;
  std::string bound = "null";
  if (result.bound.isInfeasible)
    bound = "\"infeasible\"";
  else if (result.hasBound)
    bound = toString(result.bound.cost);
  llvm::outs() << llvm::formatv(
      "{{\"cost\": {0}, \"lower_bound\": {1}, \"feasible\": {2}, \"seconds\": {3:f3}}\n",
      result.assignment ? toString(result.cost) : "null", bound,
      result.assignment ? "true" : "false", timer.getSeconds());
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  Timer timer;
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv,
                              "Chooses one strategy for each node, under a limit of memory\n");
  stopOnSignal();
  if (llvm::Error error = run(timer)) {
    llvm::WithColor::error(llvm::errs()) << llvm::toString(std::move(error)) << '\n';
    return 1;
  }
}
