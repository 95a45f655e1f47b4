//===- Checks.cpp - checks that many verifiers share -------------------------===//

#include "dialects/aten/Checks.h"
#include "dialects/aten/Aten.h"

using namespace mlir;
using namespace cleave::aten;

LogicalResult cleave::aten::expectResult(Operation *op, unsigned index, ArrayRef<int64_t> shape,
                                         Type dtype) {
  Type found = op->getResult(index).getType();
  auto tensor = dyn_cast<RankedTensorType>(found);
  if (tensor && tensor.getShape() == shape && tensor.getElementType() == dtype)
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError("expects ");
  if (op->getNumResults() == 1)
    diagnostic << "a result";
  else
    diagnostic << "result " << index;
  return diagnostic << " of type " << RankedTensorType::get(shape, dtype) << ", found " << found;
}

LogicalResult cleave::aten::expectResultLike(Operation *op, unsigned index, Value like) {
  return expectResult(op, index, shapeOf(like), dtypeOf(like));
}

LogicalResult cleave::aten::expectMaskedResult(Operation *op, unsigned index, ArrayRef<bool> mask,
                                               ArrayRef<int64_t> shape, Type dtype) {
  if (mask[index])
    return expectResult(op, index, shape, dtype);
  if (isa<NoneType>(op->getResult(index).getType()))
    return success();
  return op->emitOpError("expects result ")
         << index << " of type none, since `output_mask` is false for it, found "
         << op->getResult(index).getType();
}

LogicalResult cleave::aten::expectMaskLength(Operation *op, ArrayRef<bool> mask) {
  if (mask.size() == op->getNumResults())
    return success();
  return op->emitOpError("expects ")
         << op->getNumResults() << " elements in `output_mask`, found " << mask.size();
}

LogicalResult cleave::aten::expectShape(Operation *op, StringRef name, Value value,
                                        ArrayRef<int64_t> shape) {
  if (!value || shapeOf(value) == shape)
    return success();
  return op->emitOpError("expects `")
         << name << "` of shape [" << shape << "], found " << value.getType();
}

LogicalResult cleave::aten::expectSameDType(Operation *op, StringRef name, Value value,
                                            StringRef likeName, Value like) {
  if (dtypeOf(value) == dtypeOf(like))
    return success();
  return op->emitOpError("expects `") << name << "` to have the dtype of `" << likeName << "`, "
                                      << dtypeOf(like) << ", found " << value.getType();
}

LogicalResult cleave::aten::expectFloating(Operation *op, StringRef name, Value value) {
  if (isFloating(dtypeOf(value)))
    return success();
  return op->emitOpError("expects `")
         << name << "` to have a floating-point dtype, found " << value.getType();
}

LogicalResult cleave::aten::expectComplex(Operation *op, StringRef name, Value value) {
  if (isComplex(dtypeOf(value)))
    return success();
  return op->emitOpError("expects `")
         << name << "` to have a complex dtype, found " << value.getType();
}

LogicalResult cleave::aten::expectIndex(Operation *op, StringRef name, Value value) {
  Type dtype = dtypeOf(value);
  if (dtype.isSignlessInteger(64) || dtype.isSignlessInteger(32))
    return success();
  return op->emitOpError("expects `")
         << name << "` to have dtype i64 or i32, found " << value.getType();
}

LogicalResult cleave::aten::expectRank(Operation *op, StringRef name, Value value, int64_t rank) {
  if (rankOf(value) == rank)
    return success();
  return op->emitOpError("expects `")
         << name << "` to have " << rank << " dimensions, found " << value.getType();
}

LogicalResult cleave::aten::expectDType(Operation *op, Type dtype, StringRef name) {
  if (RankedTensorType::isValidElementType(dtype) && isTensor(RankedTensorType::get({}, dtype)))
    return success();
  return op->emitOpError("expects `") << name << "` to be a PyTorch dtype, found " << dtype;
}

LogicalResult cleave::aten::expectMemoryFormat(Operation *op, std::optional<StringRef> format) {
  static constexpr StringRef known[] = {"contiguous_format", "preserve_format", "channels_last",
                                        "channels_last_3d"};
  if (!format || llvm::is_contained(known, *format))
    return success();
  return op->emitOpError("expects `memory_format` to be \"contiguous_format\", "
                         "\"preserve_format\", \"channels_last\" or \"channels_last_3d\", found \"")
         << *format << "\"";
}

LogicalResult cleave::aten::expectReduction(Operation *op, int64_t reduction) {
  if (reduction >= 0 && reduction <= 2)
    return success();
  return op->emitOpError("expects `reduction` 0 (none), 1 (mean) or 2 (sum), found ") << reduction;
}

LogicalResult cleave::aten::verifyPointwise(Operation *op, DTypeRule rule,
                                            ArrayRef<StringRef> scalars) {
  // 1.
  FailureOr<Shape> shape = broadcastShapes(op, op->getOperands());
  if (failed(shape))
    return failure();
  // 2.
  SmallVector<Attribute, 2> numbers;
  for (StringRef scalar : scalars)
    numbers.push_back(op->getInherentAttr(scalar).value_or(Attribute()));
  Type dtype = rule == DTypeRule::Bool   ? Type(IntegerType::get(op->getContext(), 1))
               : rule == DTypeRule::Self ? dtypeOf(op->getOperand(0))
                                         : resultType(op->getOperands(), numbers);
  if (rule == DTypeRule::Floating)
    dtype = toFloating(dtype);
  else if (rule == DTypeRule::Real)
    dtype = toReal(dtype);
  return expectResult(op, 0, *shape, dtype);
}
