//===- Comparisons.cpp - comparisons, logic, bounds, choices ----------------===//

#include "dialects/aten/DTypes.h"
#include "dialects/aten/ops/Comparison.h"
#include "lib/kernels/program/ProgramBuilder.h"

#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

template <Function function> static LogicalResult compare(OpDecomposer &d) {
  std::optional<ComputeType> type = getComputeType(aten::resultType(d.op->getOperands()));
  if (!type)
    return d.refuse("compares numbers of an unsupported type");
  return d.result(d.b.map(function, {d.operand(0, *type), d.operand(1, *type)}));
}

template <Function function> static LogicalResult compareScalar(OpDecomposer &d) {
  Attribute other = d.op->getAttr("other");
  std::optional<ComputeType> type = getComputeType(aten::resultType(d.op->getOperands(), {other}));
  if (!type)
    return d.refuse("compares numbers of an unsupported type");
  return d.result(d.b.map(function, {d.operand(0, *type), d.scalar("other", *type)}));
}

/// What is not zero is true.
template <Function function> static LogicalResult logical(OpDecomposer &d) {
  return d.result(
      d.b.map(function, {d.operand(0, ComputeType::I1), d.operand(1, ComputeType::I1)}));
}

static LogicalResult logicalNot(OpDecomposer &d) {
  NodeId x = d.operand(0, ComputeType::I1);
  return d.result(d.b.map(Function::Xor, {x, d.b.integer(ComputeType::I1, 1)}));
}

template <Function function> static LogicalResult bitwise(OpDecomposer &d) {
  return d.result(d.b.map(function, {d.operand(0, d.type()), d.operand(1, d.type())}));
}

static LogicalResult bitwiseNot(OpDecomposer &d) {
  int64_t all = d.type() == ComputeType::I1 ? 1 : -1;
  return d.result(d.b.map(Function::Xor, {d.operand(0, d.type()), d.b.integer(d.type(), all)}));
}

/// A NaN stays one, and a bound that is NaN makes one of everything.
static NodeId bound(OpDecomposer &d, NodeId x, StringRef name, Function beyond) {
  if (!d.has(name))
    return x;
  NodeId limit = d.scalar(name, d.type());
  if (isFloat(d.type()) && std::isnan(d.number(name)))
    return limit;
  return d.b.select(d.b.map(beyond, {x, limit}), limit, x);
}

static LogicalResult clamp(OpDecomposer &d) {
  NodeId x = bound(d, d.operand(0, d.type()), "min", Function::Less);
  return d.result(bound(d, x, "max", Function::Greater));
}

static LogicalResult where(OpDecomposer &d) {
  return d.result(
      d.b.select(d.operand(0, ComputeType::I1), d.operand(1, d.type()), d.operand(2, d.type())));
}

static LogicalResult maskedFillScalar(OpDecomposer &d) {
  return d.result(d.b.select(d.operand(1, ComputeType::I1), d.scalar("value", d.type()),
                             d.operand(0, d.type())));
}

static LogicalResult maskedFill(OpDecomposer &d) {
  return d.result(
      d.b.select(d.operand(1, ComputeType::I1), d.operand(2, d.type()), d.operand(0, d.type())));
}

void cleave::kernels::addComparisons(DecompositionTable &table) {
  table.add<aten::EqOp>(compare<Function::Equal>);
  table.add<aten::NeOp>(compare<Function::NotEqual>);
  table.add<aten::LtOp>(compare<Function::Less>);
  table.add<aten::LeOp>(compare<Function::LessEqual>);
  table.add<aten::GtOp>(compare<Function::Greater>);
  table.add<aten::GeOp>(compare<Function::GreaterEqual>);
  table.add<aten::EqScalarOp>(compareScalar<Function::Equal>);
  table.add<aten::NeScalarOp>(compareScalar<Function::NotEqual>);
  table.add<aten::LtScalarOp>(compareScalar<Function::Less>);
  table.add<aten::LeScalarOp>(compareScalar<Function::LessEqual>);
  table.add<aten::GtScalarOp>(compareScalar<Function::Greater>);
  table.add<aten::GeScalarOp>(compareScalar<Function::GreaterEqual>);
  table.add<aten::LogicalAndOp>(logical<Function::And>);
  table.add<aten::LogicalOrOp>(logical<Function::Or>);
  table.add<aten::LogicalNotOp>(logicalNot);
  table.add<aten::BitwiseAndOp>(bitwise<Function::And>);
  table.add<aten::BitwiseOrOp>(bitwise<Function::Or>);
  table.add<aten::BitwiseNotOp>(bitwiseNot);
  table.add<aten::MaximumOp>(bitwise<Function::Maximum>);
  table.add<aten::MinimumOp>(bitwise<Function::Minimum>);
  table.add<aten::ClampOp>(clamp);
  table.add<aten::ClampMinOp>(clamp);
  table.add<aten::ClampMaxOp>(clamp);
  table.add<aten::WhereOp>(where);
  table.add<aten::MaskedFillScalarOp>(maskedFillScalar);
  table.add<aten::MaskedFillOp>(maskedFill);
}
