//===- StageTransfers.cpp - values on their way between stages ----------------===//

#include "runtime/pipeline/StageTransfers.h"
#include "runtime/program/ReceivePlan.h"

#include <ATen/ops/empty.h>

#include <limits>

using namespace cleave::runtime;
using std::chrono::steady_clock;

llvm::Expected<std::unique_ptr<StageTransfers>>
StageTransfers::create(RankGroup group, const ActionList &list, const ScheduleInfo &schedule,
                       int64_t stages, const Device &device) {
  std::unique_ptr<StageTransfers> made(new StageTransfers(std::move(group), list, device));
  made->microbatches = schedule.microbatches;
  made->maxValues = list.maxValues;
  made->layouts.resize(list.channels.size());
  made->sends.resize(list.numSends);
  made->receives.resize(list.channels.size() * schedule.microbatches);
  for (const Channel &channel : list.channels) {
    int64_t total = 0, aligned = 0;
    for (const Channel::Value &value : channel.values) {
      total += value.type.numBytes();
      aligned += cleave::pipeline::alignInMessage(value.type.numBytes());
    }
    made->totals.push_back(total);
    made->messageBytes.push_back(aligned);
  }
  // Counts are at most 2^16, 2^24 and what fits in memory: no overflow in 64 bits.
  made->firstFreeTag = 2 * stages * (schedule.microbatches + 1) * list.maxValues;
  if (made->firstFreeTag > std::numeric_limits<int>::max() / 2)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "schedule '" + llvm::Twine(schedule.name) + "' has " +
                                       llvm::Twine(stages) + " stages and " +
                                       llvm::Twine(schedule.microbatches) +
                                       " microbatches: more messages than tags");
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
  return int((channel.number * (microbatches + 1) + microbatch + 1) * maxValues + int64_t(value));
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

static std::string describeStrides(llvm::StringRef text) {
  return (text + " (strides)").str();
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
  auto started = start(true, message, channel.to, tag(channel, -1, 0), describeStrides(text));
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

llvm::Error StageTransfers::startSend(const ScheduledAction &entry, const Values &values) {
  const Channel &channel = channels[entry.channel];
  Layout &layout = layouts[entry.channel];
  if (!layout.isKnown)
    if (llvm::Error error = tellLayout(channel, layout, values, entry.text))
      return error;
  Batch &batch = sends[entry.send];
  TransferBuffers::Ref buffer; // of what has to be packed
  int64_t offset = 0;
  for (auto [index, value] : llvm::enumerate(values)) {
    auto take = [&, &value = value](int64_t numel) {
      int64_t bytes = numel * int64_t(value.element_size());
      if (!buffer)
        buffer = buffers.take(firstSendSlot + entry.slot, messageBytes[entry.channel]);
      at::Tensor packed = TransferBuffers::place(buffer, offset, numel, value.scalar_type());
      offset += cleave::pipeline::alignInMessage(bytes);
      return packed;
    };
    auto message = start(true, pack(value, layout.strides[index], take), channel.to,
                         tag(channel, entry.microbatch, index), entry.messages[index]);
    if (!message)
      return message.takeError();
    batch.push_back(std::move(*message));
  }
  return llvm::Error::success();
}

llvm::Error StageTransfers::startReceive(const ScheduledAction &entry) {
  const Channel &channel = channels[entry.channel];
  Layout &layout = layouts[entry.channel];
  if (!layout.isKnown && !layout.isAsked) {
    layout.isAsked = true;
    int64_t count = 0;
    for (const Channel::Value &value : channel.values)
      count += int64_t(value.type.shape.size());
    auto message = start(false, at::empty({count}, at::kLong), channel.from, tag(channel, -1, 0),
                         describeStrides(entry.text));
    if (!message)
      return message.takeError();
    layout.message = std::move(*message);
  }
  Batch &batch = receives[entry.channel * microbatches + entry.microbatch];
  TransferBuffers::Ref buffer = buffers.take(entry.slot, messageBytes[entry.channel]);
  int64_t offset = 0;
  for (auto [index, value] : llvm::enumerate(channel.values)) {
    at::Tensor flat = TransferBuffers::place(buffer, offset, value.type.numElements(),
                                             toScalarType(value.type.dtype));
    offset += cleave::pipeline::alignInMessage(value.type.numBytes());
    auto message = start(false, std::move(flat), channel.from,
                         tag(channel, entry.microbatch, index), entry.messages[index]);
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
    const TensorType &type = channel.values[index].type;
    auto take = [&](int64_t numel) {
      c10::ScalarType dtype = toScalarType(type.dtype);
      int64_t bytes = numel * int64_t(c10::elementSize(dtype));
      return TransferBuffers::place(buffers.takeSpare(bytes), 0, numel, dtype);
    };
    values.push_back(unpack(std::move(message.tensor), type.shape, layout.strides[index], take));
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
