//===- ProcessGroupCommunicator.cpp - Ranks of a process group ------------===//

#include "runtime/comm/ProcessGroupCommunicator.h"
#include "runtime/comm/C10dHelpers.h"
#include "runtime/comm/C10dReduction.h"
#include "runtime/comm/Failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <numeric>

using namespace cleave::runtime;
using llvm::StringRef;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// How often a wait looks whether it should end.
static constexpr milliseconds kPollInterval(100);

namespace {

class ProcessGroupCommunicator;

/// An operation of the backend. Collectives complete in threads of the backend, which tell; sends
/// and receives complete while they are waited for.
class ProcessGroupWork final : public Work {
public:
  ProcessGroupWork(ProcessGroupCommunicator &owner, std::string operation,
                   c10::intrusive_ptr<c10d::Work> work, bool isExchange)
      : owner(owner), operation(std::move(operation)), work(std::move(work)),
        isExchange(isExchange) {
    if (!isExchange)
      this->work->getFuture()->addCallback([state = state](c10::ivalue::Future &) {
        std::lock_guard lock(state->mutex);
        state->isDone = true;
        state->wake.notify_all();
      });
  }

  void copyBack(at::Tensor to, at::Tensor from) {
    result = std::move(to);
    buffer = std::move(from);
  }

  bool isDone() override {
    if (finished || isExchange)
      return finished;
    std::lock_guard lock(state->mutex);
    return state->isDone;
  }

  llvm::Error wait(std::optional<milliseconds> timeout) override;

private:
  /// Shared with the thread that completes the operation, whatever becomes of this object.
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    bool isDone = false;
  };

  /// Whether it is complete; if not, it has taken too long.
  llvm::Expected<bool> awaitCollective(Clock::time_point deadline);
  llvm::Expected<bool> awaitExchange(Clock::time_point deadline);

  ProcessGroupCommunicator &owner;
  std::string operation;
  c10::intrusive_ptr<c10d::Work> work;
  const bool isExchange;
  at::Tensor result, buffer;
  Clock::time_point start = Clock::now();
  std::shared_ptr<State> state = std::make_shared<State>();
  bool finished = false;
};

class ProcessGroupCommunicator final : public Communicator {
public:
  ProcessGroupCommunicator(int rank, std::vector<int> members, std::string name,
                           milliseconds timeout, std::shared_ptr<ProcessGroupHost> host,
                           c10::intrusive_ptr<c10d::ProcessGroup> group)
      : Communicator(rank, std::move(members), std::move(name), timeout), host(std::move(host)),
        group(std::move(group)), backend(this->group->getBackend(c10::DeviceType::CPU)) {}

