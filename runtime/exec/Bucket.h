//===- Bucket.h - gradients that are reduced together --------------*- C++ -*-===//
//
// The state of a `train.bucket`: one flat buffer, bound once and kept for all steps, views of
// it for the members' gradients, counts of what came in, and the reduction in flight.
//
// A step goes zero -> contribute ... -> reduce -> wait (marks the gradients as reduced); anything
// out of that order is an error.
//
// With hybrid sharding a reduction is two operations: shards are scattered within a group, then
// summed over its replicas. The second one starts as soon as a contribution to any bucket finds the
// first one complete (ReplicaSums), so that it overlaps the backward, too.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_BUCKET_H
#define CLEAVE_RUNTIME_EXEC_BUCKET_H

#include "cleave/Session.h"
#include "dialects/train/Program.h"
#include "runtime/aten/Facade.h"
#include "runtime/comm/Collectives.h"

#include "llvm/ADT/StringMap.h"

#include <deque>

namespace cleave::runtime {

class Bucket;
class Device;
class RankGrid;

/// The buckets of a session whose shards are on their way, to be summed over replicas after that.
/// All ranks start these sums in the order in which the reduce-scatters started, and on
/// communicators that serve nothing else: so each rank may start them when it is ready.
class ReplicaSums {
public:
  /// `bucket`'s reduce-scatter has started.
  void add(Bucket &bucket) { waiting.push_back(&bucket); }
  /// Starts the sums of shards that have arrived.
  void startReady();
  /// Starts the sum of `bucket` and those before it, waiting for their shards.
  void startThrough(const Bucket &bucket);

private:
  void startFirst();

  std::deque<Bucket *> waiting;
};

class Bucket {
public:
  /// `options.microbatches` contribute in each step. Fails where the bucket requires another
  /// number, or where its ranks cannot form a group. `options` and `replicaSums` outlive the
  /// bucket.
  static llvm::Expected<std::unique_ptr<Bucket>> create(train::BucketOp op, RankGrid &ranks,
                                                        const Device &device,
                                                        const SessionOptions &options,
                                                        ReplicaSums &replicaSums);

  /// Begins a step: nothing is in. A pending reduction is awaited.
  void zero();
  /// Adds to a member; a step's first contribution overwrites what was there.
  void contribute(size_t member, const at::Tensor &gradient);
  /// Where an accumulating kernel writes a contribution itself: the member's view, and whether it
  /// is the step's first, so that its contents are ignored.
  struct Target {
    const at::Tensor &view;
    bool isFirst;
  };
  Target beginContribution(size_t member);
  /// All of one microbatch's contributions are in. In the last one starts the reduction.
  void microbatchDone();
  /// The members' gradients, reduced; each has the member's own element type.
  std::vector<at::Tensor> wait();

  /// The gradient of one member as it is now: reduced if the step is complete, else this rank's
  /// sum so far; undefined where nothing is in, or there is no part of it yet.
  at::Tensor peek(size_t member);

  const at::Tensor &buffer() const { return flat; }
  std::optional<size_t> findMember(llvm::StringRef name) const;
  llvm::ArrayRef<std::string> members() const { return names; }

private:
  friend class ReplicaSums;
  Bucket(const SessionOptions &options, ReplicaSums &replicaSums)
      : options(options), replicaSums(replicaSums) {}
  /// For messages: `bucket 'bucket0' ("a.weight" and 3 more)`.
  std::string describe() const;
  void start(llvm::function_ref<PendingOr()> operation);
  void finish(at::Tensor &into);
  void finishReduction();
  /// Takes the shards, waiting for them, and starts their sum over the replicas.
  void startReplicaSum();
  bool isHybrid() const { return scatterGroup && group; }
  /// Where the reduced gradients lie.
  at::Tensor &result() { return partViews.empty() ? flat : part; }

  const SessionOptions &options;
  ReplicaSums &replicaSums;
  std::string name;
  std::vector<std::string> names;
  std::vector<at::ScalarType> types;
  at::Tensor flat;
  std::vector<at::Tensor> views;
  /// Contributions of this step, by member.
  std::vector<int64_t> counts;
  int64_t required = 1, done = 0;
  /// Of the sum, or of the sum over replicas; and of the reduce-scatter. None: there is nothing to
  /// do.
  std::optional<RankGroup> group, scatterGroup;
  /// Whether a sum over replicas starts when its shards are there. Where streams order operations
  /// the host does not know when that is: it enqueues the sum when it comes to the wait.
  bool sumsWhenReady = false;
  /// This rank's part after a reduce-scatter, and its views; empty without one.
  at::Tensor part;
  std::vector<at::Tensor> partViews;
  /// Under way: the only operation, or one of a hybrid reduction's two.
  std::optional<Pending> reduction;
  int64_t startNs = 0; ///< when `reduction` started, steady clock
};

/// A session's buckets by symbol.
struct BucketSet : llvm::StringMap<std::unique_ptr<Bucket>> {
  ReplicaSums replicaSums;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_BUCKET_H
