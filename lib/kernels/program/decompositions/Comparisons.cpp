//===- Comparisons.cpp - comparisons, logic, bounds, choices ----------------===//

#include "dialects/aten/DTypes.h"
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
  table["aten.eq"] = compare<Function::Equal>;
  table["aten.ne"] = compare<Function::NotEqual>;
  table["aten.lt"] = compare<Function::Less>;
  table["aten.le"] = compare<Function::LessEqual>;
  table["aten.gt"] = compare<Function::Greater>;
  table["aten.ge"] = compare<Function::GreaterEqual>;
  table["aten.eq_scalar"] = compareScalar<Function::Equal>;
  table["aten.ne_scalar"] = compareScalar<Function::NotEqual>;
  table["aten.lt_scalar"] = compareScalar<Function::Less>;
  table["aten.le_scalar"] = compareScalar<Function::LessEqual>;
  table["aten.gt_scalar"] = compareScalar<Function::Greater>;
  table["aten.ge_scalar"] = compareScalar<Function::GreaterEqual>;
  table["aten.logical_and"] = logical<Function::And>;
  table["aten.logical_or"] = logical<Function::Or>;
  table["aten.logical_not"] = logicalNot;
  table["aten.bitwise_and"] = bitwise<Function::And>;
  table["aten.bitwise_or"] = bitwise<Function::Or>;
  table["aten.bitwise_not"] = bitwiseNot;
  table["aten.maximum"] = bitwise<Function::Maximum>;
  table["aten.minimum"] = bitwise<Function::Minimum>;
  table["aten.clamp"] = clamp;
  table["aten.clamp_min"] = clamp;
  table["aten.clamp_max"] = clamp;
  table["aten.where"] = where;
  table["aten.masked_fill_scalar"] = maskedFillScalar;
  table["aten.masked_fill"] = maskedFill;
}
