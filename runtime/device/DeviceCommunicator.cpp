//===- DeviceCommunicator.cpp - communication of tensors on devices ------------===//

#include "runtime/device/DeviceCommunicator.h"
#include "runtime/comm/C10dReduction.h"
#include "runtime/comm/Failure.h"
#include "runtime/device/DeviceWork.h"

#include "llvm/ADT/StringExtras.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

using namespace cleave::runtime;
using llvm::StringRef;
using Started = llvm::Expected<std::unique_ptr<Work>>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

namespace {
class DeviceCommunicator final : public Communicator {
public:
  DeviceCommunicator(Communicator &host, const Device &device, DeviceMedium medium)
      : Communicator(host.rank(), host.members().vec(), host.name().str(), host.timeout()),
        host(host), device(device), medium(medium) {}
  DeviceCommunicator(std::unique_ptr<Communicator> owned, const Device &device, DeviceMedium medium)
      : DeviceCommunicator(*owned, device, medium) {
    this->owned = std::move(owned);
  }
  ~DeviceCommunicator() override;

  /// Makes the backend of collectives.
  llvm::Error connect();

  bool supports(const ReductionOp &reduction, c10::ScalarType type) const override;
  Started startAllReduce(at::Tensor &tensor, const ReductionOp &reduction, StringRef what) override;
  Started startReduce(at::Tensor &tensor, const ReductionOp &reduction, int root,
                      StringRef what) override;
  Started startAllGather(at::Tensor &output, const at::Tensor &input, StringRef what) override;
  Started startGather(at::Tensor &output, const at::Tensor &input, int root,
                      StringRef what) override;
  Started startScatter(at::Tensor &output, const at::Tensor &input, int root,
                       StringRef what) override;
  Started startAllToAll(at::Tensor &output, const at::Tensor &input,
                        llvm::ArrayRef<int64_t> outputSizes, llvm::ArrayRef<int64_t> inputSizes,
                        StringRef what) override;
  bool canReduceScatter(const ReductionOp &reduction, const at::Tensor &tensor) const override {
    return isForBackend(tensor) && supports(reduction, tensor.scalar_type());
  }
  Started startReduceScatter(at::Tensor &output, const at::Tensor &input,
                             const ReductionOp &reduction, StringRef what) override;
  Started startBroadcast(at::Tensor &tensor, int root, StringRef what) override;
  Started startSend(const at::Tensor &tensor, int peer, int tag, StringRef what) override;
  Started startReceive(at::Tensor &tensor, int peer, int tag, StringRef what) override;

  llvm::Error connectPeers(llvm::ArrayRef<int> peers) override;

  llvm::Expected<std::vector<std::string>> allGatherBytes(StringRef bytes,
                                                          StringRef what) override {
    return host.allGatherBytes(bytes, what);
  }
  llvm::Error barrier(StringRef what) override { return host.barrier(what); }
  llvm::Expected<std::unique_ptr<Communicator>> subgroup(llvm::ArrayRef<int> ranks,
                                                         StringRef name) override;
  bool isRecordable() const override { return medium == DeviceMedium::Backend; }
  llvm::Error checkPeers() override { return host.checkPeers(); }
  std::vector<RankPosition> askPositions(std::chrono::milliseconds patience) override {
    return host.askPositions(patience);
  }
  llvm::Error explainStuck() override { return host.explainFailure(last.text, last.number, ""); }
  void abort(StringRef reason) override { host.abort(reason); }
  void *groupStore() override { return host.groupStore(); }
  uint64_t enterOperation(StringRef what) override { return host.enterOperation(what); }
  llvm::Error explainFailure(StringRef operation, uint64_t number, StringRef cause) override {
    return host.explainFailure(operation, number, cause);
  }
  llvm::Error finish() override;

private:
  /// Whether the backend takes the tensor, or it goes through the host's memory; else the host's
  /// communicator takes it as it is.
  bool isOnDevice(const at::Tensor &tensor) const {
    return tensor.defined() && tensor.device() == device.torchDevice();
  }
  bool isForBackend(const at::Tensor &tensor) const {
    return medium == DeviceMedium::Backend && isOnDevice(tensor);
  }

  llvm::Expected<BackendPtr> makeBackend(StringRef purpose);
  /// The backend for messages to higher, or to lower ranks.
  llvm::Expected<BackendPtr> forMessages(bool areAscending);
  /// Runs `start` as a collective of the backend.
  Started launch(StringRef kind, StringRef what,
                 llvm::function_ref<WorkPtr(c10d::Backend &)> start);
  Started exchange(bool sends, const at::Tensor &tensor, int peer, StringRef what);

