//===- Part.cpp - parts of a tensor: slices, selections and splits --------===//

#include "dialects/aten/ops/Part.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Part.cpp.inc"

void cleave::aten::addPartOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Part.cpp.inc"
      >(dialect);
}

/// `dim` of a tensor that must have at least one dimension.
static FailureOr<int64_t> dimensionOf(Operation *op, int64_t dim, int64_t rank) {
  if (rank == 0)
    return op->emitOpError("expects at least one dimension, found none");
  return wrapDim(op, dim, rank);
}

/// The shape of a slice; an error if there is none. 1. and 2. of all ops on slices.
static FailureOr<Shape> slicedShape(Operation *op, ArrayRef<int64_t> whole, int64_t dim,
                                    std::optional<int64_t> start, std::optional<int64_t> end,
                                    int64_t step) {
  FailureOr<int64_t> at = dimensionOf(op, dim, whole.size());
  if (failed(at))
    return failure();
  if (step < 1)
    return op->emitOpError("expects `step` of at least 1, found ") << step;
  Shape shape(whole);
  shape[*at] = sliceLength(shape[*at], start, end, step);
  return shape;
}

/// The shape of what is selected; an error if there is none. 1. and 2. of all ops on selections.
static FailureOr<Shape> selectedShape(Operation *op, ArrayRef<int64_t> whole, int64_t dim,
                                      int64_t index) {
  FailureOr<int64_t> at = dimensionOf(op, dim, whole.size());
  if (failed(at))
    return failure();
  int64_t size = whole[*at];
  if (index < -size || index >= size)
    return op->emitOpError("expects `index` within a dimension of size ")
           << size << ", found " << index;
  Shape shape(whole);
  shape.erase(shape.begin() + *at);
  return shape;
}

//===----------------------------------------------------------------------===//
// Views of one part
//===----------------------------------------------------------------------===//

LogicalResult SliceOp::verify() {
  // 1. and 2.
  FailureOr<Shape> shape = slicedShape(*this, shapeOf(getSelf()), getDim().value_or(0), getStart(),
                                       getEnd(), getStep().value_or(1));
  if (failed(shape))
    return failure();
  // 3.
  return expectResult(*this, 0, *shape, dtypeOf(getSelf()));
}

/// A slice of everything changes nothing.
OpFoldResult SliceOp::fold(FoldAdaptor) {
  bool whole = getStep().value_or(1) == 1 && getSelf().getType() == getResult().getType();
  return whole ? OpFoldResult(getSelf()) : OpFoldResult();
}

LogicalResult SelectOp::verify() {
  // 1. and 2.
  FailureOr<Shape> shape = selectedShape(*this, shapeOf(getSelf()), getDim(), getIndex());
  if (failed(shape))
    return failure();
  // 3.
  return expectResult(*this, 0, *shape, dtypeOf(getSelf()));
}

//===----------------------------------------------------------------------===//
// Views of all parts
//===----------------------------------------------------------------------===//

/// One result for each of `sizes`, with this size in `dim`.
static LogicalResult expectParts(Operation *op, Value self, int64_t dim, ArrayRef<int64_t> sizes) {
  if (op->getNumResults() != sizes.size())
    return op->emitOpError("expects ") << sizes.size() << " results, found " << op->getNumResults();
  Shape shape(shapeOf(self));
  for (auto [i, size] : llvm::enumerate(sizes)) {
    shape[dim] = size;
    if (failed(expectResult(op, i, shape, dtypeOf(self))))
      return failure();
  }
  return success();
}

LogicalResult SplitOp::verify() {
  // 1.
  FailureOr<int64_t> dim = dimensionOf(*this, getDim().value_or(0), rankOf(getSelf()));
  if (failed(dim))
    return failure();
  // 2.
  int64_t size = shapeOf(getSelf())[*dim], part = getSplitSize();
  if (part < 0 || (part == 0 && size != 0))
    return emitOpError("expects `split_size` of at least 1, found ") << part;
  // 3.
  Shape sizes;
  for (int64_t start = 0; start < size; start += part)
    sizes.push_back(std::min(part, size - start));
  if (size == 0) // one part, which is empty
    sizes.push_back(0);
  return expectParts(*this, getSelf(), *dim, sizes);
}

