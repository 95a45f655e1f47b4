//===- CostTable.cpp - a program's memory as text, and its limit -------------===//

#include "cleave/Session.h"
#include "lib/memory/MemoryPlan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave::runtime;
namespace memory = cleave::memory;

std::string cleave::runtime::describeBytes(int64_t bytes) {
  return memory::describeBytes(bytes);
}

std::string cleave::runtime::describeMemory(const ProgramCosts &costs) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto line = [&](llvm::StringRef what, int64_t bytes) {
    os << "  " << llvm::left_justify(what, 24) << llvm::right_justify(describeBytes(bytes), 12)
       << llvm::format("%16lld\n", static_cast<long long>(bytes));
  };
  line("parameters", costs.parameterBytes);
  line("buffers and constants", costs.bufferBytes);
  line("optimizer state", costs.optimizerStateBytes);
  line("inputs", costs.inputBytes);
  line("gradients", costs.gradientBytes);
  if (costs.bucketBytes)
    line("of these in buckets", costs.bucketBytes);
  if (costs.gatheredBytes)
    line("gathered parameters", costs.gatheredBytes);
  if (costs.savedBytes)
    line("saved for the backward", costs.savedBytes);
  if (costs.deferredBytes)
    line("waiting for weights", costs.deferredBytes);
  line("activations, peak", costs.activationPeakBytes);
  if (costs.arenaBytes)
    line("arena", costs.arenaBytes);
  if (costs.frameBytes)
    line("frames of microbatches", costs.frameBytes);
  line("peak of a step", costs.peakBytes);
  if (costs.hostPeakBytes)
    line("peak in host memory", costs.hostPeakBytes);
  return text;
}

std::string cleave::runtime::describeCommunication(const ProgramCosts &costs) {
  if (costs.communication.empty())
    return "  none\n";
  std::string text;
  llvm::raw_string_ostream os(text);
  CommunicationCosts sum;
  for (const CommunicationCosts &each : costs.communication) {
    sum.count += each.count;
    sum.bytes += each.bytes;
    sum.sentBytes += each.sentBytes;
    os << "  " << llvm::left_justify(each.op + " over " + each.axes, 36)
       << llvm::right_justify(std::to_string(each.count), 8)
       << llvm::right_justify(describeBytes(each.bytes), 12) << ", sent "
       << llvm::right_justify(describeBytes(each.sentBytes), 12) << "\n";
  }
  os << "  " << sum.count << " communications, " << describeBytes(sum.bytes) << " (" << sum.bytes
     << " bytes), of which a rank sends " << describeBytes(sum.sentBytes) << " (" << sum.sentBytes
     << " bytes)\n";
  return text;
}

llvm::Error cleave::runtime::checkMemoryLimit(const Program &program, int64_t microbatches,
                                              WeightGradients weightGradients, int64_t limit) {
  ProgramCosts costs = computeCosts(program, microbatches, weightGradients);
  if (costs.peakBytes <= limit)
    return llvm::Error::success();
  return llvm::createStringError(
      llvm::inconvertibleErrorCode(),
      llvm::formatv("program '{0}' needs {1} of memory on a rank with {2} microbatch{3} per step, "
                    "more than --memory-limit {4}:\n{5}",
                    program.path(), describeBytes(costs.peakBytes), microbatches,
                    microbatches == 1 ? "" : "es", describeBytes(limit),
                    llvm::StringRef(describeMemory(costs)).rtrim()));
}
