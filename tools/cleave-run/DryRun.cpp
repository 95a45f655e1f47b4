//===- DryRun.cpp - what a program will cost ----------------------------------===//

#include "tools/cleave-run/DryRun.h"

#include "llvm/Support/Format.h"

using namespace cleave;
using namespace cleave::runtime;

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
  auto printMemory = [&](const llvm::Twine &where, int64_t count, const ProgramCosts &memory) {
    os << "\nmemory of " << where << ", " << count << " microbatch" << (count == 1 ? "" : "es")
       << " per step (bytes)\n"
       << describeMemory(memory);
  };
  if (const ScheduleInfo *schedule = program.schedule()) {
    for (int64_t place = 0; place < schedule->ranks; ++place)
      printMemory("rank " + llvm::Twine(place) + " along \"" + schedule->axis + "\"",
                  schedule->microbatches, computeStageCosts(program, place));
    os << "\n" << describeSchedule(program);
  } else {
    printMemory("one rank", microbatches, costs);
  }

  int64_t total = 0;
  for (const auto &[name, count] : costs.ops)
    total += count;
  os << "\nops (" << total << ")\n";
  for (const auto &[name, count] : costs.ops)
    os << llvm::format("  %6lld ", static_cast<long long>(count)) << name << "\n";

  if (std::string kernels = describeKernels(program); !kernels.empty())
    os << "\n" << kernels;

  os << "\ncommunication of a step\n";
  if (costs.collectives == 0)
    os << "  none\n";
  else
    os << "  " << costs.collectives << " collectives, " << describeBytes(costs.collectiveBytes)
       << " (" << costs.collectiveBytes << " bytes)\n";
}
