//===- Scalar.cpp - functions of numbers, for one GPU thread -------------------------===//

#include "lib/kernels/gpu/Scalar.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <limits>

using namespace mlir;
using namespace cleave::kernels;
using gpu::ScalarEmitter;

Type ScalarEmitter::getType(ComputeType type) {
  switch (type) {
  case ComputeType::F32:
    return b.getF32Type();
  case ComputeType::F64:
    return b.getF64Type();
  case ComputeType::I64:
    return b.getI64Type();
  case ComputeType::I32:
    return b.getI32Type();
  case ComputeType::I1:
    return b.getI1Type();
  }
  llvm_unreachable("all types are listed");
}

Type ScalarEmitter::getStorageType(Type dtype) {
  if (dtype.isBF16())
    return b.getBF16Type();
  if (dtype.isF16())
    return b.getF16Type();
  if (dtype.isF32())
    return b.getF32Type();
  if (dtype.isF64())
    return b.getF64Type();
  return b.getIntegerType(std::max(8u, dtype.getIntOrFloatBitWidth()));
}

Value ScalarEmitter::constant(ComputeType type, double number, int64_t integer) {
  if (type == ComputeType::F32)
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(number)));
  if (type == ComputeType::F64)
    return arith::ConstantOp::create(b, b.getF64FloatAttr(number));
  return arith::ConstantOp::create(b, b.getIntegerAttr(getType(type), integer));
}

Value ScalarEmitter::i32(int64_t value) {
  return constant(ComputeType::I32, 0, value);
}
Value ScalarEmitter::i64(int64_t value) {
  return constant(ComputeType::I64, 0, value);
}

Value ScalarEmitter::call(llvm::StringRef name, ComputeType type, ValueRange operands) {
  std::string symbol = ("__nv_" + name + (type == ComputeType::F32 ? "f" : "")).str();
  auto function = dyn_cast_or_null<LLVM::LLVMFuncOp>(SymbolTable::lookupSymbolIn(module, symbol));
  if (!function) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&module->getRegion(0).front());
    SmallVector<Type> types(operands.size(), getType(type));
    function =
        LLVM::LLVMFuncOp::create(b, symbol, LLVM::LLVMFunctionType::get(getType(type), types));
  }
  return LLVM::CallOp::create(b, function, operands).getResult();
}

Value ScalarEmitter::compare(Function function, ComputeType type, Value x, Value y) {
  using arith::CmpFPredicate;
  using arith::CmpIPredicate;
  struct Row {
    Function function;
    CmpFPredicate ofFloats;
    CmpIPredicate ofIntegers;
  };
  static const Row rows[] = {
      {Function::Equal, CmpFPredicate::OEQ, CmpIPredicate::eq},
      {Function::NotEqual, CmpFPredicate::UNE, CmpIPredicate::ne},
      {Function::Less, CmpFPredicate::OLT, CmpIPredicate::slt},
      {Function::LessEqual, CmpFPredicate::OLE, CmpIPredicate::sle},
      {Function::Greater, CmpFPredicate::OGT, CmpIPredicate::sgt},
      {Function::GreaterEqual, CmpFPredicate::OGE, CmpIPredicate::sge},
  };
  const Row &row = *llvm::find_if(rows, [&](const Row &row) { return row.function == function; });
  if (isFloat(type))
    return arith::CmpFOp::create(b, row.ofFloats, x, y);
  // True is 1, not -1.
  if (type == ComputeType::I1) {
    x = arith::ExtUIOp::create(b, b.getI32Type(), x);
    y = arith::ExtUIOp::create(b, b.getI32Type(), y);
  }
  return arith::CmpIOp::create(b, row.ofIntegers, x, y);
}