  Communicator &host;
  std::unique_ptr<Communicator> owned;
  const Device &device;
  DeviceMedium medium;
  BackendPtr collectives;
  std::array<BackendPtr, 2> messages; ///< to lower ranks, to higher ones
  /// The last collective that was started, which explains what is stuck.
  struct {
    std::string text = "work on the device";
    uint64_t number = 0;
  } last;
};
} // namespace

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

llvm::Expected<BackendPtr> DeviceCommunicator::makeBackend(StringRef purpose) {
  auto *store = static_cast<c10d::Store *>(host.groupStore());
  if (!store)
    return llvm::createStringError("group \"%s\" has no store to create a communicator with",
                                   name().str().c_str());
  auto own = c10::make_intrusive<c10d::PrefixStore>(
      purpose.str(), c10::intrusive_ptr<c10d::Store>::reclaim_copy(store));
  std::string label = (name() + "/" + purpose).str();
  CleaveBackendOptions options{};
  options.store = own.get();
  options.rank = rank();
  options.size = size();
  // A single rank waits for no one; backends add it to a time.
  options.timeoutMilliseconds =
      std::min(timeout(), std::chrono::milliseconds(std::chrono::hours(24))).count();
  options.name = label.c_str();
  llvm::Expected<void *> made = device.plugin()->createBackend(options);
  if (!made)
    return made.takeError();
  return BackendPtr::reclaim(static_cast<c10d::Backend *>(*made));
}

llvm::Error DeviceCommunicator::connect() {
  if (medium != DeviceMedium::Backend)
    return llvm::Error::success();
  llvm::Expected<BackendPtr> made = makeBackend("collectives");
  if (!made)
    return made.takeError();
  collectives = std::move(*made);
  return llvm::Error::success();
}

llvm::Expected<BackendPtr> DeviceCommunicator::forMessages(bool areAscending) {
  BackendPtr &backend = messages[areAscending];
  if (!backend) {
    llvm::Expected<BackendPtr> made = makeBackend(areAscending ? "ascending" : "descending");
    if (!made)
      return made.takeError();
    backend = std::move(*made);
  }
  return backend;
}

llvm::Expected<std::unique_ptr<Communicator>>
DeviceCommunicator::subgroup(llvm::ArrayRef<int> ranks, StringRef name) {
  llvm::Expected<std::unique_ptr<Communicator>> ofHost = host.subgroup(ranks, name);
  if (!ofHost)
    return ofHost.takeError();
  auto made = std::make_unique<DeviceCommunicator>(std::move(*ofHost), device, medium);
  if (llvm::Error error = made->connect())
    return error;
  return made;
}

llvm::Error DeviceCommunicator::finish() {
  if (llvm::Error error = guardedByDevice([&] { device.synchronize(); }))
    return error;
  return host.barrier("the end of the program");
}

