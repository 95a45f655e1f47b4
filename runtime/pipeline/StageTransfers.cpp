//===- StageTransfers.cpp - values on their way between stages ----------------===//

#include "runtime/pipeline/StageTransfers.h"

#include <ATen/ops/empty.h>

#include <limits>

using namespace cleave::runtime;
using std::chrono::steady_clock;

llvm::Expected<std::unique_ptr<StageTransfers>>
StageTransfers::create(RankGroup group, const ActionList &list, const ScheduleInfo &schedule,
                       int64_t stages, const Device &device) {
  std::unique_ptr<StageTransfers> made(new StageTransfers(std::move(group), list.channels, device));
  made->microbatches = schedule.microbatches;
  made->mostValues = list.mostValues;
  made->layouts.resize(list.channels.size());
  made->sends.resize(list.numSends);
  made->receives.resize(list.channels.size() * schedule.microbatches);
  for (const Channel &channel : list.channels) {
    int64_t total = 0;
    for (const Channel::Value &value : channel.values)
      total += value.type.numBytes();
    made->totals.push_back(total);
  }
  // Counts are at most 2^16, 2^24 and what fits in memory: no overflow in 64 bits.
  made->firstFreeTag = 2 * stages * (schedule.microbatches + 1) * list.mostValues;
  if (made->firstFreeTag > std::numeric_limits<int>::max() / 2)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "schedule '" + llvm::Twine(schedule.name) + "' has " +
                                       llvm::Twine(stages) + " stages and " +
                                       llvm::Twine(schedule.microbatches) +
                                       " microbatches: more messages than there are tags for");
  std::vector<int> peers;
  for (const Channel &channel : made->channels)
    for (int place : {channel.from, channel.to})
      peers.push_back(made->group.rankAt[place]);
  if (llvm::Error error = made->group.communicator->connectPeers(peers))
    return error;
  return made;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// Tags of microbatch -1 are for the channel's layout.
int StageTransfers::tag(const Channel &channel, int64_t microbatch, size_t value) const {
  return int((channel.number * (microbatches + 1) + microbatch + 1) * mostValues + int64_t(value));
}

llvm::Expected<StageTransfers::Message>
StageTransfers::start(bool sends, at::Tensor flat, int place, int tag, llvm::StringRef what) {
  Message message;
  message.tensor = std::move(flat);
  message.start = steady_clock::now();
  if (message.tensor.numel() == 0)
    return message; // there is nothing to say
  Communicator &ranks = *group.communicator;
  int peer = group.rankAt[place];
  auto work = sends ? ranks.startSend(message.tensor, peer, tag, what)
                    : ranks.startReceive(message.tensor, peer, tag, what);
  if (!work)
    return work.takeError();
  message.work = std::move(*work);
  return message;
}

llvm::Error StageTransfers::wait(Message &message) {
  if (!message.work)
    return llvm::Error::success();
  // A receive may start long before its value is wanted: the peer has its time from then on.
  auto waited =
      std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - message.start);
  llvm::Error error = message.work->wait(waited + group.communicator->timeout());
  message.work.reset();
  return error;
}

