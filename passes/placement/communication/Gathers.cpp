//===- Gathers.cpp - gathers of what was scattered -----------===//

#include "dialects/dist/Transitions.h"
#include "passes/placement/communication/Patterns.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;

namespace {

/// all_gather(convert(x from R or I to a slice)) is x.
struct GatherOfSlice : OpRewritePattern<dist::AllGatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::AllGatherOp gather,
                                PatternRewriter &rewriter) const override {
    Value slice = getOnlyOperand(gather);
    auto convert = slice ? slice.getDefiningOp<dist::ConvertOp>() : dist::ConvertOp();
    if (!convert || !convert.getSource().isSameOnAllRanks() ||
        convert.getAxis() != getOnlyAxis(gather) ||
        convert.getSlicedDim() != std::optional<int64_t>(gather.getDim()))
      return failure();
    Value value =
        convertTo(rewriter, gather.getLoc(), convert.getInput(), gather->getResult(0).getType());
    if (!value)
      return failure();
    rewriter.replaceOp(gather, value);
    return success();
  }
};

/// all_gather(reduce_scatter(x)) is all_reduce(x): the same bytes, in one op.
struct GatherOfReduceScatter : OpRewritePattern<dist::AllGatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::AllGatherOp gather,
                                PatternRewriter &rewriter) const override {
    Value part = getOnlyOperand(gather);
    auto scatter = part ? getProducer<dist::ReduceScatterOp>(part) : dist::ReduceScatterOp();
    if (!scatter || !part.hasOneUse() || scatter.getDim() != gather.getDim() ||
        scatter.getMesh() != gather.getMesh() || scatter.getAxes() != gather.getAxes())
      return failure();
    Value input = scatter->getOperand(0);
    Type type = gather->getResult(0).getType();
    dist::PlacementAttr source = dist::getPlacement(input.getType()),
                        destination = dist::getPlacement(type);
    if (!source || !destination)
      return failure();
    for (auto axis : gather.getAxes().getAsRange<StringAttr>()) {
      dist::AxisPlacement from = *source.get(axis), to = *destination.get(axis);
      const dist::Transition *row = dist::findTransition("all_reduce", from.kind, to.kind);
      if (!row || !dist::takesReduction(*row, from, to, scatter.getReduction().getKind()))
        return failure();
    }
    rewriter.replaceOpWithNewOp<dist::AllReduceOp>(gather, type, input, scatter.getReductionAttr(),
                                                   gather.getMeshAttr(), gather.getAxesAttr());
    return success();
  }
};

/// fake_gather(fake_scatter(x)) folds to x.
struct FakeGatherOfFakeScatter : OpRewritePattern<dist::FakeGatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::FakeGatherOp gather,
                                PatternRewriter &rewriter) const override {
    SmallVector<Value, 1> folded;
    if (failed(rewriter.tryFold(gather, folded)) || folded.empty())
      return failure();
    rewriter.replaceOp(gather, folded);
    return success();
  }
};

/// all_to_all of its inverse.
struct AllToAllPair : OpRewritePattern<dist::AllToAllOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::AllToAllOp outer, PatternRewriter &rewriter) const override {
    Value middle = getOnlyOperand(outer);
    auto inner = middle ? getProducer<dist::AllToAllOp>(middle) : dist::AllToAllOp();
    if (!inner || inner.getSplit() != outer.getConcat() || inner.getConcat() != outer.getSplit() ||
        inner.getMesh() != outer.getMesh() || inner.getAxes() != outer.getAxes() ||
        inner.getInput().getType() != outer.getResult().getType())
      return failure();
    rewriter.replaceOp(outer, inner.getInput());
    return success();
  }
};

} // namespace

void cleave::placement::addGatherPatterns(RewritePatternSet &patterns) {
  patterns.addWithLabel<GatherOfSlice, FakeGatherOfFakeScatter, AllToAllPair>(
      {kGathersDropped}, patterns.getContext());
  patterns.addWithLabel<GatherOfReduceScatter>({kReductionsMerged}, patterns.getContext());
}
