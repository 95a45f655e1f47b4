//===- pack-buffers.cpp - offsets of buffers within a capacity ---------------===//
//
// Reads when buffers are live and how large they are, writes one offset a line, and prints what was
// reached as JSON.
//
//===----------------------------------------------------------------------===//

#include "lib/solve/InstanceFile.h"
#include "lib/solve/OutputFile.h"
#include "lib/solve/Packing.h"
#include "lib/solve/Timer.h"
#include "lib/support/Error.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;
using namespace cleave;
using namespace cleave::solve;

static cl::OptionCategory category("pack-buffers options");
static cl::opt<std::string> inputOption(cl::Positional, cl::Required, cl::cat(category),
                                        cl::value_desc("buffers.csv"),
                                        cl::desc("<buffers.csv: id,lower,upper,size>"));
static cl::opt<int64_t> capacityOption("capacity", cl::cat(category), cl::Required,
                                       cl::value_desc("N"), cl::desc("Bytes there are"));
static cl::opt<std::string> limitOption("time-limit", cl::cat(category), cl::init("60"),
                                        cl::value_desc("seconds"),
                                        cl::desc("Time in all (60 if not given)"));
static cl::opt<uint64_t> seedOption("seed", cl::cat(category), cl::init(1), cl::value_desc("N"),
                                    cl::desc("Seed of the search (1 if not given)"));
static cl::opt<std::string> outputOption("o", cl::cat(category), cl::value_desc("file"),
                                         cl::Required,
                                         cl::desc("Write one offset a line, by buffer"));

static llvm::Error run(Timer &timer) {
  if (llvm::Error error = timer.setLimit(limitOption))
    return error;
  if (capacityOption < 0)
    return makeError("--capacity: expected 0 or more, found {0}", capacityOption.getValue());
  auto text = readText(inputOption);
  if (!text)
    return text.takeError();
  auto buffers = parseBuffers(*text, inputOption, capacityOption);
  if (!buffers)
    return buffers.takeError();
  auto output = openOutput(outputOption, inputOption);
  if (!output)
    return output.takeError();
  Packing packing =
      pack(*buffers, capacityOption, seedOption, [&] { return timer.isOver(/*reserve=*/0.05); });
  bool isFeasible = isPacking(*buffers, packing.offsets) && packing.height <= capacityOption;
  std::string offsets;
  for (int64_t offset : packing.offsets)
    offsets += std::to_string(offset) + '\n';
  if (llvm::Error error = writeText(**output, offsets))
    return error;
  llvm::outs() << llvm::formatv(
      "{{\"height\": {0}, \"lower_bound\": {1}, \"feasible\": {2}, \"seconds\": {3:f3}}\n",
      packing.height, packing.lowerBound, isFeasible ? "true" : "false", timer.getSeconds());
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  Timer timer;
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, "Places buffers within a capacity\n");
  stopOnSignal();
  if (llvm::Error error = run(timer)) {
    llvm::WithColor::error(llvm::errs()) << llvm::toString(std::move(error)) << '\n';
    return 1;
  }
}
