//===- RowEmitter.h - the phase of a kernel that walks over rows ----*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_GPU_ROWEMITTER_H
#define CLEAVE_LIB_KERNELS_GPU_ROWEMITTER_H

#include "lib/kernels/gpu/Emitter.h"

namespace cleave::kernels::gpu {

/// Begins with the same for all rows; then rows one after the other, each in walks over its
/// columns with a reduction after each but the last; then the sums over rows.
class RowEmitter : public PhaseEmitter {
public:
  RowEmitter(const RowProgram &program, const Plan &plan, const RowPhase &phase,
             mlir::ModuleOp module)
      : PhaseEmitter(program, plan, module, phase.entry, phase.mapping.threads,
                     phase.mapping.minBlocks()),
        phase(phase), mapping(phase.mapping) {}

  void run();

private:
  using SlotBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(unsigned slot, const Column &,
                                                                     mlir::ValueRange)>;

  void placeThread();
  void emitInvariants();
  Column makeColumn(unsigned slot, int64_t columns, mlir::Value base);
  llvm::SmallVector<mlir::Value> forSlots(int64_t columns, llvm::SmallVector<mlir::Value> values,
                                          SlotBody body);

  llvm::SmallVector<mlir::Value> firstSums();
  llvm::SmallVector<mlir::Value> emitRows();
  llvm::SmallVector<mlir::Value> emitRow(mlir::Value step, mlir::ValueRange sums);
  void placeRow(mlir::Value step);
  void emitScalars(unsigned level);
  void reduceRow(unsigned level, mlir::Value step);
  llvm::SmallVector<mlir::Value> finishRow(mlir::Value step, llvm::SmallVector<mlir::Value> sums);
  mlir::Value guardOf(uint32_t rowDims);
  mlir::Value orNeutral(NodeId sum, mlir::Value value);
  void addToPartials(NodeId sum, const Column &column, mlir::ValueRange values, mlir::Value step);

  void writeSums(llvm::ArrayRef<mlir::Value> sums);
  void writeColumnSums(NodeId sum, llvm::ArrayRef<mlir::Value> values);
  void writeNumber(NodeId sum, mlir::Value value);

  /// The walks' values of columns lie in registers if all are written one after the other.
  bool sumsInRegisters(NodeId sum) const { return node(sum).columns == 0 || !mapping.isLooped; }
  unsigned numRegisters(NodeId sum) const {
    return node(sum).columns == 0 ? 1 : mapping.slots * mapping.vector;
  }
  NodeId summed(NodeId sum) const {
    auto it = phase.totals.find(sum);
    return it != phase.totals.end() ? it->second : node(sum).operands[0];
  }

  const RowPhase &phase;
  const Mapping &mapping;
  /// The thread's group, and its place in it.
  mlir::Value group, lane;
  mlir::Value part, tile;
  /// Whether the current row exists; null if it does for sure. Else the last row stands for it.
  mlir::Value rowValid;
  /// Where the tile begins; null: at column 0.
  mlir::Value tileBase;
  std::map<std::pair<unsigned, int64_t>, Column> columns;
  std::map<unsigned, unsigned> idsOfSlots;
};

} // namespace cleave::kernels::gpu

#endif // CLEAVE_LIB_KERNELS_GPU_ROWEMITTER_H
