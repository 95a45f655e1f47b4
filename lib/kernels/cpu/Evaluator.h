//===- Evaluator.h - emitting the values of a row program -----------*- C++ -*-===//
//
// Pull-based emission: a consumer of a value at some columns of the current row asks for it, and
// gets the instructions that compute it there and then. Loops around them are the target's.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_CPU_EVALUATOR_H
#define CLEAVE_LIB_KERNELS_CPU_EVALUATOR_H

#include "lib/kernels/cpu/EmitFunction.h"
#include "lib/kernels/cpu/KernelPlan.h"

#include "llvm/ADT/DenseSet.h"

namespace cleave::kernels {

/// Columns that are computed side by side.
struct ColumnBlock {
  /// i64: the first one, counted as that of what the walk stores or reduces.
  mlir::Value column;
  /// Lanes of the vectors; 0: one number.
  int64_t lanes = 0;
  /// Lanes that are columns, a vector of i1; null: all. The others may hold any number.
  mlir::Value mask;
  /// The walk's columns that may be meant, so that it is known on which side of a seam they lie.
  int64_t low = 0, high = 0;
};

class Evaluator {
public:
  Evaluator(mlir::ImplicitLocOpBuilder &b, const RowProgram &program, const KernelPlan &plan)
      : b(b), program(program), plan(plan) {}
  virtual ~Evaluator() = default;

  /// The phase begins. Emits, at this point, all that does not depend on the row and is one number:
  /// valid for the rows of all loops inside.
  void beginPhase(const Phase &phase);
  /// From here on, values are those of `row`, an i64.
  void beginRow(mlir::Value row);
  /// Walk `pass` of the row begins: what earlier ones keep is there.
  void beginPass(unsigned pass) {
    currentPass = pass;
    prepared.clear();
  }

  /// The value of a node without columns; it is emitted where it is asked for first.
  mlir::Value getNumber(NodeId id);
  /// The result of a reduction.
  void setNumber(NodeId id, mlir::Value value) { numbers[id] = value; }
  /// Emits the numbers that computing the node at a block of columns will need.
  void prepare(NodeId id);
  /// And that storing it will need.
  void prepare(const Store &store) { getRowOffset(store.access); }

  void beginBlock(const ColumnBlock &block);
  /// A node's value at the block's columns plus `shift`. Of one without columns: in all lanes.
  mlir::Value get(NodeId id, int64_t shift = 0);

  void store(const Store &store, mlir::Value value);
  /// To scratch memory.
  void keep(NodeId id, mlir::Value value);
  /// Memory at element `index` after `base`, for elements computed with as `type`.
  mlir::Value loadPlain(mlir::Value base, ComputeType type, mlir::Value index);
  void storePlain(mlir::Value value, mlir::Value base, mlir::Value index);

  /// Columns at which a walk of `columns` columns must be cut, since what the two sides of `nodes`
  /// are computed from differs; in order.
  llvm::SmallVector<int64_t> findSeams(llvm::ArrayRef<NodeId> nodes, int64_t columns) const;

protected:
  /// The address of a tensor's first element.
  virtual mlir::Value getTensor(unsigned index) = 0;
  /// The address of a kept value's first element in scratch memory.
  virtual mlir::Value getScratch(const Kept &kept) = 0;
  /// In the finishing phase, a ReduceRows node: of column `column`, an i64, or without columns.
  virtual mlir::Value sumPartials(NodeId id, mlir::Value column) = 0;

  /// How far apart the tensor's rows lie, where they follow each other as the program's do.
  std::optional<int64_t> getRowStride(const Access &access) const;
  /// Asks for what the load, which has such a stride, reads at these columns of the next row.
  /// `locality`: 3 for the first cache, 2 for the second.
  void prefetchNextRow(NodeId load, unsigned locality);

  mlir::Value i64(int64_t number);
  mlir::Value addOffset(mlir::Value index, int64_t offset);
  mlir::Value getElement(mlir::Value base, mlir::Type element, mlir::Value index);

  mlir::ImplicitLocOpBuilder &b;
  const RowProgram &program;
  const KernelPlan &plan;
  ColumnBlock block;
  mlir::Value row;

private:
  bool isInvariant(NodeId id) const;
  /// Where an earlier walk has left the node; null if none has.
  const Kept *findKept(NodeId id) const;
  mlir::Value emit(NodeId id, int64_t shift);
  mlir::Value getColumns(mlir::IntegerType type, int64_t shift);
  mlir::Value compareColumns(const Node &node, int64_t shift);
  mlir::Value getCoordinate(unsigned dim);
  mlir::Value getRowOffset(const Access &access);
  mlir::Value getIndex(const Access &access, int64_t shift);
  mlir::Value loadMemory(mlir::Value base, mlir::Type element, mlir::Value index);
  void storeMemory(mlir::Value value, mlir::Value base, mlir::Value index);
  /// A vector of the block's lanes with the number in each.
  mlir::Value spread(mlir::Value number);

  bool isFinish = false;
  unsigned currentPass = 0;
  llvm::DenseMap<NodeId, mlir::Value> numbers, invariants, spreads;
  llvm::DenseSet<NodeId> prepared;
  llvm::DenseMap<unsigned, mlir::Value> coordinates;
  std::vector<std::pair<Access, mlir::Value>> offsets;
  llvm::DenseMap<std::pair<NodeId, int64_t>, mlir::Value> values;
};

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_CPU_EVALUATOR_H
