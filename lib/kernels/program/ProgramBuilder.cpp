//===- ProgramBuilder.cpp - making the nodes of a row program ---------------===//

#include "lib/kernels/program/ProgramBuilder.h"

#include "dialects/aten/Aten.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

/// Nodes are equal if they print so.
static std::string keyOf(const Node &node) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << int(node.kind) << ' ' << int(node.type) << ' ' << int(node.function) << ' '
     << int(node.reduction) << ' ' << node.columns << ' ' << node.start << ' ' << node.integer
     << ' ' << llvm::bit_cast<uint64_t>(node.number) << ' ' << node.access.tensor << ' '
     << node.access.offset << ' ' << node.access.columnStride;
  for (int64_t stride : node.access.rowStrides)
    os << ',' << stride;
  for (NodeId operand : node.operands)
    os << ' ' << operand;
  return key;
}

NodeId ProgramBuilder::insert(Node node) {
  for (NodeId operand : node.operands)
    node.stage = std::max(node.stage, program.nodes[operand].stage);
  if (node.kind == Node::Kind::ReduceRows)
    ++node.stage;
  auto [it, isNew] = known.try_emplace(keyOf(node), NodeId(program.nodes.size()));
  if (isNew)
    program.nodes.push_back(std::move(node));
  return it->second;
}

NodeId ProgramBuilder::load(Access access, ComputeType type, uint32_t rowDims, int64_t columns) {
  Node node{Node::Kind::Load, type};
  node.access = std::move(access);
  node.rowDims = rowDims;
  node.columns = columns;
  return insert(std::move(node));
}

NodeId ProgramBuilder::constant(ComputeType type, double number) {
  if (!isFloat(type))
    return integer(type, static_cast<int64_t>(number));
  Node node{Node::Kind::Constant, type};
  node.number = number;
  return insert(std::move(node));
}

NodeId ProgramBuilder::integer(ComputeType type, int64_t number) {
  if (isFloat(type))
    return constant(type, static_cast<double>(number));
  Node node{Node::Kind::Constant, type};
  node.integer = type == ComputeType::I1 ? number != 0 : number;
  return insert(std::move(node));
}

NodeId ProgramBuilder::columnIndex(int64_t columns) {
  Node node{Node::Kind::ColumnIndex, ComputeType::I64};
  node.columns = columns;
  return insert(std::move(node));
}

static bool givesTruth(Function function) {
  return function >= Function::Equal && function <= Function::GreaterEqual;
}

NodeId ProgramBuilder::map(Function function, llvm::ArrayRef<NodeId> operands) {
  Node node{Node::Kind::Map, typeOf(operands.back())};
  node.function = function;
  if (givesTruth(function))
    node.type = ComputeType::I1;
  for (NodeId operand : operands) {
    node.rowDims |= program.nodes[operand].rowDims;
    node.columns = std::max(node.columns, program.nodes[operand].columns);
  }
  node.operands.assign(operands.begin(), operands.end());
  return insert(std::move(node));
}

NodeId ProgramBuilder::convert(NodeId value, ComputeType type) {
  const Node &from = program.nodes[value];
  if (from.type == type)
    return value;
  if (from.kind == Node::Kind::Constant)
    return isFloat(from.type) ? (type == ComputeType::I1 ? integer(type, from.number != 0)
                                                         : constant(type, from.number))
                              : integer(type, from.integer);
  Node node{Node::Kind::Map, type};
  node.function = Function::Convert;
  node.rowDims = from.rowDims;
  node.columns = from.columns;
  node.operands = {value};
  return insert(std::move(node));
}

NodeId ProgramBuilder::reduceColumns(RowReduction reduction, NodeId value, int64_t columns) {
  const Node &from = program.nodes[value];
  if (from.columns == 0)
    return reduction == RowReduction::Sum ? mul(value, double(columns)) : value;
  Node node{Node::Kind::ReduceColumns, from.type};
  node.reduction = reduction;
  node.rowDims = from.rowDims;
  node.operands = {value};
  return insert(std::move(node));
}

