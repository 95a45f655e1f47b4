//===- Plan.h - how the threads of a grid share a row program's work -*- C++ -*-===//
//
// A kernel runs as phases: one over the rows, and, where it sums down the columns, one that joins
// what the blocks of the first have summed. In a phase over rows, a block takes some rows, one
// after the other (a *part* of the rows), and, where nothing is reduced along rows, some columns
// only (a *tile*). A row belongs to a *group* of threads, to all of a block or, where it is short,
// to a warp's or less. A thread takes `vector` neighbouring columns in each of `slots` steps.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_GPU_PLAN_H
#define CLEAVE_LIB_KERNELS_GPU_PLAN_H

#include "lib/kernels/program/RowProgram.h"

#include "llvm/ADT/DenseMap.h"

namespace cleave::kernels::gpu {

struct Mapping {
  /// Threads of a block, and of them the ones that share a row.
  unsigned threads = 256, lanes = 256;
  /// Columns that a thread takes at once, and how often in straight-line code.
  unsigned vector = 1, slots = 1;
  /// A row has more columns than the slots cover: they are repeated in a loop, and what a later
  /// walk over the row needs is recomputed.
  bool isLooped = false;
  int64_t rows = 1, rowsPerPart = 1, parts = 1;
  int64_t tiles = 1;

  unsigned groups() const { return threads / lanes; }
  /// Blocks that a multiprocessor is to have at a time: so that threads have 64 to 85 registers.
  unsigned minBlocks() const { return (threads >= 512 ? 1024 : 768) / threads; }
  int64_t chunks() const { return parts * tiles; }
  /// Columns of one step of a group, and of all slots.
  int64_t slotColumns() const { return int64_t(lanes) * vector; }
  int64_t tileColumns() const { return slotColumns() * slots; }
};

/// A phase that computes stores and sums over rows.
struct RowPhase {
  std::string entry;
  unsigned stage = 0;
  /// Indices of the program's stores.
  llvm::SmallVector<unsigned> stores;
  /// ReduceRows nodes whose operands are known in this stage.
  llvm::SmallVector<NodeId> sums;
  /// What the phase computes, operands first.
  llvm::SmallVector<NodeId> nodes;
  /// Of each node of the program: how many reductions along the row come before it.
  llvm::SmallVector<unsigned> levels;
  unsigned numLevels = 0;
  /// ReduceColumns nodes of which only the sum over all rows is needed: threads add up all they
  /// see.
  llvm::DenseMap<NodeId, NodeId> totals;
  Mapping mapping;
};

/// A phase that joins the parts of sums over rows, all of as many columns (0: single numbers), and
/// stores what follows from them, column by column.
struct FinishPhase {
  std::string entry;
  llvm::SmallVector<NodeId> sums;
  int64_t columns = 0;
  llvm::SmallVector<unsigned> stores;
  /// Whether a later phase needs the sums.
  bool keepsSums = false;
  unsigned threads = 256;
  int64_t chunks = 1;
};

/// Where a sum over rows lies in the launch's partials, in bytes.
struct SumPlace {
  /// `parts` numbers or rows of numbers, `stride` bytes apart.
  int64_t parts = 0, partial = 0, stride = 0;
  /// The finished sum.
  int64_t final = 0;
};

struct Plan {
  /// In the order of launches: each has one of the two.
  struct Phase {
    std::optional<RowPhase> rows;
    std::optional<FinishPhase> finish;
  };
  std::vector<Phase> phases;
  llvm::DenseMap<NodeId, SumPlace> places;
  int64_t partialBytes = 0;
};

/// Columns that a block of a finishing phase joins.
inline constexpr unsigned kFinishColumns = 32;

/// The plan is the same for all chips: how the work is divided is part of the program.
Plan makePlan(const RowProgram &program);

/// Bytes of an element in partials.
unsigned sizeOfPartial(ComputeType type);

} // namespace cleave::kernels::gpu

#endif // CLEAVE_LIB_KERNELS_GPU_PLAN_H
