//===- StepTime.h - seconds and memory of a whole training step -----*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_STEPTIME_H
#define CLEAVE_LIB_PREDICT_STEPTIME_H

#include "lib/predict/LayerClass.h"
#include "lib/predict/Layout.h"

#include "llvm/Support/JSON.h"

namespace cleave::predict {

struct Prediction {
  double seconds = 0;
  /// Bytes that tensors take at the most, on the rank that has most.
  double memory = 0;
  /// The same on the ranks that the layout's source measures; what PyTorch's caching allocator
  /// holds there; and which of the two the source means.
  double allocated = 0, reserved = 0, reportedMemory = 0;
  /// Where the seconds go, on the critical rank: computation (or its launches), exposed
  /// communication by axis, bubbles, gradient reduction, update.
  double compute = 0, bubble = 0, gradients = 0, update = 0;
  std::array<double, numAxes> exposed = {};
  /// Of that rank: floating-point operations in a step, recomputed ones included; bytes that it
  /// sends, by axis; parameters that it holds, bytes that a microbatch keeps there.
  double flops = 0, parameters = 0, savedBytes = 0;
  std::array<double, numAxes> sent = {};
  std::vector<std::string> notes;
};

/// Seconds and activation bytes of a pipeline stage and one microbatch.
struct StageTime {
  PassTime forward, backward;
  double send = 0;          // to the next stage
  double savedBytes = 0;    // kept until the backward
  double workBytes = 0;     // at the most beside them
  double boundaryBytes = 0; // of what the next stage gets
  double parameters = 0, expertParameters = 0;
  double tensor = 1, data = 1; // of its ranks, where stages differ
  // Parts that lie in the host's memory.
  double weightsOnHost = 0, gradientsOnHost = 0, stateOnHost = 0;

  /// Adds what further layers of the same ranks take.
  StageTime &operator+=(const StageTime &other);
};

/// Seconds of a pipeline of `ranks` ranks with stages.size() / ranks stages each. Long runs are
/// simulated for few microbatches: their steady state repeats.
llvm::Expected<double> pipelineTime(llvm::ArrayRef<StageTime> stages, unsigned ranks,
                                    unsigned microbatches, bool blockingTransfers);

/// The step of a layout. What it leaves open (micro-batch, chunks, recomputation) is what runs
/// fastest and fits in memory, and is noted. `plans`: plans by op, for layouts that name one; may
/// be null. Errors start with a column.
llvm::Expected<Prediction> predictStep(const Layout &layout, const cost::Cluster &cluster,
                                       const llvm::json::Object *plans, const Terms &terms = {});

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_STEPTIME_H
