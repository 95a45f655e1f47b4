//===- Gathers.cpp - gathers of what was scattered -----------===//

#include "dialects/dist/Transitions.h"
#include "passes/placement/communication/Patterns.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;

namespace {

template <typename Op> struct Pattern : OpRewritePattern<Op> {
  Pattern(MLIRContext *context, SimplificationCounts &counts)
      : OpRewritePattern<Op>(context), counts(counts) {}
  SimplificationCounts &counts;
};

/// all_gather(convert(x from R or I to a slice)) is x.
struct GatherOfSlice : Pattern<dist::AllGatherOp> {
  using Pattern::Pattern;

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
    ++counts.gathersDropped;
    rewriter.replaceOp(gather, value);
    return success();
  }
};

/// all_gather(reduce_scatter(x)) is all_reduce(x): the same bytes, in one op.
struct GatherOfReduceScatter : Pattern<dist::AllGatherOp> {
  using Pattern::Pattern;

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
    ++counts.reductionsMerged;
    rewriter.replaceOpWithNewOp<dist::AllReduceOp>(gather, type, input, scatter.getReductionAttr(),
                                                   gather.getMeshAttr(), gather.getAxesAttr());
    return success();
  }
};

/// An op and the one that undoes it: fake_gather(fake_scatter(x)), all_to_all of its inverse.
struct FakeGatherOfFakeScatter : Pattern<dist::FakeGatherOp> {
  using Pattern::Pattern;

  LogicalResult matchAndRewrite(dist::FakeGatherOp gather,
                                PatternRewriter &rewriter) const override {
    Value part = getOnlyOperand(gather);
    auto scatter = part ? part.getDefiningOp<dist::FakeScatterOp>() : dist::FakeScatterOp();
    if (!scatter || scatter.getDim() != gather.getDim() || scatter.getMesh() != gather.getMesh() ||
        scatter.getAxes() != gather.getAxes() ||
        scatter.getInput().getType() != gather.getResult().getType())
      return failure();
    ++counts.gathersDropped;
    rewriter.replaceOp(gather, scatter.getInput());
    return success();
  }
};

struct AllToAllPair : Pattern<dist::AllToAllOp> {
  using Pattern::Pattern;

  LogicalResult matchAndRewrite(dist::AllToAllOp outer, PatternRewriter &rewriter) const override {
    Value middle = getOnlyOperand(outer);
    auto inner = middle ? getProducer<dist::AllToAllOp>(middle) : dist::AllToAllOp();
    if (!inner || inner.getSplit() != outer.getConcat() || inner.getConcat() != outer.getSplit() ||
        inner.getMesh() != outer.getMesh() || inner.getAxes() != outer.getAxes() ||
        inner.getInput().getType() != outer.getResult().getType())
      return failure();
    ++counts.gathersDropped;
    rewriter.replaceOp(outer, inner.getInput());
    return success();
  }
};

} // namespace

void cleave::placement::addGatherPatterns(RewritePatternSet &patterns,
                                          SimplificationCounts &counts) {
  patterns.add<GatherOfSlice, GatherOfReduceScatter, FakeGatherOfFakeScatter, AllToAllPair>(
      patterns.getContext(), counts);
}
