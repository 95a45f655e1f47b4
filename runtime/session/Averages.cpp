//===- Averages.cpp - the moving averages of parameters -----------------------===//

#include "dialects/train/StateDict.h"
#include "runtime/io/Error.h"
#include "runtime/session/SessionImpl.h"

using namespace cleave;
using namespace cleave::runtime;

/// Exchanges what two tensors hold: functions, and callers, know them by their memory.
static void exchange(at::Tensor &one, at::Tensor &other) {
  at::Tensor kept = one.clone();
  one.copy_(other);
  other.copy_(kept);
}

llvm::Error SessionImpl::swapAverages() {
  StepState &state = context.state;
  if (llvm::Error error = state.closeViews())
    return error;
  bool hasAverages = false;
  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    c10::InferenceMode inferenceMode;
    for (auto [value, average] :
         llvm::zip_equal(context.program.optimizerStates(), state.optimizerStates)) {
      if (value.slot != train::kAverageSlot)
        continue;
      hasAverages = true;
      at::Tensor &parameter = state.weights[*context.places.weight(value.name)];
      // A rank whose stages do not update the parameter is given its values below.
      if (!average.defined() || !parameter.defined())
        continue;
      if (average.sizes() != parameter.sizes())
        return void(failure = makeError("program '{0}': expected '{1}' to be placed as its moving "
                                        "average, found shards of other shapes",
                                        context.program.path(), value.name));
      exchange(parameter, average);
    }
  });
  if (llvm::Error error = llvm::joinErrors(std::move(failure), std::move(thrown)))
    return error;
  if (!hasAverages)
    return makeError("program '{0}' has no moving averages of its parameters; export it with "
                     "ema=cleave.EMA(decay)",
                     context.program.path());
  return runner->shareWeights();
}
