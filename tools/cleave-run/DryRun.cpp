//===- DryRun.cpp - what a program will cost ----------------------------------===//

#include "tools/cleave-run/DryRun.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;
using namespace cleave::runtime;

/// "1.5 MiB"
static std::string describeBytes(int64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  return llvm::formatv(unit ? "{0:f1} {1}" : "{0:f0} {1}", value, units[unit]).str();
}

void run::printCosts(const Program &program, int64_t microbatches, WeightGradients weightGradients,
                     llvm::raw_ostream &os) {
  ProgramCosts costs = computeCosts(program, microbatches, weightGradients);
  os << "program " << program.name() << " (" << program.path() << ")\n"
     << "fingerprint " << program.fingerprint() << "\n";
  if (!program.mesh().empty()) {
    os << "mesh";
    for (const MeshAxis &axis : program.mesh())
      os << " \"" << axis.name << "\" = " << (axis.size ? std::to_string(axis.size) : "?");
    os << "\n";
  }
  auto line = [&](llvm::StringRef what, int64_t bytes) {
    os << "  " << llvm::left_justify(what, 24) << llvm::right_justify(describeBytes(bytes), 12)
       << llvm::format("%16lld\n", static_cast<long long>(bytes));
  };
  os << "\nmemory of one rank, " << microbatches
     << (microbatches == 1 ? " microbatch a step (bytes)\n" : " microbatches a step (bytes)\n");
  line("parameters", costs.parameterBytes);
  line("buffers and constants", costs.bufferBytes);
  line("optimizer state", costs.optimizerStateBytes);
  line("inputs", costs.inputBytes);
  line("gradients", costs.gradientBytes);
  if (costs.bucketBytes)
    line("of these in buckets", costs.bucketBytes);
  if (program.microbatchPhases().size() > 1)
    line("saved for the backward", costs.savedBytes);
  if (weightGradients == WeightGradients::Deferred)
    line("waiting for weights", costs.deferredBytes);
  line("activations, peak", costs.activationPeakBytes);
  line("peak of a step", costs.peakBytes);

  int64_t total = 0;
  for (const auto &[name, count] : costs.ops)
    total += count;
  os << "\nops (" << total << ")\n";
  for (const auto &[name, count] : costs.ops)
    os << llvm::format("  %6lld ", static_cast<long long>(count)) << name << "\n";

  os << "\ncommunication of a step\n";
  if (costs.collectives == 0)
    os << "  none\n";
  else
    os << "  " << costs.collectives << " collectives, " << describeBytes(costs.collectiveBytes)
       << " (" << costs.collectiveBytes << " bytes)\n";
}
