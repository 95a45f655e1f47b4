//===- PropagatePlacements.cpp - from annotations to a placed program --------===//

#include "lib/aten/OpCost.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/placement/propagate/Explain.h"
#include "passes/placement/Passes.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement::propagate;

namespace cleave::placement {
#define GEN_PASS_DEF_PROPAGATEPLACEMENTS
#include "passes/placement/Passes.h.inc"
} // namespace cleave::placement

namespace {

struct PropagatePlacements : placement::impl::PropagatePlacementsBase<PropagatePlacements> {
  using PropagatePlacementsBase::PropagatePlacementsBase;

  void runOnOperation() override;

private:
  LogicalResult readMachine(MachineModel &machine);
  LogicalResult readSolve(PropagateOptions &options);
  void report(const Propagation &propagation);
};

} // namespace

/// "100e9", or by axis: "dp=25e9,tp=300e9".
static LogicalResult readByAxis(ModuleOp module, StringRef option, StringRef text,
                                llvm::function_ref<void(StringRef, double)> set, bool mayBeZero) {
  SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    StringRef axis, number = part.trim();
    if (part.contains('='))
      std::tie(axis, number) = part.split('=');
    double value = 0;
    if (number.trim().getAsDouble(value) || !std::isfinite(value) || value < 0 ||
        (value == 0 && !mayBeZero))
      return module.emitError("expected ")
             << option << " as a number, or by axis as in 'dp=25e9,tp=300e9', found '" << text
             << "'";
    set(axis.trim(), value);
  }
  return success();
}

LogicalResult PropagatePlacements::readMachine(MachineModel &machine) {
  ModuleOp module = getOperation();
  auto setter = [&](double AxisLink::*field) {
    return [&machine, field](StringRef axis, double value) {
      if (axis.empty()) {
        machine.any.*field = value;
        for (auto &link : machine.links)
          link.second.*field = value;
        return;
      }
      machine.links.try_emplace(axis, machine.any).first->second.*field = value;
    };
  };
  if (failed(readByAxis(module, "bandwidth", bandwidth, setter(&AxisLink::bandwidth), false)) ||
      failed(readByAxis(module, "latency", latency, setter(&AxisLink::latency), true)))
    return failure();
  dist::MeshOp mesh = dist::getMesh(module);
  for (const auto &link : machine.links)
    if (mesh && !mesh.findAxis(link.first()))
      return mesh.emitError("has no axis \"")
             << link.first() << "\", for which the options give bandwidth or latency";
  if (!cluster.empty()) {
    auto isSet = [](const auto &option) { return option.getNumOccurrences() > 0; };
    if (isSet(bandwidth) || isSet(latency) || isSet(work))
      return module.emitError(
          "expects either 'cluster' or 'bandwidth', 'latency' and 'work', found "
          "both");
    llvm::Expected<cost::Cluster> read = cost::Library::readCluster(cluster);
    if (!read)
      return module.emitError(llvm::toString(read.takeError()));
    if (failed(aten::checkRates(module, *read)))
      return failure();
    machine.cluster = std::move(*read);
  }
  machine.work = work;
  machine.microbatches = microbatches;
  if (!(machine.work >= 0) || !std::isfinite(machine.work))
    return module.emitError("expected a nonnegative number for work, found ")
           << static_cast<double>(work);
  if (microbatches < 1)
    return module.emitError("expected at least one microbatch, found ")
           << static_cast<unsigned>(microbatches);
  return success();
}

LogicalResult PropagatePlacements::readSolve(PropagateOptions &options) {
  ModuleOp module = getOperation();
  auto isSet = [](const auto &option) { return option.getNumOccurrences() > 0; };
  if (!solve) {
    if (isSet(memory) || isSet(seed) || isSet(moves) || isSet(gap))
      return module.emitError("expects 'memory', 'seed', 'moves' and 'gap' with 'solve' only");
    return success();
  }
  if (explain || !explainJson.empty())
    return module.emitError(
        "cannot explain what 'solve' decides: choices are made together, not one "
        "after the other; leave out 'explain' and 'explain-json'");
  if (uneven)
    return module.emitError("expects shards of the same size with 'solve', found 'uneven'");
  SolveOptions &solving = options.solve.emplace();
  solving.seed = seed;
  solving.moves = moves;
  if (!(gap >= 0) || gap >= 1)
    return module.emitError("expected a number from 0 to below 1 for gap, found ")
           << static_cast<double>(gap);
  solving.gap = gap;
  if (!(memory >= 0) || memory > 1e18)
    return module.emitError("expected a number of bytes for memory, found ")
           << static_cast<double>(memory);
  if (memory > 0)
    solving.memory = static_cast<int64_t>(memory);
  return success();
}

/// In the unit that leaves one to three digits before the point.
static std::string printSeconds(double seconds) {
  if (seconds >= 1)
    return llvm::formatv("{0:f4} s", seconds);
  if (seconds >= 1e-3)
    return llvm::formatv("{0:f4} ms", seconds * 1e3);
  return llvm::formatv("{0:f4} us", seconds * 1e6);
}

void PropagatePlacements::report(const Propagation &propagation) {
  auto [found, bound, held] = *propagation.report;
  numCost = static_cast<uint64_t>(found * 1e9);
  numBound = static_cast<uint64_t>(bound * 1e9);
  double gap = found > 0 ? 100 * (found - bound) / found : 0;
  // A gap that is not closed is never shown as 0.
  std::string percent =
      gap > 0 && gap < 0.01 ? "below 0.01" : std::string(llvm::formatv("{0:f2}", gap));
  InFlightDiagnostic remark = propagation.mesh->emitRemark();
  remark << "a step costs " << printSeconds(found)
         << " as placed; no placement of the program costs less than " << printSeconds(bound)
         << " (gap " << percent << " %)";
  if (held)
    remark << "; a rank holds at most " << memory::describeBytes(*held);
}

void PropagatePlacements::runOnOperation() {
  ModuleOp module = getOperation();
  PropagateOptions options;
  options.strict = strict;
  options.uneven = uneven;
  if (failed(getOrAddMesh(module, mesh)) || failed(readMachine(options.machine)) ||
      failed(readSolve(options)))
    return signalPassFailure();
  FailureOr<Propagation> propagation = propagate(module, options);
  if (failed(propagation))
    return signalPassFailure();
  Explanation explanation(*propagation);
  explanation.emitReplicatedRemarks();
  if (propagation->report)
    report(*propagation);
  if (explain)
    explanation.emitRemarks();
  if (!explainJson.empty() && failed(writeExplanation(explanation, explainJson, module)))
    return signalPassFailure();
  write(*propagation);
}
