//===- Reductions.cpp - reductions that merge with their neighbours -------===//

#include "dialects/dist/Transitions.h"
#include "passes/placement/communication/Patterns.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using dist::PlacementAttr;
using dist::Reduction;

namespace {

/// Reducing what all ranks have alike changes nothing.
bool isIdempotent(Reduction reduction) {
  switch (reduction) {
  case Reduction::Max:
  case Reduction::Min:
  case Reduction::Avg:
  case Reduction::BitAnd:
  case Reduction::BitOr:
    return true;
  default:
    return false;
  }
}

/// all_reduce over b of all_reduce over a is all_reduce over both; over the same axes again, it is
/// nothing if the reduction is idempotent (types refuse it, but of V to V).
struct AllReducePair : OpRewritePattern<dist::AllReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::AllReduceOp outer, PatternRewriter &rewriter) const override {
    Value middle = getOnlyOperand(outer);
    auto inner = middle ? getProducer<dist::AllReduceOp>(middle) : dist::AllReduceOp();
    Reduction reduction = outer.getReduction().getKind();
    if (!inner || inner.getReduction() != outer.getReduction() ||
        inner.getMesh() != outer.getMesh() || reduction == Reduction::PremulSum)
      return failure();
    if (inner.getAxes() == outer.getAxes() && isIdempotent(reduction) &&
        middle.getType() == outer->getResult(0).getType()) {
      rewriter.replaceOp(outer, middle);
      return success();
    }
    bool shares = llvm::any_of(
        inner.getAxes(), [&](Attribute axis) { return llvm::is_contained(outer.getAxes(), axis); });
    if (shares || !middle.hasOneUse())
      return failure();
    SmallVector<Attribute> axes(inner.getAxes().begin(), inner.getAxes().end());
    llvm::append_range(axes, outer.getAxes());
    if (!makesOneTransition(inner->getOperand(0).getType(), outer->getResult(0).getType(), axes))
      return failure();
    rewriter.replaceOpWithNewOp<dist::AllReduceOp>(
        outer, outer->getResultTypes(), inner->getOperands(), outer.getReductionAttr(),
        outer.getMeshAttr(), rewriter.getArrayAttr(axes));
    return success();
  }
};

/// reduce_scatter over b of reduce_scatter over a, along the same dimension, is reduce_scatter over
/// both, a being major.
struct ReduceScatterPair : OpRewritePattern<dist::ReduceScatterOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::ReduceScatterOp outer,
                                PatternRewriter &rewriter) const override {
    Value middle = getOnlyOperand(outer);
    auto inner = middle ? getProducer<dist::ReduceScatterOp>(middle) : dist::ReduceScatterOp();
    if (!inner || inner.getReduction() != outer.getReduction() ||
        inner.getDim() != outer.getDim() || inner.getMesh() != outer.getMesh() ||
        !middle.hasOneUse() || outer.getReduction().getKind() == Reduction::PremulSum)
      return failure();
    SmallVector<Attribute> axes(inner.getAxes().begin(), inner.getAxes().end());
    llvm::append_range(axes, outer.getAxes());
    // Chunks of V may differ in size, and those of chunks are then other ones.
    Type from = inner->getOperand(0).getType(), to = outer->getResult(0).getType();
    PlacementAttr placement = dist::getPlacement(to);
    if (!placement || !makesOneTransition(from, to, axes) ||
        !llvm::all_of(axes, [&](Attribute axis) {
          std::optional<AxisPlacement> entry = placement.get(cast<StringAttr>(axis));
          return entry && entry->isShard();
        }))
      return failure();
    rewriter.replaceOpWithNewOp<dist::ReduceScatterOp>(
        outer, outer->getResultTypes(), inner->getOperands(), outer.getReductionAttr(),
        outer.getDimAttr(), outer.getMeshAttr(), rewriter.getArrayAttr(axes));
    return success();
  }
};

