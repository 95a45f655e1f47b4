//===- RunPhase.cpp - runs one function of a step -----------------------------===//

#include "runtime/io/Error.h"
#include "runtime/step/StepContext.h"

#include <ATen/ops/from_blob.h>

using namespace cleave::runtime;

/// Where a caller keeps a weight or an optimizer state; null if none does.
static char *homeOf(const StepState &state, const Place &place) {
  return (place.kind == Place::Weight ? state.weightHomes : state.stateHomes)[place.index];
}

static at::Tensor &stateAt(StepState &state, const Place &place) {
  return (place.kind == Place::Weight ? state.weights : state.optimizerStates)[place.index];
}

/// The value at `home`, where its caller keeps it.
static at::Tensor putAt(char *home, at::Tensor value) {
  if (value.data_ptr() == home && value.is_contiguous())
    return value;
  // What it is a view of may be what is overwritten.
  if (value.storage().data() == home)
    value = value.clone(at::MemoryFormat::Contiguous);
  at::Tensor kept = at::from_blob(home, value.sizes(), value.options());
  kept.copy_(value);
  return kept;
}

/// Tied values are moved into the frame: so the function sees that it alone holds them and may
/// overwrite or free them; new values of state come back with the results.
static void fillArguments(StepState &state, Executor &executor, const BoundPhase &bound,
                          MicrobatchState &microbatch) {
  for (auto [index, place] : llvm::enumerate(bound.arguments)) {
    c10::IValue &slot = executor.argument(index);
    switch (place.kind) {
    case Place::Weight:
    case Place::State: {
      at::Tensor &value = stateAt(state, place);
      slot = place.isTied ? std::move(value) : value;
      break;
    }
    case Place::Input:
      slot =
          place.isTied ? std::move(microbatch.inputs[place.index]) : microbatch.inputs[place.index];
      break;
    case Place::Result:
      slot = std::move(state.results[place.index]);
      state.results[place.index] = c10::IValue();
      break;
    case Place::Seed:
      slot = state.seeds[microbatch.index];
      break;
    case Place::Step:
      slot = state.step;
      break;
    case Place::RngSeed:
      slot = state.rngSeed;
      break;
    case Place::RngOffset:
      slot = microbatch.rngOffset;
      break;
    case Place::Saved: {
      c10::IValue &saved = microbatch.saved[place.index];
      slot = place.isTied ? std::move(saved) : saved;
      break;
    }
    case Place::Unsharded:
      slot = state.unsharded[place.index];
      break;
    case Place::StageSum:
      slot = state.stageSums[place.index].total;
      break;
    case Place::LossScale:
      slot = state.lossScale;
      break;
    }
  }
}

/// What an update that is skipped would have used up.
static void dropGradients(StepState &state, const BoundPhase &update) {
  for (const Place &place : update.arguments)
    if (place.kind == Place::Result)
      state.results[place.index] = c10::IValue();
}

static llvm::Error storeResults(StepState &state, std::vector<c10::IValue> values,
                                const BoundPhase &bound, MicrobatchState &microbatch) {
  return guarded([&] {
    c10::InferenceMode inferenceMode;
    for (auto [place, value] : llvm::zip_equal(bound.results, values)) {
      switch (place.kind) {
      case Place::Saved:
        microbatch.saved[place.index] = std::move(value);
        continue;
      case Place::Unsharded:
        state.unsharded[place.index] = std::move(value);
        continue;
      case Place::StageSum:
        state.stageSums[place.index].terms[bound.stage] = std::move(value).toTensor();
        continue;
      case Place::Weight:
      case Place::State:
        break;
      default:
        state.results[place.index] = std::move(value);
        continue;
      }
      // State is flat memory of its own: two results may be views of one value.
      at::Tensor tensor = std::move(value).toTensor();
      if (char *home = homeOf(state, place))
        tensor = putAt(home, std::move(tensor));
      else if (!tensor.is_contiguous() || !isSoleOwner(tensor))
        tensor = tensor.clone(at::MemoryFormat::Contiguous);
      stateAt(state, place) = std::move(tensor);
    }
  });
}

/// Keeps the outputs of a microbatch that a function has just made.
static void keepOutputs(StepContext &context, const BoundPhase &bound, int64_t index) {
  c10::InferenceMode inferenceMode;
  llvm::ArrayRef<ValueInfo> values = context.program.results(Phase::Microbatch);
  for (const Place &place : bound.results) {
    if (place.kind != Place::Result || place.index >= values.size())
      continue;
    const ValueInfo &value = values[place.index];
    if (value.role != RoleKind::Loss && !(value.role == RoleKind::Output && value.batch))
      continue;
    std::vector<at::Tensor> &parts = context.state.outputs[place.index];
    parts.resize(context.options.microbatches);
    // Copied, because a view would keep all of its storage and may not be contiguous.
    const at::Tensor &result = context.state.results[place.index].toTensor();
    parts[index] = context.device.toHost(result.clone(at::MemoryFormat::Contiguous));
  }
}

llvm::Error cleave::runtime::runPhase(StepContext &context, BoundPhase &bound,
                                      MicrobatchState &microbatch) {
  if (bound.phase == Phase::Update && context.lossScale) {
    bool isSkipped = false;
    if (llvm::Error error = guarded([&] { isSkipped = context.isSkipped(); }))
      return error;
    if (isSkipped) {
      dropGradients(context.state, bound);
      return llvm::Error::success();
    }
  }
  unsigned frame = context.frames.slotOf(bound.stage, microbatch.index);
  Executor &executor = *bound.executors[bound.executors.size() > 1 ? frame : 0];
  fillArguments(context.state, executor, bound, microbatch);
  std::vector<c10::IValue> values;
  if (llvm::Error error = executor.run(values, bound.observers))
    return error;
  if (llvm::Error error = storeResults(context.state, std::move(values), bound, microbatch))
    return error;
  if (context.options.keepOutputs)
    keepOutputs(context, bound, microbatch.index);
  if (!bound.endsFrame || !context.options.poisonsDeadMemory)
    return llvm::Error::success();
  int64_t begin = context.frameOffset(bound.stage, frame);
  int64_t bytes = context.frames.stages[bound.stage].frameBytes;
  return guarded([&] { executor.poison(begin, bytes); });
}

llvm::Error cleave::runtime::checkGradients(const StepContext &context, const BoundPhase &bound,
                                            int64_t step) {
  if (bound.phase != Phase::Update)
    return llvm::Error::success();
  for (const Place &place : bound.arguments)
    if (place.kind == Place::Result && context.state.results[place.index].isNone())
      return makeError("there are no gradients for an update of step {0}: run its microbatches "
                       "first",
                       step);
  return llvm::Error::success();
}
