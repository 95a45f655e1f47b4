//===- PrintProgram.cpp - row programs as text ------------------------------===//

#include "lib/kernels/program/RowProgram.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace cleave::kernels;

static llvm::StringRef nameOf(ComputeType type) {
  static constexpr llvm::StringLiteral names[] = {"f32", "f64", "i64", "i32", "i1"};
  return names[static_cast<unsigned>(type)];
}

static llvm::StringRef nameOf(Function function) {
  static constexpr llvm::StringLiteral names[] = {
      "add", "sub", "mul",  "div", "neg", "abs", "sqrt",   "exp",     "log",        "log1p",
      "sin", "cos", "tanh", "erf", "pow", "max", "min",    "eq",      "ne",         "lt",
      "le",  "gt",  "ge",   "and", "or",  "xor", "select", "convert", "round_bf16", "round_f16"};
  return names[static_cast<unsigned>(function)];
}

static llvm::StringRef nameOf(RowReduction reduction) {
  static constexpr llvm::StringLiteral names[] = {"sum", "max", "max_numbers"};
  return names[static_cast<unsigned>(reduction)];
}

static void print(llvm::raw_ostream &os, const Access &access) {
  os << "tensor " << access.tensor << " at [";
  llvm::interleaveComma(access.rowStrides, os);
  os << "; " << access.columnStride << "]";
  if (access.offset)
    os << " + " << access.offset;
}

static void print(llvm::raw_ostream &os, const Node &node) {
  switch (node.kind) {
  case Node::Kind::Load:
    os << "load ";
    print(os, node.access);
    return;
  case Node::Kind::Constant:
    isFloat(node.type) ? os << "constant " << llvm::format("%.9g", node.number)
                       : os << "constant " << node.integer;
    return;
  case Node::Kind::ColumnIndex:
    os << "column_index";
    return;
  case Node::Kind::Map:
    os << nameOf(node.function);
    break;
  case Node::Kind::ReduceColumns:
    os << nameOf(node.reduction) << " over columns";
    break;
  case Node::Kind::ReduceRows:
    os << nameOf(node.reduction) << " over rows";
    break;
  case Node::Kind::Slice:
    os << "slice from " << node.start;
    break;
  case Node::Kind::Concat:
    os << "concat";
    break;
  case Node::Kind::Gather:
    os << "gather";
    break;
  }
  for (NodeId operand : node.operands)
    os << " %" << operand;
}

void RowProgram::print(llvm::raw_ostream &os) const {
  os << name << ": ";
  llvm::interleave(rowShape, os, "x");
  os << " rows of " << columns << " columns\n";
  auto printExtent = [&](uint32_t rowDims, int64_t width) {
    if (rowDims == 0 && width == 0)
      return void(os << " scalar");
    if (rowDims)
      os << (rowDims == allRowDims() ? " rows" : " some rows");
    if (width)
      os << " columns " << width;
  };
  for (auto [id, node] : llvm::enumerate(nodes)) {
    os << "  %" << id << " = ";
    ::print(os, node);
    os << " : " << nameOf(node.type);
    printExtent(node.rowDims, node.columns);
    os << "\n";
  }
  for (const Store &store : stores) {
    os << "  store %" << store.value << " to ";
    ::print(os, store.access);
    os << " :";
    printExtent(store.rowDims, store.columns);
    os << "\n";
  }
}