LogicalResult SplitWithSizesOp::verify() {
  // 1.
  FailureOr<int64_t> dim = dimensionOf(*this, getDim().value_or(0), rankOf(getSelf()));
  if (failed(dim))
    return failure();
  // 2.
  ArrayRef<int64_t> sizes = getSplitSizes();
  int64_t size = shapeOf(getSelf())[*dim];
  int64_t sum = 0;
  bool counted = llvm::all_of(
      sizes, [&](int64_t part) { return part >= 0 && !llvm::AddOverflow(sum, part, sum); });
  if (!counted || sum != size)
    return emitOpError("expects `split_sizes` that add up to ")
           << size << ", the size of the dimension, found [" << sizes << "]";
  // 3.
  return expectParts(*this, getSelf(), *dim, sizes);
}

LogicalResult UnbindOp::verify() {
  // 1.
  Shape shape(shapeOf(getSelf()));
  FailureOr<int64_t> dim = dimensionOf(*this, getDim().value_or(0), shape.size());
  if (failed(dim))
    return failure();
  // 2.
  if (int64_t(getNumResults()) != shape[*dim])
    return emitOpError("expects ") << shape[*dim] << " results, found " << getNumResults();
  shape.erase(shape.begin() + *dim);
  for (unsigned i = 0; i < getNumResults(); ++i)
    if (failed(expectResult(*this, i, shape, dtypeOf(getSelf()))))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

LogicalResult SliceBackwardOp::verify() {
  // 1. and 2.
  FailureOr<Shape> shape =
      slicedShape(*this, getInputSizes(), getDim(), getStart(), getEnd(), getStep());
  // 3.
  if (failed(shape) || failed(expectShape(*this, "grad_output", getGradOutput(), *shape)))
    return failure();
  // 4.
  return expectResult(*this, 0, getInputSizes(), dtypeOf(getGradOutput()));
}

LogicalResult SelectBackwardOp::verify() {
  // 1. and 2.
  FailureOr<Shape> shape = selectedShape(*this, getInputSizes(), getDim(), getIndex());
  // 3.
  if (failed(shape) || failed(expectShape(*this, "grad_output", getGradOutput(), *shape)))
    return failure();
  // 4.
  return expectResult(*this, 0, getInputSizes(), dtypeOf(getGradOutput()));
}

//===----------------------------------------------------------------------===//
// Parts put in their place
//===----------------------------------------------------------------------===//

LogicalResult SliceScatterOp::verify() {
  // 1. and 2.
  FailureOr<Shape> shape = slicedShape(*this, shapeOf(getSelf()), getDim().value_or(0), getStart(),
                                       getEnd(), getStep().value_or(1));
  // 3.
  if (failed(shape) || failed(expectShape(*this, "src", getSrc(), *shape)))
    return failure();
  // 4.
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult SelectScatterOp::verify() {
  // 1. and 2.
  FailureOr<Shape> shape = selectedShape(*this, shapeOf(getSelf()), getDim(), getIndex());
  // 3.
  if (failed(shape) || failed(expectShape(*this, "src", getSrc(), *shape)))
    return failure();
  // 4.
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult ConstantPadNdOp::verify() {
  Shape shape(shapeOf(getSelf()));
  ArrayRef<int64_t> pad = getPad();
  // 1.
  if (pad.size() % 2 != 0 || pad.size() > 2 * shape.size())
    return emitOpError("expects in `pad` two numbers for each of at most ")
           << shape.size() << " dimensions, found [" << pad << "]";
  // 2.
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    int64_t &size = shape[shape.size() - 1 - i];
    if (llvm::AddOverflow(size, pad[2 * i], size) ||
        llvm::AddOverflow(size, pad[2 * i + 1], size) || size < 0)
      return emitOpError("pads ") << getSelf().getType() << " by [" << pad
                                  << "], which makes a size negative";
  }
  // 3.
  return expectResult(*this, 0, shape, dtypeOf(getSelf()));
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

static const char *partReason = "the part is taken by positions in the whole dimension";

/// Whether `start:end:step` takes all of a dimension, whatever its size.
static bool takesAll(std::optional<int64_t> start, std::optional<int64_t> end, int64_t step,
                     int64_t size) {
  return step == 1 && sliceLength(size, start, end, step) == size && end.value_or(size) >= 0;
}

/// One dimension changes, in operand and results.
static void changedDim(RuleBuilder &rule, int64_t dim) {
  rule.sameDims({dim}, {dim}, partReason);
}

void SliceOp::describeSharding(RuleBuilder &rule) {
  int64_t dim = wrapped(getDim().value_or(0), rankOf(getSelf()));
  if (takesAll(getStart(), getEnd(), getStep().value_or(1), shapeOf(getSelf())[dim]))
    rule.sameDims({}, {}, partReason);
  else
    changedDim(rule, dim);
}

void SelectOp::describeSharding(RuleBuilder &rule) {
  rule.sameDims({wrapped(getDim(), rankOf(getSelf()))}, {}, partReason);
}

void SplitOp::describeSharding(RuleBuilder &rule) {
  changedDim(rule, wrapped(getDim().value_or(0), rankOf(getSelf())));
}

void SplitWithSizesOp::describeSharding(RuleBuilder &rule) {
  changedDim(rule, wrapped(getDim().value_or(0), rankOf(getSelf())));
}

void UnbindOp::describeSharding(RuleBuilder &rule) {
  rule.sameDims({wrapped(getDim().value_or(0), rankOf(getSelf()))}, {}, partReason);
}

void SliceBackwardOp::describeSharding(RuleBuilder &rule) {
  int64_t dim = wrapped(getDim(), getInputSizes().size());
  if (takesAll(getStart(), getEnd(), getStep(), getInputSizes()[dim]))
    rule.sameDims({}, {}, partReason);
  else
    changedDim(rule, dim);
}

void SelectBackwardOp::describeSharding(RuleBuilder &rule) {
  rule.sameDims({}, {wrapped(getDim(), getInputSizes().size())}, partReason);
}

void SliceScatterOp::describeSharding(RuleBuilder &rule) {
  int64_t rank = rankOf(getSelf()), dim = wrapped(getDim().value_or(0), rank);
  rule.allBut(takesAll(getStart(), getEnd(), getStep().value_or(1), shapeOf(getSelf())[dim]) ? rank
                                                                                             : dim,
              partReason);
}

void SelectScatterOp::describeSharding(RuleBuilder &rule) {
  int64_t rank = rankOf(getSelf()), dim = wrapped(getDim(), rank);
  for (int64_t at = 0; at < rank; ++at)
    if (at != dim)
      rule.operandDim(1, at < dim ? at : at - 1, rule.keep(0, at, 0, at));
  rule.closeWhole(partReason);
}

void ConstantPadNdOp::describeSharding(RuleBuilder &rule) {
  int64_t rank = rankOf(getSelf());
  ArrayRef<int64_t> pad = getPad();
  for (int64_t at = 0; at < rank; ++at) {
    size_t back = 2 * (rank - 1 - at);
    if (back >= pad.size() || (pad[back] == 0 && pad[back + 1] == 0))
      rule.keep(0, at, 0, at);
  }
  rule.closeWhole("elements are added or removed at its ends");
  // Another number than 0 would be counted once per term of a sum.
  if (!getValueAttr() || isZero(getValueAttr()))
    rule.linear("self");
}
