//===- Verify.h - that a lowered function computes what its ops say -*- C++ -*-===//
//
// Looks at nothing but the functions: where their results lie, what runs on which stream, and which
// events there are. With what made the plan it shares facts about ops, and nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_MEMORY_VERIFY_VERIFY_H
#define CLEAVE_LIB_MEMORY_VERIFY_VERIFY_H

#include "lib/memory/ExecutionOrder.h"
#include "lib/memory/FrameGroups.h"

#include "llvm/ADT/MapVector.h"

namespace cleave::exec {

/// Verifies every function of the module that has `exec.lowered`, and that all functions of the
/// program have it, with one target, or none. Emits an error for each thing that is wrong, at the
/// op, with notes at the others that are part of it.
llvm::LogicalResult verifyLowered(mlir::ModuleOp module);

/// A range of bytes.
struct MemoryRange {
  /// Whose memory it is: a result or argument; null for the arena and the frame.
  mlir::Value root;
  ResultMemory::Kind region = ResultMemory::Apart;
  int64_t begin = 0, end = 0;

  /// "bytes 0 to 127 of the arena"
  std::string str() const;
};

/// Where saved values that functions take lie in the frame, as the functions say that made them.
using FramedArguments = llvm::DenseMap<mlir::Value, MemoryRange>;

/// Where all values of a lowered function lie, as its attributes say.
class Places {
public:
  /// `framed` outlives the places.
  Places(mlir::func::FuncOp function, const FramedArguments &framed);

  /// The result or argument whose memory `value` has.
  mlir::Value rootOf(mlir::Value value) const { return roots.lookup(value); }
  MemoryRange of(mlir::Value value) const;

private:
  llvm::DenseMap<mlir::Value, mlir::Value> roots;
  const FramedArguments &framed;
};

/// Planned memory that a result has from time `begin` to time `end`, both included.
struct Piece {
  mlir::Value root;
  MemoryRange range;
  unsigned begin = 0, end = 0;
};

/// Emits an error for each piece that is written where another one still lies. `at`: an op that
/// runs at a time.
llvm::LogicalResult checkOverlaps(llvm::ArrayRef<Piece> pieces,
                                  llvm::function_ref<mlir::Operation *(unsigned)> at);

/// The pieces of a function's results in the arena or the frame, as far as the function itself
/// needs them, and of `framed` arguments too, with `begin` at 0; by the value that has the memory.
llvm::MapVector<mlir::Value, Piece> listPieces(mlir::func::FuncOp function,
                                               const ExecutionOrder &order, const Places &places,
                                               ResultMemory::Kind region);

/// What functions of a microbatch save for each other is there, unchanged, until its last use, when
/// they run one after the other. `orders` and `places` are the functions'.
llvm::LogicalResult verifyFrame(const FunctionGroup &group,
                                llvm::ArrayRef<std::unique_ptr<ExecutionOrder>> orders,
                                llvm::ArrayRef<std::unique_ptr<Places>> places);

/// The arguments of the group's functions that lie in the frame.
FramedArguments findFramedArguments(const FunctionGroup &group);

/// By op, the ranges of its microbatch's frame that no op of the microbatch needs any more when it
/// has run; without those that are dead only when a function ends. The module is verified.
llvm::DenseMap<mlir::Operation *, llvm::SmallVector<MemoryRange, 1>>
findFrameEnds(mlir::ModuleOp module);

/// One after the other, the ops compute what they say: every value is there, unchanged, until its
/// last use; nothing outlives the function in memory that does not.
llvm::LogicalResult verifyMemory(mlir::func::FuncOp function, const ExecutionOrder &order,
                                 const Places &places);

/// On two streams, they compute the same: what touches the same bytes runs in the function's order.
/// Communicators are called in the order in which they were.
llvm::LogicalResult verifyEvents(mlir::func::FuncOp function, const ExecutionOrder &order,
                                 const Places &places);

} // namespace cleave::exec

#endif // CLEAVE_LIB_MEMORY_VERIFY_VERIFY_H
