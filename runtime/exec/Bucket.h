//===- Bucket.h - gradients that are reduced together --------------*- C++ -*-===//
//
// What stands behind a `train.bucket`: one flat buffer, bound once and kept for all steps, views of
// it for the members' gradients, counts of what came in, and the reduction under way.
//
// A step goes zero -> contribute ... -> reduce -> wait (marks the gradients as reduced); anything
// out of that order is an error.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_BUCKET_H
#define CLEAVE_RUNTIME_EXEC_BUCKET_H

#include "cleave/Session.h"
#include "dialects/train/Program.h"
#include "runtime/aten/Facade.h"
#include "runtime/comm/Collectives.h"

#include "llvm/ADT/StringMap.h"

namespace cleave::runtime {

class Device;
class RankGrid;

class Bucket {
public:
  /// `options.microbatches` contribute in each step. Fails where the bucket requires another
  /// number, or where its ranks cannot form a group. `options` outlives the bucket.
  static llvm::Expected<std::unique_ptr<Bucket>>
  create(train::BucketOp op, RankGrid &ranks, const Device &device, const SessionOptions &options);

  /// Begins a step: nothing is in. A reduction that nobody waited for is waited for.
  void zero();
  /// Adds to a member; a step's first contribution overwrites what was there.
  void contribute(size_t member, const at::Tensor &gradient);
  /// Where an accumulating kernel writes a contribution itself: the member's view, and whether it
  /// is the step's first, so that what is there counts for nothing.
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
  explicit Bucket(const SessionOptions &options) : options(options) {}
  /// For messages: `bucket 'bucket0' ("a.weight" and 3 more)`.
  std::string describe() const;
  void start(llvm::function_ref<PendingOr()> operation);
  void finish(at::Tensor &into);
  void finishReduction();
  /// Where the reduced gradients lie.
  at::Tensor &result() { return partViews.empty() ? flat : part; }

  const SessionOptions &options;
  std::string name;
  std::vector<std::string> names;
  std::vector<at::ScalarType> types;
  at::Tensor flat;
  std::vector<at::Tensor> views;
  /// Contributions of this step, by member.
  std::vector<int64_t> counts;
  int64_t required = 1, done = 0;
  /// None: nothing to reduce, nothing to scatter.
  std::optional<RankGroup> group, scatterGroup;
  /// This rank's part after a reduce-scatter, and its views; empty without one.
  at::Tensor part;
  std::vector<at::Tensor> partViews;
  std::optional<Pending> reduction;
  int64_t startNs = 0; ///< when `reduction` started, steady clock
};

/// A session's buckets by symbol.
using BucketSet = llvm::StringMap<std::unique_ptr<Bucket>>;

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_BUCKET_H
