//===- Emitter.h - a phase of a kernel as a GPU function ------------*- C++ -*-===//
//
// Writes one `llvm.func` with ops of the LLVM, NVVM, arith and scf dialects for each phase of a
// plan. Values of columns are *pulled*: `emit(node, column)` writes what the node's value at the
// thread's columns takes, and remembers it as long as it may be used.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_GPU_EMITTER_H
#define CLEAVE_LIB_KERNELS_GPU_EMITTER_H

#include "lib/kernels/gpu/Plan.h"
#include "lib/kernels/gpu/Scalar.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <map>

namespace cleave::kernels::gpu {

/// A value in each of a thread's neighbouring columns.
using Lanes = llvm::SmallVector<mlir::Value, 8>;

/// The columns of one step of a thread.
struct Column {
  /// The first of them, a multiple of their number.
  mlir::Value index;
  unsigned lanes = 1;
  /// Added to the index: values cut out of others.
  int64_t shift = 0;
  /// What index + shift is at least, and below what the last of the columns is.
  int64_t lower = 0, upper = 0;
  /// Whether the columns exist; null: they do. Else the index is that of others, which do.
  mlir::Value valid;
  /// Tells columns apart.
  unsigned id = 0;
  /// The same in all rows, and known before the first.
  bool isFixed = false;
};

/// What phases have in common: tensors, shared memory, reductions of a block, values of nodes.
class PhaseEmitter {
public:
  PhaseEmitter(const RowProgram &program, const Plan &plan, mlir::ModuleOp module,
               llvm::StringRef entry, unsigned threads, unsigned minBlocks);

protected:
  const Node &node(NodeId id) const { return program.nodes[id]; }
  void finishFunction();

  // Memory.
  mlir::Value tensor(unsigned index) { return function.getArgument(index); }
  mlir::Value partials() { return function.getArguments().back(); }
  /// Bytes of shared memory, the same address in all threads of the block.
  mlir::Value allocateShared(unsigned bytes);
  mlir::Value offsetPointer(mlir::Value pointer, mlir::Type element, mlir::Value index);
  mlir::Value offsetPointer(mlir::Value pointer, mlir::Type element, int64_t index);
  /// `aligned`: a power of 2, of which the address is a multiple in elements.
  Lanes loadLanes(mlir::Value pointer, mlir::Type element, unsigned lanes, unsigned aligned);
  void storeLanes(mlir::Value pointer, mlir::ValueRange values, unsigned aligned);
  void barrier();
  /// Where `part` of a sum's partial results begins.
  mlir::Value partialPointer(NodeId sum, mlir::Value part);
  mlir::Value finalPointer(NodeId sum);

  // Values.
  /// The value at the columns: as many as those have lanes. Without columns: one for each lane.
  Lanes emit(NodeId id, const Column &column);
  /// The value of a node without columns.
  mlir::Value emitScalar(NodeId id);
  unsigned alignmentOf(const Access &access, const Column &column) const;
  void emitStore(unsigned store, mlir::Value pointer, const Column &column);
  /// The tensor's address in the current row.
  mlir::Value rowPointer(const Access &access);

  // Reductions over a block's threads, for values of nodes `ids`; all threads get the result.
  mlir::Value shuffle(mlir::Value value, unsigned distance);
  mlir::Value reduceLanes(mlir::Value value, RowReduction reduction, ComputeType type,
                          unsigned lanes);
  struct Term {
    mlir::Value value;
    RowReduction reduction;
    ComputeType type;
  };
  /// Over groups of `lanes` threads; groups of more than a warp are the whole block. `second`: an
  /// I1, which of two buffers to use, where nothing else keeps a warp from running ahead; or null.
  void reduceGroups(llvm::MutableArrayRef<Term> terms, unsigned lanes, mlir::Value second);

  void forThen(mlir::Value condition, llvm::function_ref<void()> body);
  mlir::Value conjunction(mlir::Value a, mlir::Value b);
  mlir::Value compareIndex(bool below, mlir::Value value, int64_t bound);

  const RowProgram &program;
  const Plan &plan;
  mlir::ModuleOp module;
  mlir::ImplicitLocOpBuilder b;
  ScalarEmitter scalars;
  mlir::LLVM::LLVMFuncOp function;
  unsigned threads;
  mlir::Value thread, block;
  /// Of columns: I32, or I64 where there are so many.
  mlir::Type indexType;
  mlir::Value indexConstant(int64_t value);

  /// Coordinates of the current row; empty if there is none.
  llvm::SmallVector<mlir::Value> coordinates;
  /// Loads that are the same for all rows are written before this, if there is one, as long
  /// as their number allows.
  mlir::Operation *hoistPoint = nullptr;
  int64_t hoistBudget = 0;
  unsigned nextColumn = 0;

  // What has been written, by node and columns (id, shift).
  using Key = std::tuple<NodeId, unsigned, int64_t>;
  std::map<Key, Lanes> known, hoisted;
  std::map<NodeId, mlir::Value> knownScalars;
  std::map<NodeId, mlir::Value> loadPointers;

private:
  Lanes emitNode(NodeId id, const Column &column);
  Lanes emitLoad(NodeId id, const Column &column);
  Lanes emitConcat(NodeId id, const Column &column);
  mlir::Value emitGather(NodeId id);

  mlir::LLVM::GlobalOp shared;
  mlir::Value sharedBase;
  unsigned sharedBytes = 0;
};

/// Writes all phases of a plan into `module`.
void emitKernel(const RowProgram &program, const Plan &plan, mlir::ModuleOp module);

void emitRowPhase(const RowProgram &program, const Plan &plan, const RowPhase &phase,
                  mlir::ModuleOp module);
void emitFinishPhase(const RowProgram &program, const Plan &plan, const FinishPhase &phase,
                     mlir::ModuleOp module);

} // namespace cleave::kernels::gpu

#endif // CLEAVE_LIB_KERNELS_GPU_EMITTER_H
