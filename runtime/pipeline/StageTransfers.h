//===- StageTransfers.h - values on their way between stages ------*- C++ -*-===//
//
// Sends and receives of a schedule: started where the list says so, waited for when their value is
// used. Transfers match by tag, whatever their order.
//
// The first send over a channel is accompanied by a message that tells the strides of its values
// (Layouts.h); they are the same for all microbatches.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PIPELINE_STAGETRANSFERS_H
#define CLEAVE_RUNTIME_PIPELINE_STAGETRANSFERS_H

#include "runtime/aten/Facade.h"
#include "runtime/comm/RankGroup.h"
#include "runtime/device/Device.h"
#include "runtime/pipeline/ActionList.h"
#include "runtime/pipeline/Layouts.h"
#include "runtime/pipeline/TransferBuffers.h"

namespace cleave::runtime {

class StageTransfers {
public:
  /// `group` has the ranks along the pipeline axis, in order. Fails if tags would not be enough.
  static llvm::Expected<std::unique_ptr<StageTransfers>>
  create(RankGroup group, const ActionList &list, const ScheduleInfo &schedule, int64_t stages,
         const Device &device);

  using Values = llvm::SmallVector<at::Tensor, 4>;

  /// Starts sending a microbatch's values; they are kept until the send is finished.
  llvm::Error startSend(const ScheduledAction &entry, const Values &values);
  llvm::Error startReceive(const ScheduledAction &entry);
  /// Waits for what startReceive started, and hands it out.
  llvm::Expected<Values> finishReceive(uint32_t channel, uint32_t microbatch);
  /// Waits until a send is complete.
  llvm::Error finishSend(uint32_t number);
  /// Waits for the messages that accompany first sends; at the end of a step.
  llvm::Error finishLayouts();

  /// Overwrites `tensor`, which is contiguous, at the places `to` with what `from` has. Called by
  /// all of these places, with the same `index` (from 0); others may call it and do nothing.
  llvm::Error startCopy(at::Tensor tensor, int from, llvm::ArrayRef<int> to, int64_t index,
                        llvm::StringRef what);
  llvm::Error finishCopies();

  int64_t bytes(uint32_t channel) const { return totals[channel]; }

private:
  StageTransfers(RankGroup group, const ActionList &list, const Device &device)
      : group(std::move(group)), channels(list.channels), buffers(device) {
    buffers.addSlots(list.receiveSlots);
    firstSendSlot = buffers.addSlots(list.sendSlots);
  }

  /// A message in flight.
  struct Message {
    std::unique_ptr<Work> work;
    at::Tensor tensor; ///< what is sent, or received into: flat
    std::chrono::steady_clock::time_point start;
  };
  /// What is known of a channel: the strides of its values, once one of its ends has told.
  struct Layout {
    std::vector<Strides> strides;
    Message message; ///< that tells them
    bool isKnown = false, isAsked = false;
  };
  using Batch = std::vector<Message>;

  int tag(const Channel &channel, int64_t microbatch, size_t value) const;
  llvm::Expected<Message> start(bool sends, at::Tensor flat, int place, int tag,
                                llvm::StringRef what);
  llvm::Error wait(Message &message);
  llvm::Error tellLayout(const Channel &channel, Layout &layout, const Values &values,
                         llvm::StringRef text);
  llvm::Error learnLayout(const Channel &channel, Layout &layout);

  RankGroup group;
  std::vector<Channel> channels;
  TransferBuffers buffers;
  unsigned firstSendSlot = 0;
  std::vector<Layout> layouts; ///< by channel
  /// Bytes, by channel: of its values, and of a buffer with all of them.
  std::vector<int64_t> totals, messageBytes;
  std::vector<Batch> receives; ///< by channel and microbatch
  std::vector<Batch> sends;    ///< by number
  std::vector<Message> copies;
  int64_t microbatches = 1, maxValues = 1;
  /// Above those of channels.
  int64_t firstFreeTag = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PIPELINE_STAGETRANSFERS_H
