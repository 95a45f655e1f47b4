//===- Communicator.h - What ranks say to each other ------------*- C++ -*-===//
//
// A group of ranks and the operations they run together. The executor, the data loader and the
// launcher know only this interface; Gloo (GlooCommunicator.h) and the single rank implement it.
// No LibTorch header is needed to use it.
//
// Every operation takes a description (`what`) of the value it moves, as in
// `gradient "proj.weight"`: errors repeat it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_COMMUNICATOR_H
#define CLEAVE_RUNTIME_COMM_COMMUNICATOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace at {
class Tensor;
}
namespace c10 {
enum class ScalarType : int8_t;
}

namespace cleave::runtime {

/// Elementwise reductions over the ranks of a group.
enum class ReductionKind {
  Sum,
  Average,
  /// Every rank's operand is multiplied by a factor first.
  PremultipliedSum,
  Max,
  Min,
  Product,
  BitAnd,
  BitOr,
  BitXor
};

/// "sum", "avg", "premul_sum", "max", ...: as the dist dialect spells them.
llvm::StringRef reductionName(ReductionKind reduction);

/// A reduction with its parameter.
struct ReductionOp {
  ReductionKind kind;
  /// What each operand is multiplied by; set for PremultipliedSum.
  double factor = 1;

  ReductionOp(ReductionKind kind, double factor = 1) : kind(kind), factor(factor) {}
};

/// An operation in flight. It keeps its tensors alive; they may not be read or written before
/// `wait` has succeeded.
class Work {
public:
  virtual ~Work();

  /// Blocks until the operation is complete on this rank. Fails with a PeerFailure when a peer is
  /// lost, or when `timeout` (the communicator's own where absent), counted from the start of the
  /// operation, has passed. After a failure the communicator is of no further use.
  virtual llvm::Error wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt) = 0;

  /// Whether `wait` would return at once.
  virtual bool isDone() = 0;

  /// When the operation was complete, in nanoseconds of the steady clock; nothing before that, and
  /// where the backend does not tell.
  virtual std::optional<int64_t> completedNs() { return std::nullopt; }
};

/// How far a rank of the world has come, for who watches a run.
struct RankPosition {
  /// Whether the rank told: its process may be stopped, its machine unreachable.
  bool responds = false;
  /// The send or receive that it waits for, else the collective that it started last: `all-reduce
  /// of gradient "w"`; empty before the first.
  std::string operation;
  /// The peer of that send or receive; the ranks that have not come to the collective yet, or do
  /// not respond.
  std::vector<int> waitsFor;
};

/// One rank's end of a group. All members issue the same operations in the same order. One thread
/// at a time uses a communicator.
class Communicator {
public:
  virtual ~Communicator();

  /// This rank's place in the group, 0 to size() - 1.
  int rank() const { return myRank; }
  int size() const { return static_cast<int>(worldRanks.size()); }
  /// The members' ranks in the world, by their rank in the group.
  llvm::ArrayRef<int> members() const { return worldRanks; }
  /// "world", or the name that `subgroup` was given.
  llvm::StringRef name() const { return groupName; }
  std::chrono::milliseconds timeout() const { return limit; }

  //===--------------------------------------------------------------------===//
  // What a backend does. The functions of Collectives.h build every collective from these. All are
  // contiguous except where it says otherwise, and agree in element type on all ranks.
  //===--------------------------------------------------------------------===//

  /// Whether `startAllReduce` and `startReduce` take this reduction of this element type, with
  /// ATen's results (its NaNs, its rounding) on all ranks bit for bit. Collectives.h lowers others.
  virtual bool supports(const ReductionOp &reduction, c10::ScalarType type) const = 0;
  /// Reduces `tensor` elementwise over all ranks, in place: afterwards every rank has the same
  /// values. Shapes and element types agree on all ranks; any strides.
  virtual llvm::Expected<std::unique_ptr<Work>>
  startAllReduce(at::Tensor &tensor, const ReductionOp &reduction, llvm::StringRef what) = 0;
  /// The same for the group's rank `root` alone; on the others `tensor` then holds anything.
  virtual llvm::Expected<std::unique_ptr<Work>>
  startReduce(at::Tensor &tensor, const ReductionOp &reduction, int root, llvm::StringRef what) = 0;
  /// `output` receives the inputs of all ranks one after another, by rank; they have one size.
  virtual llvm::Expected<std::unique_ptr<Work>>
  startAllGather(at::Tensor &output, const at::Tensor &input, llvm::StringRef what) = 0;
  /// The same at `root` alone; on the others `output` is not read and may be undefined.
  virtual llvm::Expected<std::unique_ptr<Work>>
  startGather(at::Tensor &output, const at::Tensor &input, int root, llvm::StringRef what) = 0;
  /// `output` receives this rank's part, by rank, of the root's `input`, which others do not give.
  virtual llvm::Expected<std::unique_ptr<Work>>
  startScatter(at::Tensor &output, const at::Tensor &input, int root, llvm::StringRef what) = 0;
  /// Sends the parts of `input`, which are of `inputSizes` elements one after another, each to its
  /// rank; `output` receives parts of `outputSizes` by rank. Tensors have one dimension.
  virtual llvm::Expected<std::unique_ptr<Work>>
  startAllToAll(at::Tensor &output, const at::Tensor &input, llvm::ArrayRef<int64_t> outputSizes,
                llvm::ArrayRef<int64_t> inputSizes, llvm::StringRef what) = 0;
  /// Whether `startReduceScatter` takes this reduction of tensors like `tensor`, with ATen's
  /// results but for the order of the terms, which is the backend's. Collectives.h has another way.
  virtual bool canReduceScatter(const ReductionOp &, const at::Tensor &) const { return false; }
  /// `output` receives this rank's part, by rank, of the reduction of all ranks' inputs.
  virtual llvm::Expected<std::unique_ptr<Work>> startReduceScatter(at::Tensor &output,
                                                                   const at::Tensor &input,
                                                                   const ReductionOp &reduction,
                                                                   llvm::StringRef what);
  /// Overwrites `tensor` with the one that the group's rank `root` has; any strides.
  virtual llvm::Expected<std::unique_ptr<Work>> startBroadcast(at::Tensor &tensor, int root,
                                                               llvm::StringRef what) = 0;
  /// Sends `tensor` to the group's rank `peer`, complete only with its receive. Sends and receives
  /// match by `tag` (at least 0), whatever their order.
  virtual llvm::Expected<std::unique_ptr<Work>> startSend(const at::Tensor &tensor, int peer,
                                                          int tag, llvm::StringRef what) = 0;
  /// Receives into `tensor`, which has the sender's shape and element type and is contiguous.
  virtual llvm::Expected<std::unique_ptr<Work>> startReceive(at::Tensor &tensor, int peer, int tag,
                                                             llvm::StringRef what) = 0;