  bool supports(const ReductionOp &reduction, c10::ScalarType type) const override;
  llvm::Expected<std::unique_ptr<Work>>
  startAllReduce(at::Tensor &tensor, const ReductionOp &reduction, StringRef what) override {
    c10d::AllreduceOptions options;
    options.reduceOp = toC10d(reduction);
    return startInPlace("all_reduce", what, tensor, [&](std::vector<at::Tensor> &tensors) {
      return backend->allreduce(tensors, options);
    });
  }
  llvm::Expected<std::unique_ptr<Work>>
  startReduce(at::Tensor &tensor, const ReductionOp &reduction, int root, StringRef what) override {
    if (llvm::Error error = checkPeer("reduce", root))
      return error;
    c10d::ReduceOptions options;
    options.reduceOp = toC10d(reduction);
    options.rootRank = root;
    return startInPlace("reduce", what, tensor, [&](std::vector<at::Tensor> &tensors) {
      return backend->reduce(tensors, options);
    });
  }
  llvm::Expected<std::unique_ptr<Work>> startBroadcast(at::Tensor &tensor, int root,
                                                       StringRef what) override {
    if (llvm::Error error = checkPeer("broadcast", root))
      return error;
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return startInPlace("broadcast", what, tensor, [&](std::vector<at::Tensor> &tensors) {
      return backend->broadcast(tensors, options);
    });
  }
  llvm::Expected<std::unique_ptr<Work>> startAllGather(at::Tensor &output, const at::Tensor &input,
                                                       StringRef what) override {
    return start("all_gather", what, [&] {
      std::vector<std::vector<at::Tensor>> outputs{split(output)};
      std::vector<at::Tensor> inputs{input.view({input.numel()})};
      return backend->allgather(outputs, inputs);
    });
  }
  llvm::Expected<std::unique_ptr<Work>> startGather(at::Tensor &output, const at::Tensor &input,
                                                    int root, StringRef what) override {
    if (llvm::Error error = checkPeer("gather", root))
      return error;
    c10d::GatherOptions options;
    options.rootRank = root;
    return start("gather", what, [&] {
      std::vector<std::vector<at::Tensor>> outputs;
      if (rank() == root)
        outputs.push_back(split(output));
      std::vector<at::Tensor> inputs{input.view({input.numel()})};
      return backend->gather(outputs, inputs, options);
    });
  }
  llvm::Expected<std::unique_ptr<Work>> startScatter(at::Tensor &output, const at::Tensor &input,
                                                     int root, StringRef what) override {
    if (llvm::Error error = checkPeer("scatter", root))
      return error;
    c10d::ScatterOptions options;
    options.rootRank = root;
    return start("scatter", what, [&] {
      std::vector<std::vector<at::Tensor>> inputs;
      if (rank() == root)
        inputs.push_back(split(input));
      std::vector<at::Tensor> outputs{output.view({output.numel()})};
      return backend->scatter(outputs, inputs, options);
    });
  }
  llvm::Expected<std::unique_ptr<Work>> startAllToAll(at::Tensor &output, const at::Tensor &input,
                                                      llvm::ArrayRef<int64_t> outputSizes,
                                                      llvm::ArrayRef<int64_t> inputSizes,
                                                      StringRef what) override {
    return start("all_to_all", what, [&] {
      std::vector<int64_t> receives = outputSizes.vec(), sends = inputSizes.vec();
      at::Tensor from = input;
      return backend->alltoall_base(output, from, receives, sends);
    });
  }
  llvm::Expected<std::unique_ptr<Work>> startSend(const at::Tensor &tensor, int peer, int tag,
                                                  StringRef what) override {
    return startExchange("send", tensor, peer, tag, what, [&](std::vector<at::Tensor> &tensors) {
      return backend->send(tensors, peer, tag);
    });
  }
  llvm::Expected<std::unique_ptr<Work>> startReceive(at::Tensor &tensor, int peer, int tag,
                                                     StringRef what) override {
    return startExchange("receive", tensor, peer, tag, what, [&](std::vector<at::Tensor> &tensors) {
      return backend->recv(tensors, peer, tag);
    });
  }
  llvm::Expected<std::vector<std::string>> allGatherBytes(StringRef bytes, StringRef what) override;
  llvm::Error barrier(StringRef what) override;
  llvm::Expected<std::unique_ptr<Communicator>> subgroup(llvm::ArrayRef<int> ranks,
                                                         StringRef name) override;

  /// What waits for a device asks for its peers all the while: now and then the owner is asked,
  /// too.
  llvm::Error checkPeers() override {
    if (llvm::Error error = checkUsable())
      return error;
    Clock::time_point now = Clock::now();
    if (now - lastPoll < kPollInterval)
      return llvm::Error::success();
    lastPoll = now;
    return poll();
  }
  void *groupStore() override;
  /// The group is its owner's, and has no way to say so.
  void abort(StringRef) override { isBroken = true; }
  llvm::Error finish() override { return llvm::Error::success(); }

