//===- Indexing.cpp - reading and writing at named places -----------------===//

#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Indexing.cpp.inc"

void cleave::aten::addIndexingOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Indexing.cpp.inc"
      >(dialect);
}

//===----------------------------------------------------------------------===//
// Embeddings
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  // 1. and 2.
  if (failed(expectRank(*this, "weight", getWeight(), 2)) ||
      failed(expectIndex(*this, "indices", getIndices())))
    return failure();
  // 3.
  Shape shape(shapeOf(getIndices()));
  shape.push_back(shapeOf(getWeight())[1]);
  return expectResult(*this, 0, shape, dtypeOf(getWeight()));
}

LogicalResult EmbeddingDenseBackwardOp::verify() {
  // 1.
  if (failed(expectIndex(*this, "indices", getIndices())))
    return failure();
  // 2.
  ArrayRef<int64_t> gradient = shapeOf(getGradOutput());
  if (gradient.empty() || gradient.drop_back() != shapeOf(getIndices()))
    return emitOpError("expects `grad_output` to have the shape of `indices` and one more "
                       "dimension, found ")
           << getGradOutput().getType() << " and " << getIndices().getType();
  // 3.
  int64_t rows = getNumWeights();
  if (rows < 0)
    return emitOpError("expects a non-negative `num_weights`, found ") << rows;
  return expectResult(*this, 0, {rows, gradient.back()}, dtypeOf(getGradOutput()));
}

//===----------------------------------------------------------------------===//
// Several dimensions at once
//===----------------------------------------------------------------------===//

static bool isMask(Value index) {
  return isBool(dtypeOf(index)) || dtypeOf(index).isUnsignedInteger(8);
}

/// The shape of `self[indices]`, of which those that `present` leaves out are none. Constraints 1
/// to 3; with a mask among the indices the shape is unknown and the result is empty.
static FailureOr<std::optional<Shape>> indexedShape(Operation *op, Value self, ValueRange indices,
                                                    std::optional<ArrayRef<bool>> present,
                                                    bool masksAllowed) {
  // 1.
  ArrayRef<int64_t> shape = shapeOf(self);
  size_t places = present ? present->size() : indices.size();
  if (indices.empty())
    return op->emitOpError("expects at least one index");
  if (places > shape.size())
    return op->emitOpError("expects at most ")
           << shape.size() << " indices, one for each dimension of `self`, found " << places;
  // 2.
  bool anyMask = false;
  for (Value index : indices) {
    anyMask |= isMask(index);
    if (isMask(index) && !masksAllowed)
      return op->emitOpError("expects indices that are not masks, as the shape of the result would "
                             "depend on data, found ")
             << index.getType();
    if (!isMask(index) && failed(expectIndex(op, "indices", index)))
      return failure();
  }
  if (anyMask)
    return std::optional<Shape>();
  // 3.
  FailureOr<Shape> together = broadcastShapes(op, indices);
  if (failed(together))
    return failure();
  Shape result;
  int64_t firstIndexed = -1, lastIndexed = -1, front = 0;
  for (auto [i, size] : llvm::enumerate(shape)) {
    bool indexed = i < places && (!present || (*present)[i]);
    if (!indexed) {
      result.push_back(size);
      front += firstIndexed < 0;
      continue;
    }
    if (firstIndexed < 0)
      firstIndexed = i;
    lastIndexed = i;
  }
  bool sideBySide = lastIndexed - firstIndexed + 1 == int64_t(indices.size());
  result.insert(result.begin() + (sideBySide ? front : 0), together->begin(), together->end());
  return std::optional<Shape>(result);
}

template <typename OpTy> static LogicalResult verifyIndexRead(OpTy op) {
  // 1. to 3.
  FailureOr<std::optional<Shape>> shape = indexedShape(
      op, op.getSelf(), op.getIndices(), op.getIndicesPresent(), /*masksAllowed=*/false);
  if (failed(shape))
    return failure();
  // 4.
  return expectResult(op, 0, **shape, dtypeOf(op.getSelf()));
}

LogicalResult IndexOp::verify() {
  return verifyIndexRead(*this);
}

LogicalResult UnsafeIndexOp::verify() {
  return verifyIndexRead(*this);
}

template <typename OpTy> static LogicalResult verifyIndexWrite(OpTy op) {
  // 1. to 3.
  FailureOr<std::optional<Shape>> shape = indexedShape(
      op, op.getSelf(), op.getIndices(), op.getIndicesPresent(), /*masksAllowed=*/true);
  if (failed(shape))
    return failure();
  // 4.
  Value values = op.getValues();
  if (failed(expectSameDType(op, "values", values, "self", op.getSelf())))
    return failure();
  if (*shape && !broadcastsTo(shapeOf(values), **shape))
    return op.emitOpError("expects `values` to broadcast to [")
           << ArrayRef<int64_t>(**shape) << "], found " << values.getType();
  // 5.
  return expectResultLike(op, 0, op.getSelf());
}

