//===- DryRun.cpp - what a program will cost ----------------------------------===//

#include "tools/cleave-run/DryRun.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

using namespace cleave;
using namespace cleave::runtime;

void run::printCosts(const Program &program, int64_t microbatches, WeightGradients weightGradients,
                     llvm::raw_ostream &os) {
  os << "program " << program.name() << " (" << program.path() << ")\n"
     << "fingerprint " << program.fingerprint() << "\n";
  if (!program.mesh().empty()) {
    os << "mesh";
    for (const MeshAxis &axis : program.mesh())
      os << " \"" << axis.name << "\" = " << (axis.size ? std::to_string(axis.size) : "?");
    os << "\n";
  }
  auto printRank = [&](const llvm::Twine &where, int64_t count, const ProgramCosts &costs) {
    os << "\nmemory of " << where << ", " << count << " microbatch" << (count == 1 ? "" : "es")
       << " per step (bytes)\n"
       << describeMemory(costs) << "communication of a step\n"
       << describeCommunication(costs) << "floating-point operations of a step\n  "
       << llvm::format("%.4g", double(costs.flops)) << "\n";
  };
  ProgramCosts costs = computeCosts(program, microbatches, weightGradients);
  if (const ScheduleInfo *schedule = program.schedule()) {
    std::vector<ProgramCosts> ranks = computeScheduleCosts(program);
    for (auto [place, each] : llvm::enumerate(ranks))
      printRank("rank " + llvm::Twine(place) + " along \"" + schedule->axis + "\"",
                schedule->microbatches, each);
    os << "\n" << describeSchedule(program, ranks);
  } else {
    printRank("one rank", microbatches, costs);
  }

  int64_t total = 0;
  for (const auto &[name, count] : costs.ops)
    total += count;
  os << "\nops (" << total << ")\n";
  for (const auto &[name, count] : costs.ops)
    os << llvm::format("  %6lld ", static_cast<long long>(count)) << name << "\n";

  if (std::string kernels = describeKernels(program); !kernels.empty())
    os << "\n" << kernels;
}
