//===- StepGraph.h - a part of a step as one graph of the device ---*- C++ -*-===//
//
// A training step enqueues the same work every time. Recorded once, it is enqueued as a whole: the
// host's share of a step of many small kernels goes away. What is recorded are addresses, so
// whatever outlives the step stays where it is, and what differs from step to step (data, the
// number of the step, the learning rate) is read from memory that the host writes before.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STEP_STEPGRAPH_H
#define CLEAVE_RUNTIME_STEP_STEPGRAPH_H

#include "runtime/device/Device.h"

namespace cleave::runtime {

class StepGraph {
public:
  /// `device` outlives it.
  explicit StepGraph(Device &device) : device(device) {}

  /// Whether the next `run` replays what is recorded.
  bool isRecorded() const { return bool(graph); }
  /// Runs `body`: the first times as it is, since libraries set themselves up in their first calls;
  /// then once while the device records it; from then on what was recorded runs in its place.
  llvm::Error run(llvm::function_ref<llvm::Error()> body);

private:
  static constexpr int kRunsBefore = 2;
  Device &device;
  int runs = 0;
  std::unique_ptr<DeviceGraph> graph;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_STEPGRAPH_H