NodeId ProgramBuilder::reduceRows(RowReduction reduction, NodeId value) {
  if (program.rows() == 1)
    return value;
  const Node &from = program.nodes[value];
  Node node{Node::Kind::ReduceRows, from.type};
  node.reduction = reduction;
  node.columns = from.columns;
  node.operands = {value};
  return insert(std::move(node));
}

NodeId ProgramBuilder::slice(NodeId value, int64_t start, int64_t columns) {
  const Node &from = program.nodes[value];
  if (from.columns == 0 || (start == 0 && columns == from.columns))
    return value;
  Node node{Node::Kind::Slice, from.type};
  node.start = start;
  node.rowDims = from.rowDims;
  node.columns = columns;
  node.operands = {value};
  return insert(std::move(node));
}

NodeId ProgramBuilder::concat(llvm::ArrayRef<NodeId> values, llvm::ArrayRef<int64_t> columns) {
  Node node{Node::Kind::Concat, typeOf(values.front())};
  for (auto [value, width] : llvm::zip(values, columns)) {
    node.rowDims |= program.nodes[value].rowDims;
    node.columns += width;
  }
  node.widths.assign(columns.begin(), columns.end());
  node.operands.assign(values.begin(), values.end());
  return insert(std::move(node));
}

NodeId ProgramBuilder::gather(NodeId value, NodeId index) {
  const Node &from = program.nodes[value];
  if (from.columns == 0)
    return value;
  Node node{Node::Kind::Gather, from.type};
  node.rowDims = from.rowDims | program.nodes[index].rowDims;
  node.operands = {value, index};
  return insert(std::move(node));
}

//===----------------------------------------------------------------------===//
// OpDecomposer
//===----------------------------------------------------------------------===//

std::optional<NodeId> OpDecomposer::argument(llvm::StringRef name) const {
  unsigned position = 0;
  for (const aten::Argument &argument : aten::collectArguments(op)) {
    if (argument.name == name)
      return argument.values.empty() ? std::nullopt : std::optional(operands[position]);
    position += argument.values.size();
  }
  return std::nullopt;
}

bool OpDecomposer::has(llvm::StringRef name) const {
  return bool(op->getInherentAttr(name).value_or(Attribute()));
}

double OpDecomposer::number(llvm::StringRef name, double absent) const {
  Attribute value = op->getInherentAttr(name).value_or(Attribute());
  if (auto number = dyn_cast_or_null<FloatAttr>(value))
    return number.getValueAsDouble();
  if (auto number = dyn_cast_or_null<BoolAttr>(value))
    return number.getValue();
  if (auto number = dyn_cast_or_null<IntegerAttr>(value))
    return static_cast<double>(number.getInt());
  return absent;
}

bool OpDecomposer::flag(llvm::StringRef name) const {
  auto value = dyn_cast_or_null<BoolAttr>(op->getInherentAttr(name).value_or(Attribute()));
  return value && value.getValue();
}

NodeId OpDecomposer::scalar(llvm::StringRef name, ComputeType type, double absent) {
  Attribute value = op->getInherentAttr(name).value_or(Attribute());
  // Integers that a double cannot hold.
  if (auto number = dyn_cast_or_null<IntegerAttr>(value); number && !isa<BoolAttr>(value))
    return b.integer(type, number.getInt());
  return b.constant(type, number(name, absent));
}

const DecompositionTable &cleave::kernels::getDecompositions() {
  static const DecompositionTable table = [] {
    DecompositionTable table;
    addArithmetic(table);
    addActivations(table);
    addComparisons(table);
    addLosses(table);
    addReductions(table);
    addSoftmax(table);
    addNormalization(table);
    addMovement(table);
    return table;
  }();
  return table;
}
