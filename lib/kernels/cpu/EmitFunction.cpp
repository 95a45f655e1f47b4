//===- EmitFunction.cpp - scalar functions as arith and math ops -------------===//

#include "lib/kernels/cpu/EmitFunction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;
using namespace cleave::kernels;

Type cleave::kernels::getValueType(MLIRContext *context, ComputeType type, int64_t lanes) {
  Type scalar;
  switch (type) {
  case ComputeType::F32:
    scalar = Float32Type::get(context);
    break;
  case ComputeType::F64:
    scalar = Float64Type::get(context);
    break;
  case ComputeType::I64:
    scalar = IntegerType::get(context, 64);
    break;
  case ComputeType::I32:
    scalar = IntegerType::get(context, 32);
    break;
  case ComputeType::I1:
    scalar = IntegerType::get(context, 1);
    break;
  }
  return lanes ? Type(VectorType::get({lanes}, scalar)) : scalar;
}

Type cleave::kernels::getMemoryType(MLIRContext *context, Type dtype) {
  if (dtype.isBF16())
    return BFloat16Type::get(context);
  if (dtype.isF16())
    return Float16Type::get(context);
  if (dtype.isF32())
    return Float32Type::get(context);
  if (dtype.isF64())
    return Float64Type::get(context);
  return IntegerType::get(context, std::max(8u, dtype.getIntOrFloatBitWidth()));
}

/// `type`, or a vector of it as long as `like`.
static Type shapedLike(Type type, Type like) {
  if (auto vector = dyn_cast<VectorType>(like))
    return vector.clone(type);
  return type;
}

static Value makeConstant(ImplicitLocOpBuilder &b, Type type, double number) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr value = isa<FloatType>(element)
                        ? TypedAttr(b.getFloatAttr(element, number))
                        : b.getIntegerAttr(element, static_cast<int64_t>(number));
  if (auto vector = dyn_cast<VectorType>(type))
    value = DenseElementsAttr::get(vector, Attribute(value));
  return arith::ConstantOp::create(b, value);
}

Value cleave::kernels::emitFromMemory(ImplicitLocOpBuilder &b, Value loaded, Type dtype) {
  Type from = loaded.getType();
  if (dtype.isBF16() || dtype.isF16())
    return arith::ExtFOp::create(b, shapedLike(b.getF32Type(), from), loaded);
  if (dtype.isInteger(1))
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, loaded, makeConstant(b, from, 0));
  if (dtype.isInteger(8) || dtype.isInteger(16)) {
    Type to = shapedLike(b.getI32Type(), from);
    if (dtype.isUnsignedInteger())
      return arith::ExtUIOp::create(b, to, loaded);
    return arith::ExtSIOp::create(b, to, loaded);
  }
  return loaded;
}

Value cleave::kernels::emitToMemory(ImplicitLocOpBuilder &b, Value value, Type dtype) {
  Type to = shapedLike(getMemoryType(b.getContext(), dtype), value.getType());
  if (to == value.getType())
    return value;
  if (dtype.isBF16() || dtype.isF16())
    return arith::TruncFOp::create(b, to, value);
  if (dtype.isInteger(1))
    return arith::ExtUIOp::create(b, to, value);
  return arith::TruncIOp::create(b, to, value);
}

Value cleave::kernels::emitConstant(ImplicitLocOpBuilder &b, const Node &node, int64_t lanes) {
  Type type = getValueType(b.getContext(), node.type, lanes);
  Type element = getElementTypeOrSelf(type);
  TypedAttr value = isFloat(node.type) ? TypedAttr(b.getFloatAttr(element, node.number))
                                       : b.getIntegerAttr(element, node.integer);
  if (lanes)
    value = DenseElementsAttr::get(cast<VectorType>(type), Attribute(value));
  return arith::ConstantOp::create(b, value);
}

/// Where a product and a sum may be one instruction.
static arith::FastMathFlagsAttr contraction(OpBuilder &b) {
  return arith::FastMathFlagsAttr::get(b.getContext(), arith::FastMathFlags::contract);
}

template <typename FloatOp, typename IntOp>
static Value emitBinary(ImplicitLocOpBuilder &b, bool isFloating, Value x, Value y) {
  if (!isFloating)
    return IntOp::create(b, x, y);
  return FloatOp::create(b, x.getType(), x, y, contraction(b));
}