Value ScalarEmitter::map(Function function, ComputeType type, ComputeType operandType,
                         ValueRange x) {
  bool ofFloats = isFloat(operandType);
  auto round = [&](Type narrow) -> Value {
    Value rounded = arith::TruncFOp::create(b, narrow, x[0]);
    return arith::ExtFOp::create(b, b.getF32Type(), rounded);
  };
  switch (function) {
  case Function::Add:
    return ofFloats ? Value(arith::AddFOp::create(b, x[0], x[1]))
                    : Value(arith::AddIOp::create(b, x[0], x[1]));
  case Function::Sub:
    return ofFloats ? Value(arith::SubFOp::create(b, x[0], x[1]))
                    : Value(arith::SubIOp::create(b, x[0], x[1]));
  case Function::Mul:
    return ofFloats ? Value(arith::MulFOp::create(b, x[0], x[1]))
                    : Value(arith::MulIOp::create(b, x[0], x[1]));
  case Function::Div:
    return arith::DivFOp::create(b, x[0], x[1]);
  case Function::Neg:
    return ofFloats ? Value(arith::NegFOp::create(b, x[0]))
                    : Value(arith::SubIOp::create(b, constant(operandType, 0, 0), x[0]));
  case Function::Abs:
    if (ofFloats)
      return LLVM::FAbsOp::create(b, x[0]);
    return LLVM::AbsOp::create(b, x[0].getType(), x[0], /*is_int_min_poison=*/false);
  case Function::Sqrt:
    return LLVM::SqrtOp::create(b, x[0]);
  case Function::Exp:
    return call("exp", type, x);
  case Function::Log:
    return call("log", type, x);
  case Function::Log1p:
    return call("log1p", type, x);
  case Function::Sin:
    return call("sin", type, x);
  case Function::Cos:
    return call("cos", type, x);
  case Function::Tanh:
    return call("tanh", type, x);
  case Function::Erf:
    return call("erf", type, x);
  case Function::Pow:
    return call("pow", type, x);
  case Function::Maximum:
    return ofFloats ? Value(arith::MaximumFOp::create(b, x[0], x[1]))
                    : Value(arith::MaxSIOp::create(b, x[0], x[1]));
  case Function::Minimum:
    return ofFloats ? Value(arith::MinimumFOp::create(b, x[0], x[1]))
                    : Value(arith::MinSIOp::create(b, x[0], x[1]));
  case Function::Equal:
  case Function::NotEqual:
  case Function::Less:
  case Function::LessEqual:
  case Function::Greater:
  case Function::GreaterEqual:
    return compare(function, operandType, x[0], x[1]);
  case Function::And:
    return arith::AndIOp::create(b, x[0], x[1]);
  case Function::Or:
    return arith::OrIOp::create(b, x[0], x[1]);
  case Function::Xor:
    return arith::XOrIOp::create(b, x[0], x[1]);
  case Function::Select:
    return arith::SelectOp::create(b, x[0], x[1], x[2]);
  case Function::Convert:
    return convert(x[0], operandType, type);
  case Function::RoundBF16:
    return round(b.getBF16Type());
  case Function::RoundF16:
    return round(b.getF16Type());
  }
  llvm_unreachable("all functions are listed");
}

Value ScalarEmitter::convert(Value value, ComputeType from, ComputeType to) {
  if (from == to)
    return value;
  Type type = getType(to);
  if (to == ComputeType::I1) {
    Value zero = constant(from, 0, 0);
    return compare(Function::NotEqual, from, value, zero);
  }
  if (from == ComputeType::F32 && to == ComputeType::F64)
    return arith::ExtFOp::create(b, type, value);
  if (from == ComputeType::F64 && to == ComputeType::F32)
    return arith::TruncFOp::create(b, type, value);
  if (isFloat(from))
    return arith::FPToSIOp::create(b, type, value);
  if (from == ComputeType::I1)
    return isFloat(to) ? Value(arith::UIToFPOp::create(b, type, value))
                       : Value(arith::ExtUIOp::create(b, type, value));
  if (isFloat(to))
    return arith::SIToFPOp::create(b, type, value);
  return to == ComputeType::I64 ? Value(arith::ExtSIOp::create(b, type, value))
                                : Value(arith::TruncIOp::create(b, type, value));
}

Value ScalarEmitter::fromStorage(Value value, Type dtype) {
  if (dtype.isBF16() || dtype.isF16())
    return arith::ExtFOp::create(b, b.getF32Type(), value);
  if (isa<FloatType>(dtype) || dtype.getIntOrFloatBitWidth() >= 32)
    return value;
  if (dtype.isInteger(1))
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value,
                                 arith::ConstantOp::create(b, b.getI8IntegerAttr(0)));
  if (dtype.isUnsignedInteger())
    return arith::ExtUIOp::create(b, b.getI32Type(), value);
  return arith::ExtSIOp::create(b, b.getI32Type(), value);
}

Value ScalarEmitter::toStorage(Value value, ComputeType from, Type dtype) {
  value = convert(value, from, *getComputeType(dtype));
  if (dtype.isBF16() || dtype.isF16())
    return arith::TruncFOp::create(b, getStorageType(dtype), value);
  if (isa<FloatType>(dtype) || dtype.getIntOrFloatBitWidth() >= 32)
    return value;
  if (dtype.isInteger(1))
    return arith::ExtUIOp::create(b, b.getI8Type(), value);
  return arith::TruncIOp::create(b, getStorageType(dtype), value);
}

Value ScalarEmitter::neutral(RowReduction reduction, ComputeType type) {
  if (reduction == RowReduction::Sum)
    return constant(type, 0, 0);
  return constant(type, -std::numeric_limits<double>::infinity(),
                  type == ComputeType::I32 ? std::numeric_limits<int32_t>::min()
                                           : std::numeric_limits<int64_t>::min());
}

Value ScalarEmitter::combine(RowReduction reduction, ComputeType type, Value x, Value y) {
  switch (reduction) {
  case RowReduction::Sum:
    return map(Function::Add, type, type, {x, y});
  case RowReduction::Max:
    return map(Function::Maximum, type, type, {x, y});
  case RowReduction::MaxNumbers:
    return isFloat(type) ? Value(arith::MaxNumFOp::create(b, x, y))
                         : map(Function::Maximum, type, type, {x, y});
  }
  llvm_unreachable("all reductions are listed");
}
