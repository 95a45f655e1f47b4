//===- Numbers.cpp - numbers that a program computes -------------------------===//
//
// Numbers are doubles and booleans on the host, computed as Python computes its floats: by the
// processor's arithmetic, and by the C library's functions.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Call.h"
#include "runtime/exec/Kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace cleave::runtime;
namespace aten = cleave::aten;

//===----------------------------------------------------------------------===//
// aten.item
//===----------------------------------------------------------------------===//

namespace {
class Item : public Instruction {
public:
  Operand input;
  Destination result;

  void execute(Frame &frame) override { result.write(frame, input.tensor(frame).item<double>()); }
};
} // namespace

BindResult cleave::runtime::bindItem(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<aten::ItemOp>(ops.front());
  auto instruction = std::make_unique<Item>();
  instruction->input = binder.use(op.getInput());
  instruction->result = binder.define(op.getResult());
  return instruction;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

namespace {
/// A number as instructions compute with it: a boolean is 0 or 1.
using Function = double (*)(const double *operands);

class Arithmetic : public Instruction {
public:
  Function function = nullptr;
  llvm::SmallVector<Operand, 3> operands;
  Destination result;
  bool isBoolean = false;
  double constant = 0; ///< Without a function.

  void execute(Frame &frame) override {
    llvm::SmallVector<double, 3> numbers;
    for (const Operand &operand : operands)
      numbers.push_back(operand.read(frame).toScalar().to<double>());
    double number = function ? function(numbers.data()) : constant;
    result.write(frame, isBoolean ? c10::IValue(number != 0) : c10::IValue(number));
  }
};
} // namespace

static Function findComparison(arith::CmpFPredicate predicate) {
  using P = arith::CmpFPredicate;
  switch (predicate) {
  case P::OEQ:
    return [](const double *x) -> double { return x[0] == x[1]; };
  case P::UNE:
    return [](const double *x) -> double { return x[0] != x[1]; };
  case P::OLT:
    return [](const double *x) -> double { return x[0] < x[1]; };
  case P::OLE:
    return [](const double *x) -> double { return x[0] <= x[1]; };
  case P::OGT:
    return [](const double *x) -> double { return x[0] > x[1]; };
  case P::OGE:
    return [](const double *x) -> double { return x[0] >= x[1]; };
  default: // Python has no others.
    return nullptr;
  }
}

/// Null for an op that the runtime does not have.
static Function findFunction(Operation *op) {
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return findComparison(compare.getPredicate());
  return llvm::TypeSwitch<Operation *, Function>(op)
      .Case([](arith::AddFOp) { return [](const double *x) { return x[0] + x[1]; }; })
      .Case([](arith::SubFOp) { return [](const double *x) { return x[0] - x[1]; }; })
      .Case([](arith::MulFOp) { return [](const double *x) { return x[0] * x[1]; }; })
      .Case([](arith::DivFOp) { return [](const double *x) { return x[0] / x[1]; }; })
      .Case([](arith::RemFOp) { return [](const double *x) { return std::fmod(x[0], x[1]); }; })
      .Case([](arith::NegFOp) { return [](const double *x) { return -x[0]; }; })
      .Case([](arith::SelectOp) { return [](const double *x) { return x[0] != 0 ? x[1] : x[2]; }; })
      .Case([](arith::AndIOp) {
        return [](const double *x) -> double { return x[0] != 0 && x[1] != 0; };
      })
      .Case([](arith::OrIOp) {
        return [](const double *x) -> double { return x[0] != 0 || x[1] != 0; };
      })
      .Case([](arith::XOrIOp) { return [](const double *x) -> double { return x[0] != x[1]; }; })
      .Case([](math::PowFOp) { return [](const double *x) { return std::pow(x[0], x[1]); }; })
      .Case([](math::AbsFOp) { return [](const double *x) { return std::fabs(x[0]); }; })
      .Case([](math::SqrtOp) { return [](const double *x) { return std::sqrt(x[0]); }; })
      .Case([](math::ExpOp) { return [](const double *x) { return std::exp(x[0]); }; })
      .Case([](math::LogOp) { return [](const double *x) { return std::log(x[0]); }; })
      .Case([](math::CosOp) { return [](const double *x) { return std::cos(x[0]); }; })
      .Case([](math::SinOp) { return [](const double *x) { return std::sin(x[0]); }; })
      .Case([](math::FloorOp) { return [](const double *x) { return std::floor(x[0]); }; })
      .Case([](math::CeilOp) { return [](const double *x) { return std::ceil(x[0]); }; })
      .Case([](math::TruncOp) { return [](const double *x) { return std::trunc(x[0]); }; })
      .Default([](Operation *) { return nullptr; });
}

static bool isNumber(Type type) {
  return type.isF64() || type.isInteger(1);
}

BindResult cleave::runtime::bindArithmetic(Binder &binder, Operation *op) {
  auto instruction = std::make_unique<Arithmetic>();
  if (!llvm::all_of(op->getOperandTypes(), isNumber) ||
      !llvm::all_of(op->getResultTypes(), isNumber))
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "the runtime computes numbers of type f64 and i1 only, where tensors have aten ops");
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
      instruction->constant = real.getValueAsDouble();
    else
      instruction->constant = cast<IntegerAttr>(constant.getValue()).getValue().isOne();
  } else {
    instruction->function = findFunction(op);
    if (!instruction->function)
      return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                     "the runtime cannot execute it");
  }
  for (Value operand : op->getOperands())
    instruction->operands.push_back(binder.use(operand));
  instruction->result = binder.define(op->getResult(0));
  instruction->isBoolean = op->getResult(0).getType().isInteger(1);
  return instruction;
}