static std::string describe(llvm::StringRef text, llvm::StringRef value) {
  return (text + " (\"" + value + "\")").str();
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

llvm::Error StageTransfers::tellLayout(const Channel &channel, Layout &layout, const Values &values,
                                       llvm::StringRef text) {
  layout.isKnown = true;
  std::vector<int64_t> all;
  for (const at::Tensor &value : values) {
    layout.strides.push_back(stridesToSend(value));
    llvm::append_range(all, layout.strides.back());
  }
  at::Tensor message = at::empty({int64_t(all.size())}, at::kLong);
  llvm::copy(all, message.mutable_data_ptr<int64_t>());
  auto started = start(true, message, channel.to, tag(channel, -1, 0), describe(text, "strides"));
  if (!started)
    return started.takeError();
  layout.message = std::move(*started);
  return llvm::Error::success();
}

llvm::Error StageTransfers::learnLayout(const Channel &channel, Layout &layout) {
  if (llvm::Error error = wait(layout.message))
    return error;
  const int64_t *next = layout.message.tensor.const_data_ptr<int64_t>();
  for (const Channel::Value &value : channel.values) {
    layout.strides.emplace_back(next, next + value.type.shape.size());
    next += value.type.shape.size();
  }
  layout.isKnown = true;
  layout.message = {};
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Between stages
//===----------------------------------------------------------------------===//

llvm::Error StageTransfers::startSend(uint32_t number, uint32_t channelNumber, uint32_t microbatch,
                                      const Values &values, llvm::StringRef text) {
  const Channel &channel = channels[channelNumber];
  Layout &layout = layouts[channelNumber];
  if (!layout.isKnown)
    if (llvm::Error error = tellLayout(channel, layout, values, text))
      return error;
  Batch &batch = sends[number];
  for (auto [index, value] : llvm::enumerate(values)) {
    auto message =
        start(true, pack(value, layout.strides[index]), channel.to, tag(channel, microbatch, index),
              describe(text, channel.values[index].name));
    if (!message)
      return message.takeError();
    batch.push_back(std::move(*message));
  }
  return llvm::Error::success();
}

llvm::Error StageTransfers::startReceive(uint32_t number, uint32_t microbatch,
                                         llvm::StringRef text) {
  const Channel &channel = channels[number];
  Layout &layout = layouts[number];
  if (!layout.isKnown && !layout.isAsked) {
    layout.isAsked = true;
    int64_t count = 0;
    for (const Channel::Value &value : channel.values)
      count += int64_t(value.type.shape.size());
    auto message = start(false, at::empty({count}, at::kLong), channel.from, tag(channel, -1, 0),
                         describe(text, "strides"));
    if (!message)
      return message.takeError();
    layout.message = std::move(*message);
  }
  Batch &batch = receives[number * microbatches + microbatch];
  for (auto [index, value] : llvm::enumerate(channel.values)) {
    at::Tensor flat = at::empty({value.type.numElements()}, device.options(value.type.dtype));
    auto message = start(false, std::move(flat), channel.from, tag(channel, microbatch, index),
                         describe(text, value.name));
    if (!message)
      return message.takeError();
    batch.push_back(std::move(*message));
  }
  return llvm::Error::success();
}

llvm::Expected<StageTransfers::Values> StageTransfers::finishReceive(uint32_t number,
                                                                     uint32_t microbatch) {
  const Channel &channel = channels[number];
  Layout &layout = layouts[number];
  if (!layout.isKnown && layout.isAsked)
    if (llvm::Error error = learnLayout(channel, layout))
      return error;
  Values values;
  Batch &batch = receives[number * microbatches + microbatch];
  for (auto [index, message] : llvm::enumerate(batch)) {
    if (llvm::Error error = wait(message))
      return error;
    values.push_back(
        unpack(std::move(message.tensor), channel.values[index].type.shape, layout.strides[index]));
  }
  batch.clear();
  return values;
}

llvm::Error StageTransfers::finishSend(uint32_t number) {
  for (Message &message : sends[number])
    if (llvm::Error error = wait(message))
      return error;
  sends[number].clear();
  return llvm::Error::success();
}

llvm::Error StageTransfers::finishLayouts() {
  for (Layout &layout : layouts)
    if (llvm::Error error = wait(layout.message))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Whole tensors
//===----------------------------------------------------------------------===//

llvm::Error StageTransfers::startCopy(at::Tensor tensor, int from, llvm::ArrayRef<int> to,
                                      int64_t index, llvm::StringRef what) {
  at::Tensor flat = tensor.view({tensor.numel()});
  for (int place : to) {
    if (place == from || (int(group.place) != from && int(group.place) != place))
      continue;
    bool sends = int(group.place) == from;
    auto message = start(sends, flat, sends ? place : from, int(firstFreeTag + index), what);
    if (!message)
      return message.takeError();
    copies.push_back(std::move(*message));
  }
  return llvm::Error::success();
}

llvm::Error StageTransfers::finishCopies() {
  for (Message &message : copies)
    if (llvm::Error error = wait(message))
      return error;
  copies.clear();
  return llvm::Error::success();
}