LogicalResult IndexPutOp::verify() {
  return verifyIndexWrite(*this);
}

LogicalResult UnsafeIndexPutOp::verify() {
  return verifyIndexWrite(*this);
}

//===----------------------------------------------------------------------===//
// Along one dimension
//===----------------------------------------------------------------------===//

/// Constraints 1 and 2 of ops that take slices: gives the shape of the slices taken.
static FailureOr<Shape> slicesShape(Operation *op, Value self, int64_t dim, Value index) {
  // 1.
  FailureOr<int64_t> at = wrapDim(op, dim, rankOf(self));
  if (failed(at))
    return failure();
  // 2.
  if (failed(expectIndex(op, "index", index)))
    return failure();
  if (rankOf(index) > 1)
    return op->emitOpError("expects `index` of at most one dimension, found ") << index.getType();
  Shape shape(shapeOf(self));
  if (!shape.empty())
    shape[*at] = tensorType(index).getNumElements();
  else if (tensorType(index).getNumElements() != 1)
    return op->emitOpError("expects `index` of one element where `self` has no dimensions, found ")
           << index.getType();
  return shape;
}

LogicalResult IndexSelectOp::verify() {
  // 1. and 2.
  FailureOr<Shape> shape = slicesShape(*this, getSelf(), getDim(), getIndex());
  if (failed(shape))
    return failure();
  // 3.
  return expectResult(*this, 0, *shape, dtypeOf(getSelf()));
}

LogicalResult IndexAddOp::verify() {
  // 1. and 2.
  FailureOr<Shape> shape = slicesShape(*this, getSelf(), getDim(), getIndex());
  if (failed(shape))
    return failure();
  // 3.
  if (failed(expectShape(*this, "source", getSource(), *shape)) ||
      failed(expectSameDType(*this, "source", getSource(), "self", getSelf())))
    return failure();
  // 4.
  return expectResultLike(*this, 0, getSelf());
}

/// Constraints 1 and 2 of gather and scatter.
static LogicalResult verifyPlaces(Operation *op, Value self, int64_t dim, Value index) {
  // 1.
  FailureOr<int64_t> at = wrapDim(op, dim, rankOf(self));
  if (failed(at))
    return failure();
  // 2.
  if (failed(expectIndex(op, "index", index)) ||
      failed(expectRank(op, "index", index, rankOf(self))))
    return failure();
  for (auto [i, sizes] : llvm::enumerate(llvm::zip(shapeOf(self), shapeOf(index)))) {
    auto [limit, size] = sizes;
    if (int64_t(i) != *at && size > limit)
      return op->emitOpError("expects `index` not to exceed `self` except in dimension ")
             << *at << ", found " << index.getType() << " and " << self.getType();
  }
  return success();
}

LogicalResult GatherOp::verify() {
  // 1. and 2.
  if (failed(verifyPlaces(*this, getSelf(), getDim(), getIndex())))
    return failure();
  // 3.
  return expectResult(*this, 0, shapeOf(getIndex()), dtypeOf(getSelf()));
}

static LogicalResult verifyScatter(Operation *op, Value self, int64_t dim, Value index, Value src) {
  // 1. and 2.
  if (failed(verifyPlaces(op, self, dim, index)))
    return failure();
  // 3.
  if (failed(expectSameDType(op, "src", src, "self", self)) ||
      failed(expectRank(op, "src", src, rankOf(index))))
    return failure();
  for (auto [available, used] : llvm::zip(shapeOf(src), shapeOf(index)))
    if (used > available)
      return op->emitOpError("expects `src` to be no smaller than `index`, found ")
             << src.getType() << " and " << index.getType();
  // 4.
  return expectResultLike(op, 0, self);
}

LogicalResult ScatterSrcOp::verify() {
  return verifyScatter(*this, getSelf(), getDim(), getIndex(), getSrc());
}

LogicalResult ScatterAddOp::verify() {
  return verifyScatter(*this, getSelf(), getDim(), getIndex(), getSrc());
}

LogicalResult ScatterValueOp::verify() {
  // 1. and 2.
  if (failed(verifyPlaces(*this, getSelf(), getDim(), getIndex())))
    return failure();
  // 3.
  return expectResultLike(*this, 0, getSelf());
}
