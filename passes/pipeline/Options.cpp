//===- Options.cpp - what the pipeline passes' options mean ----------------===//

#include "passes/pipeline/Options.h"

using namespace mlir;
using namespace cleave;

LogicalResult pipeline::expectCount(ModuleOp module, StringRef option, int64_t value,
                                    int64_t minimum, int64_t maximum) {
  if (value >= minimum && value <= maximum)
    return success();
  return module.emitError() << "expects from " << minimum << " to " << maximum << " for '" << option
                            << "', found " << value;
}

FailureOr<schedule::CommModel> pipeline::readModel(ModuleOp module, schedule::Matching matching,
                                                   schedule::StreamSharing streams,
                                                   int64_t receiveSlots, int64_t sendSlots) {
  constexpr int64_t kMaxSlots = 1 << 30;
  if (failed(expectCount(module, "receive-slots", receiveSlots, 0, kMaxSlots)) ||
      failed(expectCount(module, "send-slots", sendSlots, 0, kMaxSlots)))
    return failure();
  return schedule::CommModel{matching, streams, static_cast<unsigned>(receiveSlots),
                             static_cast<unsigned>(sendSlots)};
}
