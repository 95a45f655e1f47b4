//===- GlooOperations.cpp - Operations of a Gloo group ---------------------===//

#include "GlooCommunicator.h"
#include "runtime/comm/C10dHelpers.h"
#include "runtime/comm/C10dReduction.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FormatVariadic.h"

#include <ATen/ATen.h>

#include <algorithm>

using namespace cleave::runtime;
using llvm::StringRef;
using std::chrono::milliseconds;

namespace {

/// A collective, which Gloo completes in a thread of its own.
class GlooWork final : public Work {
public:
  GlooWork(GlooCommunicator &owner, Operation operation, c10::intrusive_ptr<c10d::Work> work)
      : owner(owner), operation(std::move(operation)), work(std::move(work)) {}

  /// The operation works on `from`; `to` receives it at the end.
  void copyBack(at::Tensor to, at::Tensor from) {
    result = std::move(to);
    buffer = std::move(from);
  }

  /// Learns of the completion, where this kind of work can tell.
  void watch() {
    work->getFuture()->addCallback(
        [world = &owner.shared(), done = completion](c10::ivalue::Future &) {
          done->store(Clock::now().time_since_epoch(), std::memory_order_release);
          world->notify();
        });
  }

  bool isDone() override { return finished || isComplete() || work->isCompleted(); }

  std::optional<int64_t> completedNs() override {
    if (!isComplete())
      return std::nullopt;
    return std::chrono::nanoseconds(completion->load(std::memory_order_acquire)).count();
  }

  llvm::Error wait(std::optional<milliseconds> timeout) override {
    if (finished)
      return llvm::Error::success();
    milliseconds limit = timeout.value_or(owner.timeout());
    World &world = owner.shared();
    {
      std::unique_lock lock(world.mutex);
      world.wake.wait_until(lock, operation.start + limit,
                            [&] { return isComplete() || world.monitor->hasLoss(); });
    }
    if (!isDone())
      return owner.diagnose(operation, "", limit);
    try {
      work->wait();
      if (buffer.defined())
        result.copy_(buffer);
    } catch (...) {
      return owner.diagnose(operation, describeException(), limit);
    }
    finished = true;
    return llvm::Error::success();
  }

private:
  bool isComplete() const {
    return completion->load(std::memory_order_acquire) != Clock::duration::zero();
  }

  GlooCommunicator &owner;
  Operation operation;
  c10::intrusive_ptr<c10d::Work> work;
  at::Tensor result, buffer;
  /// When Gloo has said that the work is complete; zero before.
  std::shared_ptr<std::atomic<Clock::duration>> completion =
      std::make_shared<std::atomic<Clock::duration>>(Clock::duration::zero());
  bool finished = false;
};

/// Sends and receives: Gloo completes them inside their `wait`, which only `abort` interrupts.
class PointToPointWork final : public Work {
public:
  PointToPointWork(GlooCommunicator &owner, Operation operation,
                   c10::intrusive_ptr<c10d::Work> work)
      : owner(owner), operation(std::move(operation)), work(std::move(work)) {
    World &world = owner.shared();
    std::lock_guard lock(world.mutex);
    world.interruptible.insert(this->work.get());
  }
  ~PointToPointWork() override {
    World &world = owner.shared();
    std::lock_guard lock(world.mutex);
    world.interruptible.erase(work.get());
  }

  /// Known only once waited for: Gloo has no way to ask.
  bool isDone() override { return finished; }

  llvm::Error wait(std::optional<milliseconds> timeout) override {
    if (finished)
      return llvm::Error::success();
    milliseconds limit = timeout.value_or(owner.timeout());
    auto left = std::chrono::ceil<milliseconds>(operation.start + limit - Clock::now());
    PeerMonitor &monitor = *owner.shared().monitor;
    if (monitor.hasLoss())
      return owner.diagnose(operation, "", limit);
    // For who watches the run.
    uint64_t exchange = monitor.beginExchange(llvm::StringRef(operation.text).rtrim(','),
                                              owner.members()[operation.peer]);
    auto end = llvm::make_scope_exit([&] { monitor.endExchange(exchange); });
    try {
      finished = work->wait(std::max(left, milliseconds(1)));
    } catch (...) {
      return owner.diagnose(operation, describeException(), limit);
    }
    return finished ? llvm::Error::success() : owner.diagnose(operation, "", limit);
  }

private:
  GlooCommunicator &owner;
  Operation operation;
  c10::intrusive_ptr<c10d::Work> work;
  bool finished = false;
};

} // namespace

Operation GlooCommunicator::begin(StringRef kind, StringRef what) {
  Operation operation{what.empty() ? kind.str() : (kind + " of " + what).str(), ++started};
  world->monitor->setPosition(path, operation.number, operation.text);
  return operation;
}

