//===- MemoryPlan.h - how much memory functions will use -----------*- C++ -*-===//
//
// Liveness over the list of ops, as the executor runs them: a value's memory is there from the op
// that makes it to the last use of the value or of a view of it. What kernels allocate and free
// inside is not known and not counted.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_MEMORY_MEMORYPLAN_H
#define CLEAVE_LIB_MEMORY_MEMORYPLAN_H

#include "dialects/train/Program.h"

namespace cleave::memory {

/// Whose memory is counted.
enum class Space { Device, Host };

/// Bytes of a statically shaped tensor, or of a future's; 0 for other types. In the host's memory,
/// those of a `!dist.host`.
int64_t getByteSize(mlir::Type type, Space space = Space::Device);

/// The operand whose memory `value` shows when it is executed: of a view, or of a conversion of
/// placements that keeps what a rank holds. Null for values with memory of their own.
mlir::Value getViewSource(mlir::OpResult value);
/// What `value` leads to through views: the value whose memory it is.
mlir::Value getStorage(mlir::Value value);
/// The ops that make `value` as a view of another one's memory and whose results nothing else uses,
/// in their order: they can be moved to where `value` is used. Empty for a value that is not a
/// view.
llvm::SmallVector<mlir::Operation *> getPrivateViews(mlir::Value value);

/// One of the functions of a plan.
struct FunctionPlan {
  /// Peak live bytes while it runs, and the op during which that is so; null for a
  /// function without ops.
  int64_t peakBytes = 0;
  mlir::Operation *peakOp = nullptr;
  /// Bytes of saved values, and of owned arguments, that later functions need when it has returned.
  int64_t heldBytes = 0;
  /// Bytes of all that it computes and returns, whether another function of the plan needs it or
  /// not: what unsharding keeps for a step's microbatches.
  int64_t returnedBytes = 0;
};

struct MemoryPlan {
  /// Peak live bytes of values computed by the functions' ops. Arguments are not
  /// counted, nor what ops write into the memory of an argument.
  int64_t peakBytes = 0;
  /// The op during which that is so; null for functions without ops.
  mlir::Operation *peakOp = nullptr;
  /// Bytes that results keep when all have returned.
  int64_t resultBytes = 0;
  std::vector<FunctionPlan> functions;
};

/// Plans `functions` run one after another, as parts of one microbatch: saved values live from the
/// function that makes them to their last use, other results to the end. Saved values that none of
/// the functions makes count as arguments. `emptyAccumulators`: a step's first microbatch, in which
/// gradients become the accumulators. Arguments that are `owned`, where given, are the microbatch's
/// alone and count from its beginning to their last use in any of the functions. Values in the
/// arena of lowered functions and in frames are not counted (see `getArenaBytes`). Either the
/// device's memory is counted or that of the host.
MemoryPlan planMemory(llvm::ArrayRef<mlir::func::FuncOp> functions, bool emptyAccumulators,
                      llvm::function_ref<bool(train::RoleAttr)> owned = nullptr,
                      Space space = Space::Device);

/// The arena that lowered functions share: as large as the largest needs. 0 where none is lowered.
int64_t getArenaBytes(llvm::ArrayRef<mlir::func::FuncOp> functions);

/// "12.5 MiB"
std::string describeBytes(int64_t bytes);

} // namespace cleave::memory

#endif // CLEAVE_LIB_MEMORY_MEMORYPLAN_H