  /// Makes ready for messages between this rank and `peers`, so that the first of them does not
  /// wait for its peer. Every rank of the group calls it; each is a peer of its peers.
  virtual llvm::Error connectPeers(llvm::ArrayRef<int>) { return llvm::Error::success(); }

  /// The bytes of every rank, by rank; lengths may differ.
  virtual llvm::Expected<std::vector<std::string>> allGatherBytes(llvm::StringRef bytes,
                                                                  llvm::StringRef what) = 0;
  /// Returns once every rank has called it.
  virtual llvm::Error barrier(llvm::StringRef what) = 0;

  /// A communicator among some of this group's ranks, given ascending and without repetition; this
  /// rank is one of them. Only they call it, all with the same `name` and ranks. Calls that
  /// overlap in time use different names or disjoint ranks. The parent outlives it.
  virtual llvm::Expected<std::unique_ptr<Communicator>> subgroup(llvm::ArrayRef<int> ranks,
                                                                 llvm::StringRef name) = 0;

  /// A PeerFailure if a peer is known to be lost. Costs an atomic load: for between operations.
  virtual llvm::Error checkPeers() = 0;
  /// How far all ranks of the world are, by rank, asked of each of them; takes twice `patience` at
  /// most. For any thread, at any time. Empty where the backend does not know.
  virtual std::vector<RankPosition> askPositions(std::chrono::milliseconds) { return {}; }
  /// The error of work on a device that has not completed within the timeout; it names the ranks
  /// that are behind, where that is known.
  virtual llvm::Error explainStuck();
  /// Tells all ranks that this one gives up and why: their operations fail at once, naming it.
  virtual void abort(llvm::StringRef reason) = 0;
  /// Whether its operations on a device's tensors may be recorded in a graph of the device.
  virtual bool isRecordable() const { return false; }

  // What a communicator for tensors on devices, which complements this one, needs from it.

  /// A c10d::Store of this group alone, as long as the communicator lives; null: there is none.
  virtual void *groupStore() { return nullptr; }
  /// Notes that this rank comes to an operation that the other one does; its number in the group.
  virtual uint64_t enterOperation(llvm::StringRef) { return 0; }
  /// The error of that operation, which failed with `cause` (empty: it did not end in time).
  virtual llvm::Error explainFailure(llvm::StringRef operation, uint64_t number,
                                     llvm::StringRef cause);

  /// Leaves in good order, after all have arrived here. A rank whose communicator is destroyed
  /// without this counts as lost. Subgroups have nothing to do here.
  virtual llvm::Error finish() = 0;

  llvm::Error allReduceSum(at::Tensor &tensor, llvm::StringRef what);
  llvm::Error broadcast(at::Tensor &tensor, int root, llvm::StringRef what);
  llvm::Error send(const at::Tensor &tensor, int peer, int tag, llvm::StringRef what);
  llvm::Error receive(at::Tensor &tensor, int peer, int tag, llvm::StringRef what);

protected:
  Communicator(int rank, std::vector<int> members, std::string name,
               std::chrono::milliseconds timeout)
      : myRank(rank), worldRanks(std::move(members)), groupName(std::move(name)), limit(timeout) {}

  /// Argument checks that all implementations share.
  llvm::Error checkPeer(llvm::StringRef operation, int peer) const;
  llvm::Error checkSubgroup(llvm::ArrayRef<int> ranks, llvm::StringRef name) const;

private:
  int myRank;
  std::vector<int> worldRanks;
  std::string groupName;
  std::chrono::milliseconds limit;
};

/// The world of one rank: reductions and broadcasts leave their tensor unchanged.
std::unique_ptr<Communicator> makeSingleRankCommunicator();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_COMMUNICATOR_H
