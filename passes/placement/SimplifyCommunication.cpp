//===- SimplifyCommunication.cpp - drop, merge and delay communication -------===//

#include "passes/placement/Passes.h"
#include "passes/placement/communication/Patterns.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace cleave;

namespace cleave::placement {
#define GEN_PASS_DEF_SIMPLIFYCOMMUNICATION
#include "passes/placement/Passes.h.inc"
} // namespace cleave::placement

namespace {

struct SimplifyCommunication : placement::impl::SimplifyCommunicationBase<SimplifyCommunication> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    placement::SimplificationCounts counts;
    RewritePatternSet set(&getContext());
    placement::addGatherPatterns(set, counts);
    placement::addConversionPatterns(set, counts);
    placement::addReductionPatterns(set, counts);
    FrozenRewritePatternSet patterns(std::move(set));
    // Slices of sums become reduce_scatters before sums are moved away from their slices; what is
    // moved may be next to others afterwards.
    if (failed(simplify(function, patterns)))
      return signalPassFailure();
    placement::delayReductions(function, counts);
    if (failed(simplify(function, patterns)))
      return signalPassFailure();
    numGathersDropped = counts.gathersDropped;
    numConversionsFolded = counts.conversionsFolded;
    numReductionsMerged = counts.reductionsMerged;
    numReductionsDelayed = counts.reductionsDelayed;
  }

  LogicalResult simplify(func::FuncOp function, const FrozenRewritePatternSet &patterns) {
    // Patterns only: what the ops of other dialects fold to is not this pass's business.
    return applyPatternsGreedily(
        function, patterns,
        GreedyRewriteConfig()
            .enableFolding(false)
            .enableConstantCSE(false)
            .setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled)
            .setMaxIterations(GreedyRewriteConfig::kNoLimit));
  }
};

} // namespace
