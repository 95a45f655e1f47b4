//===- PropagatePlacements.cpp - from annotations to a placed program --------===//

#include "lib/placement/propagate/Explain.h"
#include "passes/placement/Passes.h"

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
  LogicalResult readLinks(MachineModel &machine);
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

LogicalResult PropagatePlacements::readLinks(MachineModel &machine) {
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

void PropagatePlacements::runOnOperation() {
  ModuleOp module = getOperation();
  PropagateOptions options;
  options.strict = strict;
  options.uneven = uneven;
  if (failed(getOrAddMesh(module, mesh)) || failed(readLinks(options.machine)))
    return signalPassFailure();
  FailureOr<Propagation> propagation = propagate(module, options);
  if (failed(propagation))
    return signalPassFailure();
  Explanation explanation(*propagation);
  explanation.emitReplicatedRemarks();
  if (explain)
    explanation.emitRemarks();
  if (!explainJson.empty() && failed(writeExplanation(explanation, explainJson, module)))
    return signalPassFailure();
  write(*propagation);
}