DeviceCommunicator::~DeviceCommunicator() {
  // What the device still runs must not lose its communicator; what is stuck never completes.
  bool isLost = false;
  if (llvm::Error error = host.checkPeers()) {
    isLost = true;
    llvm::consumeError(std::move(error));
  }
  for (BackendPtr *backend : {&collectives, &messages[0], &messages[1]})
    if (*backend)
      llvm::consumeError(guardedByDevice([&] {
        if (isLost)
          return (*backend)->abort();
        device.synchronize();
        (*backend)->shutdown();
      }));
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Started DeviceCommunicator::launch(StringRef kind, StringRef what,
                                   llvm::function_ref<WorkPtr(c10d::Backend &)> start) {
  last.text = what.empty() ? kind.str() : (kind + " of " + what).str();
  last.number = host.enterOperation(last.text);
  if (llvm::Error error = host.checkPeers())
    return error;
  std::unique_ptr<Work> work;
  llvm::Error error = guardedByDevice([&] {
    // A program that uses the communication stream itself says what waits for what.
    bool isOrdered = !device.hasStreams() || device.isOnStream(StreamKind::Communication);
    if (isOrdered) {
      work = std::make_unique<BackendWork>(host, device, last.text, last.number,
                                           start(*collectives), std::nullopt);
      return;
    }
    device.wait(device.record(StreamKind::Compute), StreamKind::Communication);
    Device::StreamScope scope(device, StreamKind::Communication);
    WorkPtr started = start(*collectives);
    work = std::make_unique<BackendWork>(host, device, last.text, last.number, std::move(started),
                                         device.record(StreamKind::Communication));
  });
  if (error)
    return host.explainFailure(last.text, last.number, llvm::toString(std::move(error)));
  return work;
}

bool DeviceCommunicator::supports(const ReductionOp &reduction, c10::ScalarType type) const {
  if (medium == DeviceMedium::ThroughHost)
    return host.supports(reduction, type);
  // NCCL too adds f16 and bf16 term by term with a rounding each, and its maxima forget NaNs; it
  // has no bitwise reductions. The host's communicator must be able to do the same, since what it
  // is asked for may be either's.
  bool isWhole = type == at::kByte || type == at::kChar || type == at::kInt || type == at::kLong;
  switch (reduction.kind) {
  case ReductionKind::Sum:
  case ReductionKind::Product:
    return isWhole || type == at::kFloat || type == at::kDouble;
  case ReductionKind::Max:
  case ReductionKind::Min:
    return isWhole;
  default:
    return false;
  }
}

/// Runs `body` on a contiguous tensor in place of `tensor`, which afterwards has its values.
template <typename Body> static WorkPtr inPlace(at::Tensor &tensor, Body body) {
  Tensors tensors{tensor.contiguous()};
  WorkPtr work = body(tensors);
  if (!tensor.is_contiguous()) {
    if (work)
      work->wait();
    tensor.copy_(tensors.front());
  }
  return work;
}

Started DeviceCommunicator::startAllReduce(at::Tensor &tensor, const ReductionOp &reduction,
                                           StringRef what) {
  if (!isOnDevice(tensor))
    return host.startAllReduce(tensor, reduction, what);
  if (!isForBackend(tensor))
    return stage(device, {}, {tensor}, /*readsOutputs=*/true, [&](Tensors &, Tensors &staged) {
      return host.startAllReduce(staged[0], reduction, what);
    });
  c10d::AllreduceOptions options;
  options.reduceOp = toC10d(reduction);
  options.asyncOp = false;
  return launch("all_reduce", what, [&](c10d::Backend &backend) {
    return inPlace(tensor, [&](Tensors &tensors) { return backend.allreduce(tensors, options); });
  });
}

Started DeviceCommunicator::startReduce(at::Tensor &tensor, const ReductionOp &reduction, int root,
                                        StringRef what) {
  if (!isOnDevice(tensor))
    return host.startReduce(tensor, reduction, root, what);
  if (llvm::Error error = checkPeer("reduce", root))
    return error;
  if (!isForBackend(tensor))
    return stage(device, {}, {tensor}, /*readsOutputs=*/true, [&](Tensors &, Tensors &staged) {
      return host.startReduce(staged[0], reduction, root, what);
    });
  c10d::ReduceOptions options;
  options.reduceOp = toC10d(reduction);
  options.rootRank = root;
  options.asyncOp = false;
  return launch("reduce", what, [&](c10d::Backend &backend) {
    return inPlace(tensor, [&](Tensors &tensors) { return backend.reduce(tensors, options); });
  });
}

Started DeviceCommunicator::startReduceScatter(at::Tensor &output, const at::Tensor &input,
                                               const ReductionOp &reduction, StringRef what) {
  c10d::ReduceScatterOptions options;
  options.reduceOp = toC10d(reduction);
  options.asyncOp = false;
  return launch("reduce_scatter", what, [&](c10d::Backend &backend) {
    at::Tensor from = input.view({input.numel()}), to = output.view({output.numel()});
    return backend._reduce_scatter_base(to, from, options);
  });
}

Started DeviceCommunicator::startBroadcast(at::Tensor &tensor, int root, StringRef what) {
  if (!isOnDevice(tensor))
    return host.startBroadcast(tensor, root, what);
  if (llvm::Error error = checkPeer("broadcast", root))
    return error;
  if (!isForBackend(tensor))
    return stage(device, {}, {tensor}, /*readsOutputs=*/true, [&](Tensors &, Tensors &staged) {
      return host.startBroadcast(staged[0], root, what);
    });
  c10d::BroadcastOptions options;
  options.rootRank = root;
  options.asyncOp = false;
  return launch("broadcast", what, [&](c10d::Backend &backend) {
    return inPlace(tensor, [&](Tensors &tensors) { return backend.broadcast(tensors, options); });
  });
}

Started DeviceCommunicator::startAllGather(at::Tensor &output, const at::Tensor &input,
                                           StringRef what) {
  if (!isOnDevice(input))
    return host.startAllGather(output, input, what);
  if (!isForBackend(input))
    return stage(device, {input}, {output}, false, [&](Tensors &inputs, Tensors &outputs) {
      return host.startAllGather(outputs[0], inputs[0], what);
    });
  c10d::AllgatherOptions options;
  options.asyncOp = false;
  return launch("all_gather", what, [&](c10d::Backend &backend) {
    at::Tensor from = input.view({input.numel()}), to = output.view({output.numel()});
    return backend._allgather_base(to, from, options);
  });
}

/// Equal parts of contiguous memory, one a rank.
static Tensors split(const at::Tensor &whole, int parts) {
  Tensors result;
  at::Tensor flat = whole.view({whole.numel()});
  int64_t size = whole.numel() / parts;
  for (int i = 0; i < parts; ++i)
    result.push_back(flat.narrow(0, i * size, size));
  return result;
}

Started DeviceCommunicator::startGather(at::Tensor &output, const at::Tensor &input, int root,
                                        StringRef what) {
  if (!isOnDevice(input))
    return host.startGather(output, input, root, what);
  if (llvm::Error error = checkPeer("gather", root))
    return error;
  bool isRoot = rank() == root;
  if (!isForBackend(input))
    return stage(device, {input}, isRoot ? Tensors{output} : Tensors{}, false,
                 [&](Tensors &inputs, Tensors &outputs) {
                   at::Tensor none;
                   return host.startGather(isRoot ? outputs[0] : none, inputs[0], root, what);
                 });
  c10d::GatherOptions options;
  options.rootRank = root;
  options.asyncOp = false;
  return launch("gather", what, [&](c10d::Backend &backend) {
    std::vector<Tensors> outputs;
    if (isRoot)
      outputs.push_back(split(output, size()));
    Tensors inputs{input.view({input.numel()})};
    return backend.gather(outputs, inputs, options);
  });
}

Started DeviceCommunicator::startScatter(at::Tensor &output, const at::Tensor &input, int root,
                                         StringRef what) {
  if (!isOnDevice(output))
    return host.startScatter(output, input, root, what);
  if (llvm::Error error = checkPeer("scatter", root))
    return error;
  bool isRoot = rank() == root;
  if (!isForBackend(output))
    return stage(device, isRoot ? Tensors{input} : Tensors{}, {output}, false,
                 [&](Tensors &inputs, Tensors &outputs) {
                   return host.startScatter(outputs[0], isRoot ? inputs[0] : at::Tensor(), root,
                                            what);
                 });
  c10d::ScatterOptions options;
  options.rootRank = root;
  options.asyncOp = false;
  return launch("scatter", what, [&](c10d::Backend &backend) {
    std::vector<Tensors> inputs;
    if (isRoot)
      inputs.push_back(split(input, size()));
    Tensors outputs{output.view({output.numel()})};
    return backend.scatter(outputs, inputs, options);
  });
}

Started DeviceCommunicator::startAllToAll(at::Tensor &output, const at::Tensor &input,
                                          llvm::ArrayRef<int64_t> outputSizes,
                                          llvm::ArrayRef<int64_t> inputSizes, StringRef what) {
  if (!isOnDevice(output))
    return host.startAllToAll(output, input, outputSizes, inputSizes, what);
  if (!isForBackend(output))
    return stage(device, {input}, {output}, false, [&](Tensors &inputs, Tensors &outputs) {
      return host.startAllToAll(outputs[0], inputs[0], outputSizes, inputSizes, what);
    });
  c10d::AllToAllOptions options;
  options.asyncOp = false;
  return launch("all_to_all", what, [&](c10d::Backend &backend) {
    std::vector<int64_t> receives = outputSizes.vec(), sends = inputSizes.vec();
    at::Tensor from = input;
    return backend.alltoall_base(output, from, receives, sends, options);
  });
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

Started DeviceCommunicator::exchange(bool sends, const at::Tensor &tensor, int peer,
                                     StringRef what) {
  StringRef kind = sends ? "send" : "receive";
  if (llvm::Error error = checkPeer(kind, peer))
    return error;
  if (peer == rank())
    return llvm::createStringError("%s of %s: a rank cannot exchange with itself",
                                   kind.str().c_str(), what.str().c_str());
  if (llvm::Error error = host.checkPeers())
    return error;
  std::string text = (kind + " of " + what + (sends ? " to rank " : " from rank ")).str() +
                     std::to_string(members()[peer]);
  llvm::Expected<BackendPtr> backend = forMessages(sends == (rank() < peer));
  if (!backend)
    return backend.takeError();
  std::unique_ptr<Work> work;
  llvm::Error error = guardedByDevice([&] {
    // The backend has a stream for each pair of ranks, which follows the current one.
    Tensors tensors{tensor};
    WorkPtr started =
        sends ? (*backend)->send(tensors, peer, 0) : (*backend)->recv(tensors, peer, 0);
    work = std::make_unique<BackendWork>(host, device, text, last.number, std::move(started),
                                         std::nullopt);
  });
  if (error)
    return host.explainFailure(text, last.number, llvm::toString(std::move(error)));
  return work;
}

Started DeviceCommunicator::startSend(const at::Tensor &tensor, int peer, int tag, StringRef what) {
  if (!isOnDevice(tensor))
    return host.startSend(tensor, peer, tag, what);
  if (!isForBackend(tensor))
    return stage(device, {tensor}, {}, false, [&](Tensors &inputs, Tensors &) {
      return host.startSend(inputs[0], peer, tag, what);
    });
  return exchange(true, tensor, peer, what);
}

Started DeviceCommunicator::startReceive(at::Tensor &tensor, int peer, int tag, StringRef what) {
  if (!isOnDevice(tensor))
    return host.startReceive(tensor, peer, tag, what);
  if (!isForBackend(tensor))
    return stage(device, {}, {tensor}, false, [&](Tensors &, Tensors &outputs) {
      return host.startReceive(outputs[0], peer, tag, what);
    });
  return exchange(false, tensor, peer, what);
}

/// The backend connects two ranks in their first message, and until both have come to it blocks
/// them: a receive that is posted early would keep its rank from what the other one waits for.
llvm::Error DeviceCommunicator::connectPeers(llvm::ArrayRef<int> peers) {
  if (medium != DeviceMedium::Backend)
    return llvm::Error::success();
  // All ranks go through the pairs in one order, so that there is no cycle of waits.
  std::vector<std::pair<int, int>> pairs;
  for (int peer : peers)
    if (peer != rank())
      pairs.emplace_back(std::min(rank(), peer), std::max(rank(), peer));
  llvm::sort(pairs);
  pairs.erase(llvm::unique(pairs), pairs.end());
  for (auto [low, high] : pairs)
    for (bool isAscending : {true, false}) {
      int peer = low == rank() ? high : low;
      bool sends = (rank() == low) == isAscending;
      at::Tensor message;
      llvm::Error error = guardedByDevice([&] {
        message = device.allocate({DType::U8, {1}});
        message.zero_();
      });
      if (error)
        return error;
      Started work = exchange(sends, message, peer, "the first message");
      if (!work)
        return work.takeError();
      if (llvm::Error failure = (*work)->wait())
        return failure;
    }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<Communicator>>
cleave::runtime::makeDeviceCommunicator(Communicator &host, const Device &device,
                                        std::optional<DeviceMedium> medium) {
  const CleaveDeviceFacts &facts = device.facts();
  std::string mine(reinterpret_cast<const char *>(facts.uuid), sizeof facts.uuid);
  llvm::Expected<std::vector<std::string>> all = host.allGatherBytes(mine, "the ranks' devices");
  if (!all)
    return all.takeError();
  std::vector<int> sharing;
  for (int first = 0; first < host.size() && sharing.empty(); ++first)
    for (int rank = first; rank < host.size(); ++rank)
      if ((*all)[rank] == (*all)[first])
        sharing.push_back(rank);
      else if (rank == first)
        break;
  if (sharing.size() == 1)
    sharing.clear();
  bool canUseBackend = device.plugin()->hasBackend();
  if (!medium)
    medium = sharing.empty() && canUseBackend ? DeviceMedium::Backend : DeviceMedium::ThroughHost;
  if (*medium == DeviceMedium::Backend && !canUseBackend)
    return llvm::createStringError("the plugin for '%s' has no communicators",
                                   device.kind().str().c_str());
  if (*medium == DeviceMedium::Backend && !sharing.empty())
    return llvm::make_error<CollectiveRefusal>(
        describeRanks(sharing) + " share the device " + facts.name +
        ", but NCCL needs one for each rank: omit --device-communication, or start fewer "
        "ranks");
  auto made = std::make_unique<DeviceCommunicator>(host, device, *medium);
  if (llvm::Error error = made->connect())
    return error;
  return made;
}