GlooCommunicator::Terms GlooCommunicator::termsOf(StringRef kind, const at::Tensor &tensor) {
  return {kind, tensor.numel(), tensor.scalar_type()};
}

llvm::Error GlooCommunicator::agree(const Operation &operation, const Terms &terms) {
  if (!agreed.insert(llvm::hash_combine(operation.text, terms.elements, int(terms.type))).second)
    return llvm::Error::success();
  // The first rank's word counts; others that find another one do not begin. That ranks are in
  // different operations shows by itself.
  std::string mine = llvm::formatv("{0}: {1} elements of {2}", terms.kind, terms.elements,
                                   c10::toString(terms.type));
  std::string key = path + "/terms/" + std::to_string(operation.number);
  std::vector<uint8_t> said =
      world->store->compareSet(key, {}, std::vector<uint8_t>(mine.begin(), mine.end()));
  StringRef first(reinterpret_cast<const char *>(said.data()), said.size());
  auto [kind, amount] = first.split(": ");
  if (first == mine || kind != terms.kind)
    return llvm::Error::success();
  broken = true;
  return llvm::createStringError(
      "%s: rank %d has %s, another rank has %s: expected the same on all ranks",
      StringRef(operation.text).rtrim(',').str().c_str(), members()[rank()],
      StringRef(mine).split(": ").second.str().c_str(), amount.str().c_str());
}

template <typename Start>
llvm::Expected<std::unique_ptr<Work>>
GlooCommunicator::launch(Operation operation, std::optional<Terms> terms, Start start) {
  if (world->monitor->hasLoss())
    return diagnose(operation, "", timeout());
  try {
    if (terms)
      if (llvm::Error error = agree(operation, *terms))
        return error;
    auto work = std::make_unique<GlooWork>(*this, operation, start());
    work->watch();
    return work;
  } catch (...) {
    return diagnoseStart(operation, describeException());
  }
}

template <typename Start>
llvm::Expected<std::unique_ptr<Work>>
GlooCommunicator::launchInPlace(Operation operation, StringRef kind, at::Tensor &tensor,
                                Start start) {
  // Gloo works on contiguous memory; strides may differ between ranks.
  std::vector<at::Tensor> buffers{tensor.contiguous()};
  bool isCopy = !tensor.is_contiguous();
  auto work = launch(std::move(operation), termsOf(kind, tensor), [&] { return start(buffers); });
  if (work && isCopy)
    static_cast<GlooWork &>(**work).copyBack(tensor, buffers.front());
  return work;
}

bool GlooCommunicator::supports(const ReductionOp &reduction, c10::ScalarType type) const {
  return glooReducesAsAten(reduction, type);
}

llvm::Expected<std::unique_ptr<Work>>
GlooCommunicator::startAllReduce(at::Tensor &tensor, const ReductionOp &reduction, StringRef what) {
  c10d::AllreduceOptions options;
  options.reduceOp = toC10d(reduction);
  return launchInPlace(
      begin("all_reduce", what), "all_reduce", tensor,
      [&](std::vector<at::Tensor> &tensors) { return group->allreduce(tensors, options); });
}

llvm::Expected<std::unique_ptr<Work>> GlooCommunicator::startReduce(at::Tensor &tensor,
                                                                    const ReductionOp &reduction,
                                                                    int root, StringRef what) {
  if (llvm::Error error = checkPeer("reduce", root))
    return error;
  c10d::ReduceOptions options;
  options.reduceOp = toC10d(reduction);
  options.rootRank = root;
  return launchInPlace(
      begin("reduce", what), "reduce", tensor,
      [&](std::vector<at::Tensor> &tensors) { return group->reduce(tensors, options); });
}

llvm::Expected<std::unique_ptr<Work>> GlooCommunicator::startBroadcast(at::Tensor &tensor, int root,
                                                                       StringRef what) {
  if (llvm::Error error = checkPeer("broadcast", root))
    return error;
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return launchInPlace(
      begin("broadcast", what), "broadcast", tensor,
      [&](std::vector<at::Tensor> &tensors) { return group->broadcast(tensors, options); });
}

/// Equal parts of contiguous memory, one a rank.
static std::vector<at::Tensor> split(const at::Tensor &whole, int parts) {
  std::vector<at::Tensor> result;
  at::Tensor flat = whole.view({whole.numel()});
  int64_t size = whole.numel() / parts;
  for (int i = 0; i < parts; ++i)
    result.push_back(flat.narrow(0, i * size, size));
  return result;
}

llvm::Expected<std::unique_ptr<Work>>
GlooCommunicator::startAllGather(at::Tensor &output, const at::Tensor &input, StringRef what) {
  return launch(begin("all_gather", what), termsOf("all_gather", input), [&] {
    std::vector<std::vector<at::Tensor>> outputs{split(output, size())};
    std::vector<at::Tensor> inputs{input.view({input.numel()})};
    return group->allgather(outputs, inputs);
  });
}

