//===- Copy.cpp - copies: conversions, concatenations, orders, triangles --===//

#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Copy.cpp.inc"

void cleave::aten::addCopyOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Copy.cpp.inc"
      >(dialect);
}

//===----------------------------------------------------------------------===//
// Copies of one tensor
//===----------------------------------------------------------------------===//

LogicalResult CloneOp::verify() {
  // 1.
  if (failed(expectMemoryFormat(*this, getMemoryFormat())))
    return failure();
  // 2.
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult LiftFreshCopyOp::verify() {
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult ToCopyOp::verify() {
  Type dtype = getDtype().value_or(dtypeOf(getSelf()));
  // 1.
  if (failed(expectDType(*this, dtype)) || failed(expectMemoryFormat(*this, getMemoryFormat())))
    return failure();
  // 2.
  return expectResult(*this, 0, shapeOf(getSelf()), dtype);
}

LogicalResult CopyOp::verify() {
  // 1.
  if (!broadcastsTo(shapeOf(getSrc()), shapeOf(getSelf())))
    return emitOpError("expects a `src` that broadcasts to the shape of `self`, found ")
           << getSrc().getType() << " and " << getSelf().getType();
  // 2.
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult FillTensorOp::verify() {
  // 1.
  if (failed(expectRank(*this, "value", getValue(), 0)))
    return failure();
  // 2.
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult UnsafeViewOp::verify() {
  // 1.
  FailureOr<Shape> shape = resolveSize(*this, getSize(), tensorType(getSelf()).getNumElements());
  if (failed(shape))
    return failure();
  // 2.
  return expectResult(*this, 0, *shape, dtypeOf(getSelf()));
}

//===----------------------------------------------------------------------===//
// Several tensors into one
//===----------------------------------------------------------------------===//

static bool isPassedOver(Value tensor) {
  return shapeOf(tensor) == ArrayRef<int64_t>(int64_t(0));
}

LogicalResult CatOp::verify() {
  // 1.
  if (getTensors().empty())
    return emitOpError("expects at least one tensor");
  for (Value tensor : getTensors())
    if (rankOf(tensor) == 0)
      return emitOpError("expects tensors of at least one dimension, found ") << tensor.getType();
  Type dtype = resultType(getTensors());
  auto first = llvm::find_if_not(getTensors(), isPassedOver);
  if (first == getTensors().end())
    return expectResult(*this, 0, {0}, dtype);
  Shape shape(shapeOf(*first));
  // 2.
  FailureOr<int64_t> dim = wrapDim(*this, getDim().value_or(0), shape.size());
  if (failed(dim))
    return failure();
  // 3.
  int64_t total = 0;
  for (Value tensor : getTensors()) {
    if (isPassedOver(tensor))
      continue;
    Shape other(shapeOf(tensor));
    if (other.size() == shape.size()) {
      total += other[*dim];
      other[*dim] = shape[*dim];
    }
    if (other != shape)
      return emitOpError("expects tensors that differ only in dimension ")
             << *dim << ", found " << (*first).getType() << " and " << tensor.getType();
  }
  // 4.
  shape[*dim] = total;
  return expectResult(*this, 0, shape, dtype);
}

LogicalResult StackOp::verify() {
  // 1.
  if (getTensors().empty())
    return emitOpError("expects at least one tensor");
  Shape shape(shapeOf(getTensors().front()));
  for (Value tensor : getTensors())
    if (shapeOf(tensor) != ArrayRef<int64_t>(shape))
      return emitOpError("expects tensors of the same shape, found ")
             << getTensors().front().getType() << " and " << tensor.getType();
  // 2.
  FailureOr<int64_t> dim = wrapDim(*this, getDim().value_or(0), shape.size() + 1);
  if (failed(dim))
    return failure();
  // 3.
  shape.insert(shape.begin() + *dim, getTensors().size());
  return expectResult(*this, 0, shape, resultType(getTensors()));
}

LogicalResult RepeatOp::verify() {
  Shape shape(getRepeats());
  ArrayRef<int64_t> self = shapeOf(getSelf());
  // 1.
  if (shape.size() < self.size() || llvm::any_of(shape, [](int64_t r) { return r < 0; }))
    return emitOpError("expects in `repeats` at least ")
           << self.size() << " non-negative numbers, found [" << getRepeats() << "]";
  // 2.
  for (auto [i, size] : llvm::enumerate(self)) {
    int64_t &extent = shape[shape.size() - self.size() + i];
    if (llvm::MulOverflow(extent, size, extent))
      return emitOpError("repeats ") << getSelf().getType() << " to a size that overflows";
  }
  return expectResult(*this, 0, shape, dtypeOf(getSelf()));
}

//===----------------------------------------------------------------------===//
// Other orders
//===----------------------------------------------------------------------===//

LogicalResult FlipOp::verify() {
  // 1.
  if (failed(wrapDims(*this, getDims(), rankOf(getSelf()), "dims")))
    return failure();
  // 2.
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult RollOp::verify() {
  ArrayRef<int64_t> dims = getDims().value_or(ArrayRef<int64_t>());
  // 1.
  for (int64_t dim : dims)
    if (failed(wrapDim(*this, dim, rankOf(getSelf()), "dims")))
      return failure();
  // 2.
  if (getShifts().size() != std::max<size_t>(dims.size(), 1))
    return emitOpError("expects in `shifts` one element for each of `dims`, or one where there are "
                       "none, found [")
           << getShifts() << "] and [" << dims << "]";
  // 3.
  return expectResultLike(*this, 0, getSelf());
}

//===----------------------------------------------------------------------===//
// Triangles
//===----------------------------------------------------------------------===//

static LogicalResult verifyTriangle(Operation *op, Value self) {
  // 1.
  if (rankOf(self) < 2)
    return op->emitOpError("expects at least two dimensions, found ") << self.getType();
  // 2.
  return expectResultLike(op, 0, self);
}

LogicalResult TrilOp::verify() {
  return verifyTriangle(*this, getSelf());
}

LogicalResult TriuOp::verify() {
  return verifyTriangle(*this, getSelf());
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

void CatOp::describeSharding(RuleBuilder &rule) {
  ArrayRef<int64_t> shape = rule.resultShape(0);
  int64_t dim = wrapped(getDim().value_or(0), shape.size());
  static const char *reason = "parts of it would be put together in another order";
  for (auto [at, size] : llvm::enumerate(shape)) {
    if (int64_t(at) == dim) {
      rule.wholeResultDim(0, at, reason);
      continue;
    }
    FactorId factor = rule.factor(size);
    rule.resultDim(0, at, factor);
    for (unsigned i = 0; i < getTensors().size(); ++i)
      if (rule.operandShape(i).size() == shape.size())
        rule.operandDim(i, at, factor);
  }
  rule.closeWhole(reason);
}

void StackOp::describeSharding(RuleBuilder &rule) {
  ArrayRef<int64_t> shape = rule.resultShape(0);
  int64_t dim = wrapped(getDim().value_or(0), shape.size());
  for (auto [at, size] : llvm::enumerate(shape)) {
    if (int64_t(at) == dim) {
      rule.wholeResultDim(0, at, "each index of it is a different operand");
      continue;
    }
    FactorId factor = rule.factor(size);
    rule.resultDim(0, at, factor);
    for (unsigned i = 0; i < getTensors().size(); ++i)
      rule.operandDim(i, int64_t(at) < dim ? at : at - 1, factor);
  }
}

void RepeatOp::describeSharding(RuleBuilder &rule) {
  ArrayRef<int64_t> shape = shapeOf(getSelf());
  size_t lead = getRepeats().size() - shape.size();
  for (auto [at, repeats] : llvm::enumerate(getRepeats())) {
    DimFactors factors;
    // Repeats are major: the whole dimension comes again and again.
    if (repeats != 1)
      factors.push_back(rule.whole(repeats, "`repeats` counts them"));
    if (at >= lead) {
      factors.push_back(rule.factor(shape[at - lead]));
      rule.operandDim(0, at - lead, factors.back());
    }
    rule.resultDim(0, at, factors);
  }
}

/// Each dimension stays in its place; those along which elements move must be whole.
static void reorderSharding(RuleBuilder &rule, ArrayRef<int64_t> dims, const char *reason) {
  int64_t rank = rule.resultShape(0).size();
  llvm::SmallDenseSet<int64_t> moved;
  for (int64_t dim : dims)
    moved.insert(wrapped(dim, rank));
  for (int64_t at = 0; at < rank; ++at) {
    FactorId factor = rule.keep(0, at, 0, at);
    if (moved.contains(at))
      rule.makeWhole(factor, reason);
  }
}

void FlipOp::describeSharding(RuleBuilder &rule) {
  reorderSharding(rule, getDims(), "its elements are reversed");
}

void RollOp::describeSharding(RuleBuilder &rule) {
  static const char *reason = "its elements are shifted, wrapping around";
  ArrayRef<int64_t> dims = getDims().value_or(ArrayRef<int64_t>());
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(getSelf())));
  reorderSharding(rule, dims.empty() ? ArrayRef<int64_t>(all) : dims, reason);
}

/// The matrices are the last two dimensions.
static void triangleSharding(RuleBuilder &rule) {
  int64_t rank = rule.resultShape(0).size();
  for (int64_t at = 0; at < rank - 2; ++at)
    rule.keep(0, at, 0, at);
  rule.closeWhole("the diagonal depends on positions in the whole matrix");
}

void TrilOp::describeSharding(RuleBuilder &rule) {
  triangleSharding(rule);
}

void TriuOp::describeSharding(RuleBuilder &rule) {
  triangleSharding(rule);
}
