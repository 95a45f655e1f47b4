//===- Options.cpp - what the pipeline passes' options mean ----------------===//

#include "passes/pipeline/Options.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace cleave;

LogicalResult pipeline::expectCount(ModuleOp module, StringRef option, int64_t value, int64_t least,
                                    int64_t most) {
  if (value >= least && value <= most)
    return success();
  return module.emitError() << "expects from " << least << " to " << most << " for '" << option
                            << "', found " << value;
}

FailureOr<schedule::CommModel> pipeline::readModel(ModuleOp module, StringRef matching,
                                                   StringRef streams, int64_t receiveSlots,
                                                   int64_t sendSlots) {
  using schedule::StreamSharing;
  constexpr int64_t kMostSlots = 1 << 30;
  if (failed(expectCount(module, "receive-slots", receiveSlots, 0, kMostSlots)) ||
      failed(expectCount(module, "send-slots", sendSlots, 0, kMostSlots)))
    return failure();
  auto sharing = llvm::StringSwitch<std::optional<StreamSharing>>(streams)
                     .Case("world", StreamSharing::World)
                     .Case("peer", StreamSharing::Peer)
                     .Case("direction", StreamSharing::Direction)
                     .Case("kind", StreamSharing::Kind)
                     .Default(std::nullopt);
  if (!sharing)
    return module.emitError() << "expects world, peer, direction or kind for 'streams', found '"
                              << streams << "'";
  schedule::CommModel model;
  if (matching == "nccl")
    model = schedule::CommModel::nccl(*sharing);
  else if (matching != "tag")
    return module.emitError() << "expects tag or nccl for 'matching', found '" << matching << "'";
  model.recvSlots = static_cast<unsigned>(receiveSlots);
  model.sendSlots = static_cast<unsigned>(sendSlots);
  return model;
}
