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
      return emitOpError("expects sizes of 0 or more in `size`, or -1 for a dimension of `self`, "
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