static Value emitComparison(ImplicitLocOpBuilder &b, Function function, Value x, Value y,
                            bool isFloating, bool isTruth) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  static constexpr F floats[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  static constexpr I integers[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  // True is above false.
  static constexpr I truths[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  unsigned index = unsigned(function) - unsigned(Function::Equal);
  if (isFloating)
    return arith::CmpFOp::create(b, floats[index], x, y);
  return arith::CmpIOp::create(b, (isTruth ? truths : integers)[index], x, y);
}

static Value emitConversion(ImplicitLocOpBuilder &b, Value value, ComputeType to) {
  Type from = getElementTypeOrSelf(value.getType());
  Type scalar = getValueType(b.getContext(), to);
  Type type = shapedLike(scalar, value.getType());
  if (to == ComputeType::I1) {
    Value zero = makeConstant(b, value.getType(), 0);
    // A NaN is not zero.
    if (isa<FloatType>(from))
      return arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, value, zero);
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value, zero);
  }
  if (isa<FloatType>(from)) {
    if (!isa<FloatType>(scalar))
      return arith::FPToSIOp::create(b, type, value);
    if (from.getIntOrFloatBitWidth() < scalar.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(b, type, value);
    return arith::TruncFOp::create(b, type, value);
  }
  bool isTruth = from.isInteger(1);
  if (isa<FloatType>(scalar)) {
    if (isTruth)
      return arith::UIToFPOp::create(b, type, value);
    return arith::SIToFPOp::create(b, type, value);
  }
  if (from.getIntOrFloatBitWidth() > scalar.getIntOrFloatBitWidth())
    return arith::TruncIOp::create(b, type, value);
  if (isTruth)
    return arith::ExtUIOp::create(b, type, value);
  return arith::ExtSIOp::create(b, type, value);
}

static Value emitRounding(ImplicitLocOpBuilder &b, Value value, Type narrow) {
  Value rounded = arith::TruncFOp::create(b, shapedLike(narrow, value.getType()), value);
  return arith::ExtFOp::create(b, value.getType(), rounded);
}

Value cleave::kernels::emitFunction(ImplicitLocOpBuilder &b, const Node &node,
                                    llvm::ArrayRef<Value> operands) {
  Value x = operands[0], y = operands.size() > 1 ? operands[1] : Value();
  Type element = getElementTypeOrSelf(x.getType());
  bool isFloating = isa<FloatType>(element), isTruth = element.isInteger(1);
  switch (node.function) {
  case Function::Add:
    if (isTruth)
      return arith::OrIOp::create(b, x, y);
    return emitBinary<arith::AddFOp, arith::AddIOp>(b, isFloating, x, y);
  case Function::Sub:
    return emitBinary<arith::SubFOp, arith::SubIOp>(b, isFloating, x, y);
  case Function::Mul:
    return emitBinary<arith::MulFOp, arith::MulIOp>(b, isFloating, x, y);
  case Function::Div:
    return arith::DivFOp::create(b, x, y);
  case Function::Neg:
    if (isFloating)
      return arith::NegFOp::create(b, x);
    return arith::SubIOp::create(b, makeConstant(b, x.getType(), 0), x);
  case Function::Abs:
    if (isFloating)
      return math::AbsFOp::create(b, x);
    return math::AbsIOp::create(b, x);
  case Function::Sqrt:
    return math::SqrtOp::create(b, x);
  case Function::Exp:
    return math::ExpOp::create(b, x);
  case Function::Log:
    return math::LogOp::create(b, x);
  case Function::Log1p:
    return math::Log1pOp::create(b, x);
  case Function::Sin:
    return math::SinOp::create(b, x);
  case Function::Cos:
    return math::CosOp::create(b, x);
  case Function::Tanh:
    return math::TanhOp::create(b, x);
  case Function::Erf:
    return math::ErfOp::create(b, x);
  case Function::Pow:
    return math::PowFOp::create(b, x, y);
  case Function::Maximum:
    return emitBinary<arith::MaximumFOp, arith::MaxSIOp>(b, isFloating, x, y);
  case Function::Minimum:
    return emitBinary<arith::MinimumFOp, arith::MinSIOp>(b, isFloating, x, y);
  case Function::Equal:
  case Function::NotEqual:
  case Function::Less:
  case Function::LessEqual:
  case Function::Greater:
  case Function::GreaterEqual:
    return emitComparison(b, node.function, x, y, isFloating, isTruth);
  case Function::And:
    return arith::AndIOp::create(b, x, y);
  case Function::Or:
    return arith::OrIOp::create(b, x, y);
  case Function::Xor:
    return arith::XOrIOp::create(b, x, y);
  case Function::Select:
    return arith::SelectOp::create(b, x, y, operands[2]);
  case Function::Convert:
    return emitConversion(b, x, node.type);
  case Function::RoundBF16:
    return emitRounding(b, x, b.getBF16Type());
  case Function::RoundF16:
    return emitRounding(b, x, b.getF16Type());
  }
  return {};
}

Value cleave::kernels::emitJoin(ImplicitLocOpBuilder &b, RowReduction reduction, Value x,
                                Value other) {
  bool isFloating = isa<FloatType>(getElementTypeOrSelf(x.getType()));
  switch (reduction) {
  case RowReduction::Sum:
    return emitBinary<arith::AddFOp, arith::AddIOp>(b, isFloating, x, other);
  case RowReduction::Max:
    return emitBinary<arith::MaximumFOp, arith::MaxSIOp>(b, isFloating, x, other);
  case RowReduction::MaxNumbers: {
    if (!isFloating)
      return arith::MaxSIOp::create(b, x, other);
    // One instruction; false for a NaN in `other`.
    Value isLarger = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, other, x);
    return arith::SelectOp::create(b, isLarger, other, x);
  }
  }
  return {};
}

Value cleave::kernels::emitIdentity(ImplicitLocOpBuilder &b, RowReduction reduction,
                                    ComputeType type, int64_t lanes) {
  Node constant{Node::Kind::Constant, type};
  if (reduction == RowReduction::Sum) {
    // Adding -0 changes no number, but sums of nothing are 0 in PyTorch.
    constant.number = 0;
  } else {
    constant.number = -std::numeric_limits<double>::infinity();
    constant.integer = type == ComputeType::I64   ? std::numeric_limits<int64_t>::min()
                       : type == ComputeType::I32 ? std::numeric_limits<int32_t>::min()
                                                  : 0;
  }
  return emitConstant(b, constant, lanes);
}