  llvm::Error poll() { return host->poll ? host->poll() : llvm::Error::success(); }
  /// The error of `operation`, which failed with `cause`.
  llvm::Error fail(StringRef operation, StringRef cause) {
    isBroken = true;
    return llvm::make_error<PeerFailure>(
        (operation + " failed on rank " + llvm::Twine(members()[rank()]) + ": " + cause).str(),
        std::vector<int>(), /*isReported=*/false, operation.str());
  }
  void setBroken() { isBroken = true; }

private:
  /// After a failure ranks are in different operations.
  llvm::Error checkUsable() const {
    return isBroken ? llvm::createStringError("the ranks are no longer in step: an operation of "
                                              "group \"%s\" has failed",
                                              name().str().c_str())
                    : llvm::Error::success();
  }
  /// Equal parts of contiguous memory, one a rank.
  std::vector<at::Tensor> split(const at::Tensor &whole) const {
    std::vector<at::Tensor> parts;
    at::Tensor flat = whole.view({whole.numel()});
    int64_t elements = whole.numel() / size();
    for (int i = 0; i < size(); ++i)
      parts.push_back(flat.narrow(0, i * elements, elements));
    return parts;
  }

  template <typename Start>
  llvm::Expected<std::unique_ptr<ProcessGroupWork>> launch(std::string operation, bool isExchange,
                                                           Start begin) {
    if (llvm::Error error = checkUsable())
      return error;
    try {
      return std::make_unique<ProcessGroupWork>(*this, operation, begin(), isExchange);
    } catch (...) {
      return fail(operation, describeException());
    }
  }
  template <typename Start>
  llvm::Expected<std::unique_ptr<Work>> start(StringRef kind, StringRef what, Start begin) {
    return launch(what.empty() ? kind.str() : (kind + " of " + what).str(), /*isExchange=*/false,
                  begin);
  }
  /// Backends work on contiguous memory; strides may differ between ranks.
  template <typename Start>
  llvm::Expected<std::unique_ptr<Work>> startInPlace(StringRef kind, StringRef what,
                                                     at::Tensor &tensor, Start begin) {
    std::vector<at::Tensor> buffers{tensor.contiguous()};
    auto work =
        launch((kind + " of " + what).str(), /*isExchange=*/false, [&] { return begin(buffers); });
    if (work && !tensor.is_contiguous())
      (*work)->copyBack(tensor, buffers.front());
    return work;
  }
  template <typename Start>
  llvm::Expected<std::unique_ptr<Work>> startExchange(StringRef kind, const at::Tensor &tensor,
                                                      int peer, int tag, StringRef what,
                                                      Start begin) {
    if (llvm::Error error = checkPeer(kind, peer))
      return error;
    if (peer == rank() || tag < 0 || !tensor.is_contiguous())
      return llvm::createStringError("%s of %s: expected another rank, a tag of at least 0 and a "
                                     "contiguous tensor",
                                     kind.str().c_str(), what.str().c_str());
    std::string operation = (kind + " of " + what + (kind == "send" ? " to rank " : " from rank ") +
                             llvm::Twine(members()[peer]) + ", tag " + llvm::Twine(tag))
                                .str();
    std::vector<at::Tensor> tensors{tensor};
    return launch(std::move(operation), /*isExchange=*/true, [&] { return begin(tensors); });
  }

  std::shared_ptr<ProcessGroupHost> host;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<c10d::Backend> backend;
  c10::intrusive_ptr<c10d::Store> store;
  Clock::time_point lastPoll;
  bool isBroken = false;
};

} // namespace

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

llvm::Expected<bool> ProcessGroupWork::awaitCollective(Clock::time_point deadline) {
  std::unique_lock lock(state->mutex);
  while (!state->isDone && Clock::now() < deadline) {
    state->wake.wait_until(lock, std::min(deadline, Clock::now() + kPollInterval));
    if (state->isDone)
      break;
    lock.unlock();
    if (llvm::Error error = owner.poll())
      return error;
    lock.lock();
  }
  return state->isDone;
}

llvm::Expected<bool> ProcessGroupWork::awaitExchange(Clock::time_point deadline) {
  // Its wait takes a while at most where the peer is late; then a thread waits, so that this one
  // can look whether it should end.
  auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  std::future<bool> waiting =
      std::async(std::launch::async, [&] { return work->wait(std::max(left, milliseconds(1))); });
  while (waiting.wait_for(kPollInterval) != std::future_status::ready)
    if (llvm::Error error = owner.poll()) {
      work->abort();
      waiting.wait();
      return error;
    }
  return waiting.get();
}

