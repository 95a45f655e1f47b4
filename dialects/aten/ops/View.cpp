//===- View.cpp - ops whose results share the memory of their operand -----===//

#include "dialects/aten/ops/View.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/View.cpp.inc"

void cleave::aten::addViewOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/View.cpp.inc"
      >(dialect);
}

//===----------------------------------------------------------------------===//
// The same elements
//===----------------------------------------------------------------------===//

LogicalResult AliasOp::verify() {
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult DetachOp::verify() {
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult ViewOp::verify() {
  // 1.
  FailureOr<Shape> shape = resolveSize(*this, getSize(), tensorType(getSelf()).getNumElements());
  if (failed(shape))
    return failure();
  // 2.
  return expectResult(*this, 0, *shape, dtypeOf(getSelf()));
}

LogicalResult ExpandOp::verify() {
  ArrayRef<int64_t> self = shapeOf(getSelf());
  Shape size(getSize());
  // 1.
  int64_t lead = int64_t(size.size()) - int64_t(self.size());
  if (lead < 0)
    return emitOpError("expects `size` with at least the ")
           << self.size() << " dimensions of `self`, found [" << getSize() << "]";
  for (auto [i, extent] : llvm::enumerate(size)) {
    if (extent < -1 || (extent == -1 && int64_t(i) < lead))
      return emitOpError("expects non-negative sizes in `size`, or -1 for a dimension of `self`, "
                         "found [")
             << getSize() << "]";
    if (extent == -1)
      extent = self[i - lead];
  }
  // 2.
  for (auto [i, extent] : llvm::enumerate(self))
    if (extent != 1 && extent != size[lead + i])
      return emitOpError("cannot expand ") << getSelf().getType() << " to [" << getSize() << "]";
  // 3.
  return expectResult(*this, 0, size, dtypeOf(getSelf()));
}

//===----------------------------------------------------------------------===//
// Order of dimensions
//===----------------------------------------------------------------------===//

LogicalResult TOp::verify() {
  // 1.
  if (rankOf(getSelf()) > 2)
    return emitOpError("expects at most two dimensions, found ") << getSelf().getType();
  // 2.
  return expectResult(*this, 0, Shape(llvm::reverse(shapeOf(getSelf()))), dtypeOf(getSelf()));
}

LogicalResult TransposeOp::verify() {
  // 1.
  int64_t rank = rankOf(getSelf());
  FailureOr<int64_t> dim0 = wrapDim(*this, getDim0(), rank, "dim0");
  FailureOr<int64_t> dim1 = failed(dim0) ? dim0 : wrapDim(*this, getDim1(), rank, "dim1");
  if (failed(dim1))
    return failure();
  // 2.
  Shape shape(shapeOf(getSelf()));
  if (rank)
    std::swap(shape[*dim0], shape[*dim1]);
  return expectResult(*this, 0, shape, dtypeOf(getSelf()));
}

LogicalResult PermuteOp::verify() {
  // 1.
  int64_t rank = rankOf(getSelf());
  if (int64_t(getDims().size()) != rank)
    return emitOpError("expects one element in `dims` for each of ")
           << rank << " dimensions, found [" << getDims() << "]";
  FailureOr<Shape> dims = wrapDims(*this, getDims(), rank, "dims");
  if (failed(dims))
    return failure();
  // 2.
  Shape shape;
  for (int64_t dim : *dims)
    shape.push_back(shapeOf(getSelf())[dim]);
  return expectResult(*this, 0, shape, dtypeOf(getSelf()));
}

//===----------------------------------------------------------------------===//
// Dimensions of size 1
//===----------------------------------------------------------------------===//

LogicalResult UnsqueezeOp::verify() {
  // 1.
  FailureOr<int64_t> dim = wrapDim(*this, getDim(), rankOf(getSelf()) + 1);
  if (failed(dim))
    return failure();
  // 2.
  Shape shape(shapeOf(getSelf()));
  shape.insert(shape.begin() + *dim, 1);
  return expectResult(*this, 0, shape, dtypeOf(getSelf()));
}

LogicalResult SqueezeOp::verify() {
  // 1.
  Shape shape;
  for (int64_t size : shapeOf(getSelf()))
    if (size != 1)
      shape.push_back(size);
  return expectResult(*this, 0, shape, dtypeOf(getSelf()));
}

static LogicalResult verifySqueeze(Operation *op, Value self, ArrayRef<int64_t> dim) {
  // 1.
  FailureOr<Shape> dims = wrapDims(op, dim, rankOf(self));
  if (failed(dims))
    return failure();
  // 2.
  Shape shape;
  for (auto [i, size] : llvm::enumerate(shapeOf(self)))
    if (size != 1 || !llvm::is_contained(*dims, int64_t(i)))
      shape.push_back(size);
  return expectResult(op, 0, shape, dtypeOf(self));
}

LogicalResult SqueezeDimOp::verify() {
  return verifySqueeze(*this, getSelf(), getDim());
}

LogicalResult SqueezeDimsOp::verify() {
  return verifySqueeze(*this, getSelf(), getDim());
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

void ExpandOp::describeSharding(RuleBuilder &rule) {
  ArrayRef<int64_t> self = shapeOf(getSelf()), result = shapeOf(getResult());
  size_t lead = result.size() - self.size();
  for (auto [to, size] : llvm::enumerate(result)) {
    // A 1 may be a part of what a 1 is repeated to, or of a dimension that stays.
    bool repeats = to < lead || self[to - lead] == 1, stays = to >= lead && self[to - lead] == size;
    DimFactors factors;
    if (repeats)
      factors.push_back(rule.factor(size));
    if (stays)
      factors.push_back(rule.factor(repeats ? 1 : size));
    rule.resultDim(0, to, factors);
    if (to >= lead)
      rule.operandDim(0, to - lead, stays ? ArrayRef(factors).take_back() : ArrayRef<FactorId>());
  }
}

/// Dimension i of the result is dimension `order[i]` of the operand.
static void permuted(RuleBuilder &rule, ArrayRef<int64_t> order) {
  for (auto [to, from] : llvm::enumerate(order))
    rule.keep(0, from, 0, to);
}

void TOp::describeSharding(RuleBuilder &rule) {
  permuted(rule, llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(rankOf(getSelf())))));
}

void TransposeOp::describeSharding(RuleBuilder &rule) {
  int64_t rank = rankOf(getSelf());
  auto order = llvm::to_vector(llvm::seq<int64_t>(rank));
  if (rank)
    std::swap(order[wrapped(getDim0(), rank)], order[wrapped(getDim1(), rank)]);
  permuted(rule, order);
}

void PermuteOp::describeSharding(RuleBuilder &rule) {
  int64_t rank = rankOf(getSelf());
  permuted(rule, llvm::map_to_vector(getDims(), [&](int64_t dim) { return wrapped(dim, rank); }));
}

void UnsqueezeOp::describeSharding(RuleBuilder &rule) {
  rule.sameDims({}, {wrapped(getDim(), rankOf(getResult()))}, "it is new, of size 1");
}

/// Dimensions of which `named` holds are dropped if their size is 1. One of another size must be
/// whole: a part of it may have size 1.
static void squeezed(RuleBuilder &rule, llvm::function_ref<bool(int64_t)> named) {
  static const char *reason = "it is dropped where its size is 1";
  int64_t to = 0;
  for (auto [dim, size] : llvm::enumerate(rule.operandShape(0))) {
    if (named(dim) && size == 1) {
      rule.wholeOperandDim(0, dim, reason);
      continue;
    }
    FactorId kept = rule.keep(0, dim, 0, to++);
    if (named(dim))
      rule.makeWhole(kept, reason);
  }
}

void SqueezeOp::describeSharding(RuleBuilder &rule) {
  squeezed(rule, [](int64_t) { return true; });
}

void SqueezeDimOp::describeSharding(RuleBuilder &rule) {
  int64_t named = wrapped(getDim(), rankOf(getSelf()));
  squeezed(rule, [&](int64_t dim) { return dim == named; });
}

void SqueezeDimsOp::describeSharding(RuleBuilder &rule) {
  int64_t rank = rankOf(getSelf());
  squeezed(rule, [&](int64_t dim) {
    return llvm::any_of(getDim(), [&](int64_t other) { return wrapped(other, rank) == dim; });
  });
}