/// The local slice of an all_reduce is a reduce_scatter over the axis, and an all_reduce over its
/// other axes.
struct SliceOfAllReduce : OpRewritePattern<dist::ConvertOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::ConvertOp slice, PatternRewriter &rewriter) const override {
    auto reduce = getProducer<dist::AllReduceOp>(slice.getInput());
    std::optional<int64_t> dim = slice.getSlicedDim();
    StringAttr axis = slice.getAxis();
    if (!reduce || !dim || !slice.getInput().hasOneUse() || !slice.getSource().isSameOnAllRanks() ||
        !llvm::is_contained(reduce.getAxes(), axis))
      return failure();
    Value input = reduce->getOperand(0);
    Reduction reduction = reduce.getReduction().getKind();
    AxisPlacement source = *dist::getPlacement(input.getType()).get(axis),
                  destination = slice.getDestination();
    const dist::Transition *row =
        dist::findTransition("reduce_scatter", source.kind, destination.kind);
    if (!row || !dist::takesReduction(*row, source, destination, reduction))
      return failure();
    SmallVector<Attribute> others;
    llvm::copy_if(reduce.getAxes(), std::back_inserter(others),
                  [&](Attribute other) { return other != axis; });
    // The factor would be in it twice.
    if (!others.empty() && reduction == Reduction::PremulSum)
      return failure();
    RankedTensorType type = dist::withPlacement(
        slice.getType(), dist::getPlacement(input.getType()).with(axis, destination));
    auto scatter = dist::ReduceScatterOp::create(
        rewriter, slice.getLoc(), type, input, reduce.getReductionAttr(),
        rewriter.getI64IntegerAttr(*dim), reduce.getMeshAttr(), rewriter.getArrayAttr(axis));
    if (others.empty())
      rewriter.replaceOp(slice, scatter);
    else
      rewriter.replaceOpWithNewOp<dist::AllReduceOp>(
          slice, slice->getResultTypes(), scatter->getResults(), reduce.getReductionAttr(),
          reduce.getMeshAttr(), rewriter.getArrayAttr(others));
    return success();
  }
};

/// The convert to P before a sum over its axis only, or null: the sum puts together what the
/// convert has split.
dist::ConvertOp getPadding(Value value, StringAttr axis, Reduction reduction) {
  auto convert = value ? value.getDefiningOp<dist::ConvertOp>() : dist::ConvertOp();
  bool fits = convert && axis && reduction == Reduction::Sum && convert.getAxis() == axis &&
              convert.getDestination().isPartialSum();
  return fits ? convert : dist::ConvertOp();
}

/// reduce_scatter(convert(x from a slice to P)) is x.
struct ScatterOfPadding : OpRewritePattern<dist::ReduceScatterOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::ReduceScatterOp scatter,
                                PatternRewriter &rewriter) const override {
    dist::ConvertOp convert =
        getPadding(getOnlyOperand(scatter), getOnlyAxis(scatter), scatter.getReduction().getKind());
    if (!convert || convert.getSlicedDim() != std::optional<int64_t>(scatter.getDim()) ||
        convert.getInput().getType() != scatter->getResult(0).getType())
      return failure();
    rewriter.replaceOp(scatter, convert.getInput());
    return success();
  }
};

/// all_reduce(convert(x from a slice to P)) is all_gather(x); from R or I it is x.
struct AllReduceOfPadding : OpRewritePattern<dist::AllReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::AllReduceOp reduce,
                                PatternRewriter &rewriter) const override {
    dist::ConvertOp convert =
        getPadding(getOnlyOperand(reduce), getOnlyAxis(reduce), reduce.getReduction().getKind());
    if (!convert)
      return failure();
    Type type = reduce->getResult(0).getType();
    if (std::optional<int64_t> dim = convert.getSlicedDim()) {
      rewriter.replaceOpWithNewOp<dist::AllGatherOp>(reduce, type, convert.getInput(),
                                                     rewriter.getI64IntegerAttr(*dim),
                                                     reduce.getMeshAttr(), reduce.getAxesAttr());
    } else {
      Value value = convertTo(rewriter, reduce.getLoc(), convert.getInput(), type);
      if (!value)
        return failure();
      rewriter.replaceOp(reduce, value);
    }
    return success();
  }
};

} // namespace

void cleave::placement::addReductionPatterns(RewritePatternSet &patterns) {
  patterns.addWithLabel<AllReducePair, ReduceScatterPair, SliceOfAllReduce, ScatterOfPadding,
                        AllReduceOfPadding>({kReductionsMerged}, patterns.getContext());
}