llvm::Error ProcessGroupWork::wait(std::optional<milliseconds> timeout) {
  if (finished)
    return llvm::Error::success();
  milliseconds limit = timeout.value_or(owner.timeout());
  try {
    llvm::Expected<bool> isComplete =
        isExchange ? awaitExchange(start + limit) : awaitCollective(start + limit);
    if (!isComplete) {
      owner.setBroken();
      return isComplete.takeError();
    }
    if (!*isComplete)
      return owner.fail(operation, "it did not complete within " +
                                       describeSeconds(limit.count() / 1000.0) +
                                       "; a rank is lost, stuck or in another operation");
    if (!isExchange)
      work->wait();
    if (buffer.defined())
      result.copy_(buffer);
  } catch (...) {
    return owner.fail(operation, describeException());
  }
  finished = true;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// For any backend: only what Gloo computes as ATen does. Collectives.h lowers the rest.
bool ProcessGroupCommunicator::supports(const ReductionOp &reduction, c10::ScalarType type) const {
  return glooReducesAsAten(reduction, type);
}

llvm::Error ProcessGroupCommunicator::barrier(StringRef what) {
  at::Tensor one = at::ones({1}, at::kInt);
  auto work = startAllReduce(one, ReductionKind::Sum, what);
  return work ? (*work)->wait() : work.takeError();
}

llvm::Expected<std::vector<std::string>> ProcessGroupCommunicator::allGatherBytes(StringRef bytes,
                                                                                  StringRef what) {
  return gatherPadded(*this, bytes, what);
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

void *ProcessGroupCommunicator::groupStore() {
  // Ranks join a group as often, and in the same order.
  static std::mutex mutex;
  static std::map<std::string, int> numbers;
  std::lock_guard<std::mutex> lock(mutex);
  if (!store)
    store = c10::make_intrusive<c10d::PrefixStore>(
        "cleave/" + std::to_string(numbers[group->getGroupName()]++), group->getStore());
  return store.get();
}

/// A communicator of the registered group. Throws.
static std::unique_ptr<Communicator> open(const std::string &registered, std::vector<int> members,
                                          std::string name, milliseconds timeout,
                                          std::shared_ptr<ProcessGroupHost> host) {
  c10::intrusive_ptr<c10d::ProcessGroup> group = c10d::resolve_process_group(registered);
  if (members.empty()) {
    members.resize(group->getSize());
    std::iota(members.begin(), members.end(), 0);
  }
  return std::make_unique<ProcessGroupCommunicator>(group->getRank(), std::move(members),
                                                    std::move(name), timeout, std::move(host),
                                                    std::move(group));
}

llvm::Expected<std::unique_ptr<Communicator>>
ProcessGroupCommunicator::subgroup(llvm::ArrayRef<int> ranks, StringRef subgroupName) {
  if (llvm::Error error = checkSubgroup(ranks, subgroupName))
    return error;
  std::vector<int> inFirst;
  for (int each : ranks)
    inFirst.push_back(members()[each]);
  llvm::Expected<std::string> registered = host->makeGroup(inFirst);
  if (!registered)
    return registered.takeError();
  try {
    return open(*registered, inFirst, subgroupName.str(), timeout(), host);
  } catch (...) {
    return llvm::createStringError("subgroup \"" + subgroupName + "\": " + describeException());
  }
}

llvm::Expected<std::unique_ptr<Communicator>>
cleave::runtime::joinProcessGroup(const std::string &groupName, milliseconds timeout,
                                  ProcessGroupHost host) {
  try {
    return open(groupName, {}, "world", timeout, std::make_shared<ProcessGroupHost>(host));
  } catch (...) {
    return llvm::createStringError("process group \"" + groupName + "\": " + describeException());
  }
}
