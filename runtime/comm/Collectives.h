//===- Collectives.h - Collectives of tensors -------------------*- C++ -*-===//
//
// Every collective of the dist dialect on tensors: along any dimension, with parts of different
// sizes, of every element type, for every reduction. Each is one operation of the communicator
// (several tensors travel in one message), started here and waited for by `Pending::wait`.
//
// What backends lack is lowered, with the same bits on every rank:
// - avg is a sum, then a division by the number of ranks; premul_sum multiplies each operand by its
//   factor, then sums. Both are for floating-point types.
// - f16 and bf16 are added and multiplied in f32 and rounded once.
// - maxima and minima of floating-point numbers, which are NaN where a rank has a NaN as ATen's
// are,
//   gather the operands and fold them, rank by rank.
// - i16 is computed in i32; booleans as bytes, where sum, max and bor are "or", product, min and
//   band are "and".
// - reduce_scatter exchanges parts by all_to_all and folds them rank by rank: Gloo has it only as
// an
//   all_reduce of the whole, or for equal parts.
// - parts of different sizes are padded in all_gather, gather and scatter; all_to_all takes them.
//
// LibTorch's exceptions pass through these functions. Tensors that a pending operation works on are
// kept alive by it. Places and roots count in the group's order.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_COLLECTIVES_H
#define CLEAVE_RUNTIME_COMM_COLLECTIVES_H

#include "runtime/comm/RankGroup.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

namespace cleave::runtime {

/// Results in flight.
class Pending {
public:
  using Tensors = std::vector<at::Tensor>;

  /// An operation that needs no communication.
  explicit Pending(Tensors results) : results(std::move(results)) {}
  /// `finish` makes the results once all works are complete.
  Pending(std::vector<std::unique_ptr<Work>> works, std::function<Tensors()> finish)
      : works(std::move(works)), finish(std::move(finish)) {}

  /// One of several operations that communicate, whose results `combine` puts together.
  static Pending join(std::vector<Pending> parts,
                      std::function<Tensors(llvm::ArrayRef<Tensors>)> combine);

  /// Whether `wait` would not block.
  bool isDone() const;
  /// Blocks until the operation is complete and hands its results out. To be called once.
  llvm::Expected<Tensors> wait();
  /// Once waited for: when communication was complete (`Work::completedNs`).
  std::optional<int64_t> completedNs() const { return completed; }

private:
  std::vector<std::unique_ptr<Work>> works;
  std::function<Tensors()> finish;
  Tensors results;
  std::optional<int64_t> completed;
};

using PendingOr = llvm::Expected<Pending>;

/// An error where `reduction` has no meaning for the element type: bitwise ones are for integers
/// and booleans, avg and premul_sum for floating-point numbers.
llvm::Error checkReduction(const ReductionOp &reduction, at::ScalarType type);

/// Reduces each tensor over the group; all ranks have the result. The tensors may be overwritten.
PendingOr startAllReduce(const RankGroup &group, Pending::Tensors tensors,
                         const ReductionOp &reduction, llvm::StringRef what);
/// The result at `root`, zeros elsewhere. The tensor may be overwritten.
PendingOr startReduce(const RankGroup &group, at::Tensor tensor, const ReductionOp &reduction,
                      int root, llvm::StringRef what);
/// Reduces each tensor and gives every rank its part along dimension `dim`.
PendingOr startReduceScatter(const RankGroup &group, const Pending::Tensors &tensors,
                             const ReductionOp &reduction, int64_t dim, llvm::StringRef what);

/// Joins the ranks' tensors along `dim`. `wholes`, one a tensor: the joined dimension's size, of
/// which each rank has its part; the tensors agree in everything else.
PendingOr startAllGather(const RankGroup &group, const Pending::Tensors &tensors, int64_t dim,
                         llvm::ArrayRef<int64_t> wholes, llvm::StringRef what);
/// The same at `root`, zeros elsewhere.
PendingOr startGather(const RankGroup &group, const at::Tensor &tensor, int64_t dim, int64_t whole,
                      int root, llvm::StringRef what);
/// This rank's part along `dim` of the root's tensor. The others' have its shape and are not read.
PendingOr startScatter(const RankGroup &group, const at::Tensor &tensor, int64_t dim, int root,
                       llvm::StringRef what);
/// Gives every rank its part along dimension `splitDim`, and joins what comes along `concatDim`,
/// whose size is then `whole`, of which each rank had its part.
PendingOr startAllToAll(const RankGroup &group, const at::Tensor &tensor, int64_t splitDim,
                        int64_t concatDim, int64_t whole, llvm::StringRef what);
/// Rows are indices of dimension 0. Sends the first `sends[0]` rows to place 0, the next `sends[1]`
/// to place 1, ..., and joins those that come by place: `receives` says how many. The result has
/// `room` rows, zeros after the last that came. An error if more come, or there are not as many.
PendingOr startRaggedAllToAll(const RankGroup &group, const at::Tensor &rows,
                              const at::Tensor &sends, const at::Tensor &receives, int64_t room,
                              llvm::StringRef what);

/// The root's tensor. The others' have its shape and are not read.
PendingOr startBroadcast(const RankGroup &group, at::Tensor tensor, int root, llvm::StringRef what);
/// Each tensor moves from the first to the second place of a pair, no place being first or second
/// twice. Ranks to which nothing is sent get zeros.
PendingOr startPermute(const RankGroup &group, const at::Tensor &tensor,
                       llvm::ArrayRef<std::pair<int, int>> pairs, llvm::StringRef what);
/// The pairs of a shift by `offset` places (either sign); without `wrap`, what would leave at one
/// end does not enter at the other.
std::vector<std::pair<int, int>> shiftPairs(int size, int64_t offset, bool wrap);

/// On the rank at `from`, sends; no results. On others nothing happens.
PendingOr startSend(const RankGroup &group, const at::Tensor &tensor, int from, int to, int tag,
                    llvm::StringRef what);
/// On the rank at `to`, receives into `tensor`, which is the result; others return it unchanged.
PendingOr startReceive(const RankGroup &group, at::Tensor tensor, int from, int to, int tag,
                       llvm::StringRef what);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_COLLECTIVES_H
