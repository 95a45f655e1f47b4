//===- ProgramBuilder.h - taking ops apart --------------------------*- C++ -*-===//
//
// An op that kernels may contain has a decomposition, its formula: a function that says in
// primitive steps what it computes. Adding an op is adding one to a file of
// lib/kernels/program/decompositions.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_PROGRAM_PROGRAMBUILDER_H
#define CLEAVE_LIB_KERNELS_PROGRAM_PROGRAMBUILDER_H

#include "dialects/aten/Aten.h"
#include "lib/kernels/fusion/KernelLayout.h"
#include "lib/kernels/program/RowProgram.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace cleave::kernels {

/// Makes nodes. Values that are equal by construction are one node.
class ProgramBuilder {
public:
  explicit ProgramBuilder(RowProgram &program) : program(program) {}

  const Node &operator[](NodeId node) const { return program.nodes[node]; }
  ComputeType typeOf(NodeId node) const { return program.nodes[node].type; }

  NodeId load(Access access, ComputeType type, uint32_t rowDims, int64_t columns);
  NodeId constant(ComputeType type, double number);
  NodeId integer(ComputeType type, int64_t number);
  NodeId columnIndex(int64_t columns);
  NodeId map(Function function, llvm::ArrayRef<NodeId> operands);
  NodeId convert(NodeId value, ComputeType type);
  /// Over `columns` columns, of which each has the value if it has none of its own.
  NodeId reduceColumns(RowReduction reduction, NodeId value, int64_t columns);
  NodeId reduceRows(RowReduction reduction, NodeId value);
  NodeId slice(NodeId value, int64_t start, int64_t columns);
  /// The values' columns side by side, `columns` of each.
  NodeId concat(llvm::ArrayRef<NodeId> values, llvm::ArrayRef<int64_t> columns);
  NodeId gather(NodeId value, NodeId index);

  // Shorthands for what formulas are written with. A number takes the type of the node next to it.
  NodeId add(NodeId a, NodeId b) { return map(Function::Add, {a, b}); }
  NodeId sub(NodeId a, NodeId b) { return map(Function::Sub, {a, b}); }
  NodeId mul(NodeId a, NodeId b) { return map(Function::Mul, {a, b}); }
  NodeId div(NodeId a, NodeId b) { return map(Function::Div, {a, b}); }
  NodeId add(NodeId a, double b) { return add(a, constant(typeOf(a), b)); }
  NodeId sub(NodeId a, double b) { return sub(a, constant(typeOf(a), b)); }
  NodeId sub(double a, NodeId b) { return sub(constant(typeOf(b), a), b); }
  NodeId mul(NodeId a, double b) { return mul(a, constant(typeOf(a), b)); }
  NodeId div(double a, NodeId b) { return div(constant(typeOf(b), a), b); }
  NodeId neg(NodeId a) { return map(Function::Neg, {a}); }
  NodeId exp(NodeId a) { return map(Function::Exp, {a}); }
  NodeId select(NodeId condition, NodeId a, NodeId b) {
    return map(Function::Select, {condition, a, b});
  }
  NodeId sum(NodeId a, int64_t columns) { return reduceColumns(RowReduction::Sum, a, columns); }

  RowProgram &program;

private:
  NodeId insert(Node node);
  llvm::StringMap<NodeId> known;
};

/// An op being decomposed.
class OpDecomposer {
public:
  OpDecomposer(ProgramBuilder &builder, mlir::Operation *op, const KernelLayout &layout)
      : b(builder), op(op), layout(layout) {}

  /// The value of operand `i`, in the type that its dtype is computed in.
  NodeId operand(unsigned i) const { return operands[i]; }
  NodeId operand(unsigned i, ComputeType type) { return b.convert(operands[i], type); }
  /// The value of the tensor argument `name`; none if it is not given.
  std::optional<NodeId> argument(llvm::StringRef name) const;
  /// How the tensor operand or result lies over the kernel's rows.
  const RowLayout &access(mlir::Value value) const { return layout.values.at(value); }
  /// Of a row of operand `i`.
  int64_t columns(unsigned i = 0) const { return access(op->getOperand(i)).columns; }
  /// What result `i` is computed in.
  ComputeType type(unsigned i = 0) const { return resultTypes[i]; }
  /// A number given as attribute, as a constant of `type`; `absent` where it is not given.
  NodeId scalar(llvm::StringRef name, ComputeType type, double absent = 0);
  bool has(llvm::StringRef name) const;
  bool flag(llvm::StringRef name) const;
  double number(llvm::StringRef name, double absent = 0) const;
  /// Whether result `i` is asked for.
  bool wants(unsigned i) const {
    return mlir::isa<mlir::RankedTensorType>(op->getResult(i).getType());
  }
  void set(unsigned i, NodeId value) { results[i] = b.convert(value, resultTypes[i]); }
  mlir::LogicalResult result(NodeId value) {
    set(0, value);
    return mlir::success();
  }
  mlir::LogicalResult refuse(const llvm::Twine &why) {
    reason = why.str();
    return mlir::failure();
  }

  ProgramBuilder &b;
  mlir::Operation *op;
  const KernelLayout &layout;
  llvm::SmallVector<NodeId> operands;
  llvm::SmallVector<ComputeType> resultTypes;
  llvm::SmallVector<std::optional<NodeId>> results;
  std::string reason;
};

using Decomposition = mlir::LogicalResult (*)(OpDecomposer &);

/// How to decompose ops, by class.
class DecompositionTable {
public:
  template <typename... Ops> void add(Decomposition decomposition) {
    static_assert((Ops::template hasTrait<aten::RowOpInterface::Trait>() && ...),
                  "no kernel contains an op whose record does not say how it lies over rows");
    (table.try_emplace(mlir::TypeID::get<Ops>(), decomposition), ...);
  }

  /// Null for an op that has none.
  Decomposition find(mlir::Operation *op) const { return table.lookup(op->getName().getTypeID()); }

private:
  llvm::DenseMap<mlir::TypeID, Decomposition> table;
};

const DecompositionTable &getDecompositions();

// Each adds those of one area.
void addArithmetic(DecompositionTable &table);
void addActivations(DecompositionTable &table);
void addComparisons(DecompositionTable &table);
void addLosses(DecompositionTable &table);
void addReductions(DecompositionTable &table);
void addSoftmax(DecompositionTable &table);
void addNormalization(DecompositionTable &table);
void addMovement(DecompositionTable &table);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_PROGRAM_PROGRAMBUILDER_H
