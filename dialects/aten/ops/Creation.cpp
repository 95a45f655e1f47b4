//===- Creation.cpp - tensors made from numbers and sizes -----------------===//

#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Creation.cpp.inc"

void cleave::aten::addCreationOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Creation.cpp.inc"
      >(dialect);
}

static Type f32(Operation *op) {
  return Float32Type::get(op->getContext());
}

/// The constraints of an op that makes a tensor of `shape`: 1. `dtype` is valid; 2. the result.
static LogicalResult verifyCreation(Operation *op, ArrayRef<int64_t> shape,
                                    std::optional<Type> given, Type otherwise) {
  // 1.
  Type dtype = given.value_or(otherwise);
  if (failed(expectDType(op, dtype)))
    return failure();
  // 2.
  if (llvm::any_of(shape, [](int64_t size) { return size < 0; }))
    return op->emitOpError("expects non-negative sizes in `size`, found [") << shape << "]";
  return expectResult(op, 0, shape, dtype);
}

//===----------------------------------------------------------------------===//
// From sizes
//===----------------------------------------------------------------------===//

LogicalResult ZerosOp::verify() {
  return verifyCreation(*this, getSize(), getDtype(), f32(*this));
}

LogicalResult OnesOp::verify() {
  return verifyCreation(*this, getSize(), getDtype(), f32(*this));
}

LogicalResult EmptyMemoryFormatOp::verify() {
  // 1.
  if (failed(expectMemoryFormat(*this, getMemoryFormat())))
    return failure();
  // 1. and 2.
  return verifyCreation(*this, getSize(), getDtype(), f32(*this));
}

LogicalResult FullOp::verify() {
  return verifyCreation(*this, getSize(), getDtype(), typeOfScalar(getFillValue()));
}

LogicalResult ScalarTensorOp::verify() {
  return verifyCreation(*this, {}, getDtype(), f32(*this));
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

static int64_t toInteger(Attribute scalar) {
  return cast<IntegerAttr>(scalar).getValue().getZExtValue();
}

static double toDouble(Attribute scalar) {
  if (auto real = dyn_cast<FloatAttr>(scalar))
    return real.getValueAsDouble();
  return toInteger(scalar);
}

/// A null `start` is 0, a null `step` is 1.
static LogicalResult verifyArange(Operation *op, Attribute start, Attribute end, Attribute step,
                                  std::optional<Type> dtype) {
  bool anyFloat = false;
  for (Attribute number : {start, end, step}) {
    if (!number)
      continue;
    anyFloat |= isa<FloatAttr>(number);
    // 2., first part
    if (isa<ComplexAttr>(number))
      return op->emitOpError("expects real numbers, found ") << number;
    if (!std::isfinite(toDouble(number)))
      return op->emitOpError("expects finite numbers, found ") << number;
  }
  double first = start ? toDouble(start) : 0, last = toDouble(end);
  double stride = step ? toDouble(step) : 1;
  // 2., second part
  if (stride == 0 || (last - first) / stride < 0)
    return op->emitOpError("expects a `step` that leads from ")
           << first << " to " << last << ", found " << stride;
  if ((last - first) / stride > INT32_MAX)
    return op->emitOpError("expects at most ")
           << INT32_MAX << " numbers, found " << (last - first) / stride;
  // 1. and 3.
  int64_t size;
  if (anyFloat) {
    size = int64_t(std::ceil((last - first) / stride));
  } else {
    int64_t span = toInteger(end) - (start ? toInteger(start) : 0);
    int64_t by = step ? toInteger(step) : 1;
    size = span / by + (span % by != 0);
  }
  Type otherwise = anyFloat ? f32(op) : Type(IntegerType::get(op->getContext(), 64));
  return verifyCreation(op, {size}, dtype, otherwise);
}

LogicalResult ArangeOp::verify() {
  return verifyArange(*this, {}, getEnd(), {}, getDtype());
}

LogicalResult ArangeStartOp::verify() {
  return verifyArange(*this, getStart(), getEnd(), {}, getDtype());
}

LogicalResult ArangeStartStepOp::verify() {
  return verifyArange(*this, getStart(), getEnd(), getStepAttr(), getDtype());
}

//===----------------------------------------------------------------------===//
// Like another tensor
//===----------------------------------------------------------------------===//

static LogicalResult verifyLike(Operation *op, Value self, std::optional<Type> dtype,
                                std::optional<StringRef> format) {
  // 1.
  if (failed(expectMemoryFormat(op, format)))
    return failure();
  // 1. and 2.
  return verifyCreation(op, shapeOf(self), dtype, dtypeOf(self));
}

LogicalResult ZerosLikeOp::verify() {
  return verifyLike(*this, getSelf(), getDtype(), getMemoryFormat());
}

LogicalResult OnesLikeOp::verify() {
  return verifyLike(*this, getSelf(), getDtype(), getMemoryFormat());
}

LogicalResult EmptyLikeOp::verify() {
  return verifyLike(*this, getSelf(), getDtype(), getMemoryFormat());
}

LogicalResult ZeroOp::verify() {
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult FillScalarOp::verify() {
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult NewEmptyStridedOp::verify() {
  // 1.
  ArrayRef<int64_t> stride = getStride();
  if (stride.size() != getSize().size() || llvm::any_of(stride, [](int64_t s) { return s < 0; }))
    return emitOpError("expects in `stride` a non-negative number for each of [")
           << getSize() << "], found [" << stride << "]";
  // 1. and 2.
  return verifyCreation(*this, getSize(), getDtype(), dtypeOf(getSelf()));
}

LogicalResult FullLikeOp::verify() {
  return verifyLike(*this, getSelf(), getDtype(), getMemoryFormat());
}

LogicalResult NewZerosOp::verify() {
  return verifyCreation(*this, getSize(), getDtype(), dtypeOf(getSelf()));
}

LogicalResult NewOnesOp::verify() {
  return verifyCreation(*this, getSize(), getDtype(), dtypeOf(getSelf()));
}

LogicalResult NewFullOp::verify() {
  return verifyCreation(*this, getSize(), getDtype(), dtypeOf(getSelf()));
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

void NewEmptyStridedOp::describeSharding(RuleBuilder &rule) {
  for (auto [dim, size] : llvm::enumerate(rule.operandShape(0)))
    rule.operandDim(0, dim, rule.factor(size));
  rule.closeWhole("`stride` is that of the whole tensor");
  rule.kind(sharding::OpKind::Factory);
  rule.shapeOnly(0);
}