llvm::Expected<std::unique_ptr<Work>> GlooCommunicator::startGather(at::Tensor &output,
                                                                    const at::Tensor &input,
                                                                    int root, StringRef what) {
  if (llvm::Error error = checkPeer("gather", root))
    return error;
  c10d::GatherOptions options;
  options.rootRank = root;
  return launch(begin("gather", what), termsOf("gather", input), [&] {
    std::vector<std::vector<at::Tensor>> outputs;
    if (rank() == root)
      outputs.push_back(split(output, size()));
    std::vector<at::Tensor> inputs{input.view({input.numel()})};
    return group->gather(outputs, inputs, options);
  });
}

llvm::Expected<std::unique_ptr<Work>> GlooCommunicator::startScatter(at::Tensor &output,
                                                                     const at::Tensor &input,
                                                                     int root, StringRef what) {
  if (llvm::Error error = checkPeer("scatter", root))
    return error;
  c10d::ScatterOptions options;
  options.rootRank = root;
  return launch(begin("scatter", what), termsOf("scatter", output), [&] {
    std::vector<std::vector<at::Tensor>> inputs;
    if (rank() == root)
      inputs.push_back(split(input, size()));
    std::vector<at::Tensor> outputs{output.view({output.numel()})};
    return group->scatter(outputs, inputs, options);
  });
}

llvm::Expected<std::unique_ptr<Work>>
GlooCommunicator::startAllToAll(at::Tensor &output, const at::Tensor &input,
                                llvm::ArrayRef<int64_t> outputSizes,
                                llvm::ArrayRef<int64_t> inputSizes, StringRef what) {
  // Parts of different sizes are their sender's and receiver's to agree on.
  std::optional<Terms> terms;
  if (llvm::all_equal(outputSizes) && llvm::all_equal(inputSizes))
    terms = termsOf("all_to_all", input);
  return launch(begin("all_to_all", what), terms, [&] {
    std::vector<int64_t> receives = outputSizes.vec(), sends = inputSizes.vec();
    at::Tensor from = input;
    return group->alltoall_base(output, from, receives, sends);
  });
}

llvm::Error GlooCommunicator::barrier(StringRef what) {
  // A sum of one number: Gloo's own barrier waits for each rank in turn and cannot be observed.
  std::vector<at::Tensor> one{at::ones({1}, at::kInt)};
  auto work = launch(begin("barrier", what), std::nullopt, [&] { return group->allreduce(one); });
  return work ? (*work)->wait() : work.takeError();
}

llvm::Error GlooCommunicator::checkExchange(StringRef operation, const at::Tensor &tensor, int peer,
                                            int tag, StringRef what) const {
  if (llvm::Error error = checkPeer(operation, peer))
    return error;
  auto refuse = [&](const char *reason) {
    return llvm::createStringError("%s of %s: %s", operation.str().c_str(), what.str().c_str(),
                                   reason);
  };
  if (peer == rank())
    return refuse("a rank cannot exchange with itself");
  if (tag < 0)
    return refuse("the tag is negative");
  if (!tensor.is_contiguous())
    return refuse("the tensor is not contiguous");
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<Work>> GlooCommunicator::startExchange(bool sends,
                                                                      const at::Tensor &tensor,
                                                                      int peer, int tag,
                                                                      StringRef what) {
  StringRef kind = sends ? "send" : "receive";
  if (llvm::Error error = checkExchange(kind, tensor, peer, tag, what))
    return error;
  Operation operation{(kind + " of " + what + (sends ? " to rank " : " from rank ")).str() +
                          std::to_string(members()[peer]) + ", tag " + std::to_string(tag) + ",",
                      started};
  operation.peer = peer;
  if (world->monitor->hasLoss())
    return diagnose(operation, "", timeout());
  try {
    std::vector<at::Tensor> tensors{tensor};
    return std::make_unique<PointToPointWork>(*this, operation,
                                              sends ? group->send(tensors, peer, tag)
                                                    : group->recv(tensors, peer, tag));
  } catch (...) {
    return diagnoseStart(operation, describeException());
  }
}

llvm::Expected<std::unique_ptr<Work>>
GlooCommunicator::startSend(const at::Tensor &tensor, int peer, int tag, StringRef what) {
  return startExchange(true, tensor, peer, tag, what);
}

llvm::Expected<std::unique_ptr<Work>> GlooCommunicator::startReceive(at::Tensor &tensor, int peer,
                                                                     int tag, StringRef what) {
  return startExchange(false, tensor, peer, tag, what);
}

llvm::Expected<std::vector<std::string>> GlooCommunicator::allGatherBytes(StringRef bytes,
                                                                          StringRef what) {
  return gatherPadded(*this, bytes, what);
}
