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

/// Counts the patterns that were applied, by their labels.
struct Counter : RewriterBase::Listener {
  void notifyPatternEnd(const Pattern &pattern, LogicalResult status) override {
    if (succeeded(status))
      ++counts[pattern.getDebugLabels().front()];
  }
  llvm::StringMap<unsigned> counts;
};

struct SimplifyCommunication : placement::impl::SimplifyCommunicationBase<SimplifyCommunication> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    placement::addGatherPatterns(set);
    placement::addConversionPatterns(set);
    placement::addReductionPatterns(set);
    patterns = FrozenRewritePatternSet(std::move(set));
    return success();
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    Counter counter;
    // Slices of sums become reduce_scatters before sums are moved away from their slices; what is
    // moved may be next to others afterwards.
    if (failed(simplify(function, counter)))
      return signalPassFailure();
    numReductionsDelayed += placement::delayReductions(function);
    if (failed(simplify(function, counter)))
      return signalPassFailure();
    numGathersDropped += counter.counts.lookup(placement::kGathersDropped);
    numConversionsFolded += counter.counts.lookup(placement::kConversionsFolded);
    numReductionsMerged += counter.counts.lookup(placement::kReductionsMerged);
  }

  LogicalResult simplify(func::FuncOp function, Counter &counter) {
    // Patterns only: what the ops of other dialects fold to is not this pass's business.
    return applyPatternsGreedily(
        function, patterns,
        GreedyRewriteConfig()
            .enableFolding(false)
            .enableConstantCSE(false)
            .setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled)
            .setMaxIterations(GreedyRewriteConfig::kNoLimit)
            .setListener(&counter));
  }

  FrozenRewritePatternSet patterns;
};

} // namespace
