//===- ViewFolding.cpp - views of views ---------------------------------------===//
//
// Only what leaves strides, and with them the bits that kernels compute, as they were: a fold
// drops a view that changes nothing, or replaces two views by one with the same strides. Folds run
// before differentiation too, so gradients have to pass what is left as they passed what was there:
// `detach` stays.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/Shapes.h"
#include "dialects/aten/ops/View.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace cleave::aten;

static int64_t wrapped(int64_t dim, int64_t rank) {
  return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim;
}

/// `self` if the result has its type, so that the view changes nothing.
static OpFoldResult foldToSelf(Value self, Value result) {
  return self.getType() == result.getType() ? OpFoldResult(self) : OpFoldResult();
}

OpFoldResult AliasOp::fold(FoldAdaptor) {
  return foldToSelf(getSelf(), getResult());
}

OpFoldResult ViewOp::fold(FoldAdaptor) {
  return foldToSelf(getSelf(), getResult());
}

/// view(view(x)) is view(x): row-major order is kept by each, and what is viewable after the first
/// is so before it.
LogicalResult ViewOp::canonicalize(ViewOp op, PatternRewriter &rewriter) {
  auto inner = op.getSelf().getDefiningOp<ViewOp>();
  if (!inner)
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    op.setSize(shapeOf(op.getResult()));
    op.getSelfMutable().assign(inner.getSelf());
  });
  return success();
}

/// expand(expand(x)) is expand(x); an expand to the same shape changes nothing.
OpFoldResult ExpandOp::fold(FoldAdaptor) {
  if (OpFoldResult same = foldToSelf(getSelf(), getResult()))
    return same;
  auto inner = getSelf().getDefiningOp<ExpandOp>();
  if (!inner)
    return {};
  setSize(shapeOf(getResult()));
  getSelfMutable().assign(inner.getSelf());
  return getResult();
}

/// t(t(x)) is x.
OpFoldResult TOp::fold(FoldAdaptor) {
  if (rankOf(getSelf()) < 2)
    return foldToSelf(getSelf(), getResult());
  auto inner = getSelf().getDefiningOp<TOp>();
  return inner ? foldToSelf(inner.getSelf(), getResult()) : OpFoldResult();
}

/// A dimension exchanged with itself, or the same exchange twice, changes nothing.
OpFoldResult TransposeOp::fold(FoldAdaptor) {
  int64_t rank = rankOf(getSelf());
  auto pair = [&](TransposeOp op) {
    return std::minmax({wrapped(op.getDim0(), rank), wrapped(op.getDim1(), rank)});
  };
  if (pair(*this).first == pair(*this).second)
    return foldToSelf(getSelf(), getResult());
  auto inner = getSelf().getDefiningOp<TransposeOp>();
  if (inner && pair(inner) == pair(*this))
    return foldToSelf(inner.getSelf(), getResult());
  return {};
}

OpFoldResult PermuteOp::fold(FoldAdaptor) {
  int64_t rank = rankOf(getSelf());
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (wrapped(dim, rank) != int64_t(i))
      return {};
  return foldToSelf(getSelf(), getResult());
}

/// permute(permute(x)) is one permute of x.
LogicalResult PermuteOp::canonicalize(PermuteOp op, PatternRewriter &rewriter) {
  auto inner = op.getSelf().getDefiningOp<PermuteOp>();
  if (!inner)
    return failure();
  int64_t rank = rankOf(op.getSelf());
  Shape dims;
  for (int64_t dim : op.getDims())
    dims.push_back(wrapped(inner.getDims()[wrapped(dim, rank)], rank));
  rewriter.modifyOpInPlace(op, [&] {
    op.setDims(dims);
    op.getSelfMutable().assign(inner.getSelf());
  });
  return success();
}

OpFoldResult SqueezeOp::fold(FoldAdaptor) {
  return foldToSelf(getSelf(), getResult());
}

OpFoldResult SqueezeDimsOp::fold(FoldAdaptor) {
  return foldToSelf(getSelf(), getResult());
}

/// Dropping the dimension that an unsqueeze has just put in gives what was there before.
OpFoldResult SqueezeDimOp::fold(FoldAdaptor) {
  if (OpFoldResult same = foldToSelf(getSelf(), getResult()))
    return same;
  auto inner = getSelf().getDefiningOp<UnsqueezeOp>();
  int64_t rank = rankOf(getSelf());
  if (inner && wrapped(inner.getDim(), rank) == wrapped(getDim(), rank))
    return foldToSelf(inner.getSelf(), getResult());
  return {};
}
