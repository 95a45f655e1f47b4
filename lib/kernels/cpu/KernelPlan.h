//===- KernelPlan.h - how a CPU carries out a row program -----------*- C++ -*-===//
//
// The phases of a launch, the walks over a row that each needs, what a walk computes, what it keeps
// for a later one, and where sums down the columns are collected. GPU code has a plan of its own
// (lib/kernels/gpu/Plan.h): threads share a row there, so that walks are cut differently.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_CPU_KERNELPLAN_H
#define CLEAVE_LIB_KERNELS_CPU_KERNELPLAN_H

#include "lib/kernels/program/RowProgram.h"

#include "llvm/ADT/DenseMap.h"

namespace cleave::kernels {

struct PlanOptions {
  /// Chunks that a phase has at most.
  int64_t maxChunks = 32;
  /// Elements of the matrix that a chunk has at least.
  int64_t elementsPerChunk = 16384;
  /// Chunks of columns begin at multiples of this.
  int64_t columnStep = 64;
  /// What recomputing a value must cost, in simple operations per element, for it to be kept in
  /// scratch memory from one walk to the next; infinity: nothing is kept there.
  double keepCost = 8;
};

/// A walk over the columns of a row.
struct Pass {
  /// ReduceColumns nodes: known after the walk.
  llvm::SmallVector<NodeId, 2> reductions;
  /// ReduceRows nodes with columns: the walk adds to them.
  llvm::SmallVector<NodeId, 2> rowReductions;
  /// Indices of the program's stores that have columns.
  llvm::SmallVector<unsigned, 2> stores;
  /// Nodes that it writes to scratch memory.
  llvm::SmallVector<NodeId, 2> keeps;

  bool isEmpty() const { return reductions.empty() && rowReductions.empty() && stores.empty(); }
};

/// One launch's worth of independent chunks.
struct Phase {
  /// A chunk is `step` rows (the last one: what is left), all columns of each; or `step` columns
  /// of the program's only row.
  bool isOverRows = true;
  int64_t chunks = 1;
  int64_t step = 1;
  /// It adds up what the chunks of the phase before have left in partials, over one row.
  bool isFinish = false;
  /// One after the other for each row.
  std::vector<Pass> passes;
  /// After the walks, for each row: stores without columns, and ReduceRows nodes without.
  llvm::SmallVector<unsigned, 2> rowStores;
  llvm::SmallVector<NodeId, 2> scalarReductions;
};

/// A value that a walk of the first phase leaves for the later ones.
struct Kept {
  /// The walk that makes it; later ones read it.
  unsigned pass = 0;
  /// In scratch memory, in bytes, as many elements as the node has columns; or none, then
  std::optional<int64_t> scratch;
  /// the store that has written it, unrounded.
  unsigned store = 0;
};

struct KernelPlan {
  std::vector<Phase> phases;
  llvm::DenseMap<NodeId, Kept> kept;
  /// Bytes for a row's kept values.
  int64_t scratchBytes = 0;
  /// Where the partial results of a ReduceRows node begin, in bytes: of chunk i of the first phase
  /// `i * max(1, columns)` elements further.
  llvm::DenseMap<NodeId, int64_t> partials;
  int64_t partialBytes = 0;
  /// The walk after which a node is known, of its phase; that of a ReduceColumns is one above that
  /// of its operand.
  std::vector<unsigned> levels;
};

/// Bytes of an element as it is computed with (I1: 1).
int64_t sizeOf(ComputeType type);

/// The plan of a program, which is flat already if it may be (`flatten`).
KernelPlan planKernel(const RowProgram &program, const PlanOptions &options);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_CPU_KERNELPLAN_H
