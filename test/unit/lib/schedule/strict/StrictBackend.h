// A c10d backend for tests that is as strict as the devices that it stands for: nothing buffered,
// NCCL's order of execution (or Gloo's matching by tag), and a deadlock reported when it arises.

#ifndef CLEAVE_TEST_UNIT_LIB_SCHEDULE_STRICT_STRICTBACKEND_H
#define CLEAVE_TEST_UNIT_LIB_SCHEDULE_STRICT_STRICTBACKEND_H

#include "test/unit/lib/schedule/strict/Fabric.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace cleave::strict {

/// Moves tensors between sides that met: pass it to Fabric's constructor.
void deliverTensors(const std::vector<Side *> &sides);

/// One rank's end of one communicator. All calls of a rank come from its thread of Fabric::run.
///
/// Differences from ProcessGroupNCCL and ProcessGroupGloo, all to make errors visible:
/// - a transfer ends only with its counterpart, whatever its size; wait() returns only then;
/// - ends must agree in bytes and type, collectives in kind, reduction and size: an error on every
///   rank concerned (NCCL would hang or corrupt memory);
/// - where nothing can happen any more every wait throws Stuck at once, with who waits for what.
///   A rank that polls isCompleted for ever is not waiting, and is not found.
class StrictBackend : public c10d::Backend {
public:
  /// `rank` is the world's; the backend's rank is its place among `members`.
  StrictBackend(Fabric &fabric, const std::string &name, unsigned rank,
                const std::vector<unsigned> &members, const CommOptions &options = {});

  const std::string getBackendName() const override { return "strict"; }
  bool supportsCoalescing() const override { return true; }

  /// Between these calls, what is started is collected, and starts as one group: it enters all its
  /// queues together, and completes as a whole. Groups do not nest.
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor> &tensors, int to, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor> &tensors, int from, int tag) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor> &tensors,
                                           const c10d::BroadcastOptions &options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor> &tensors,
                                           const c10d::AllreduceOptions &options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor &output, at::Tensor &input,
                                                 const c10d::AllgatherOptions &options) override;
  c10::intrusive_ptr<c10d::Work>
  _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                       const c10d::ReduceScatterOptions &options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions &options) override;

  /// Blocks until at most `allowed` of the works (all of this rank) are incomplete.
  void waitUntilAtMost(const std::vector<c10::intrusive_ptr<c10d::Work>> &works, size_t allowed);

private:
  Side newSide(Role role, std::string what);
  c10::intrusive_ptr<c10d::Work> submit(Side side, c10d::OpType type);

  Fabric &fabric;
  Communicator &comm;
  unsigned worldRank;
  bool coalescing = false;
  std::vector<Side> group;
};

} // namespace cleave::strict

#endif // CLEAVE_TEST_UNIT_LIB_SCHEDULE_STRICT_STRICTBACKEND_H
