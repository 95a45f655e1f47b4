//===- GlooCommunicator.cpp - Ranks over c10d's Gloo backend --------------===//

#include "GlooWorld.h"

#include "runtime/comm/Diagnosis.h"

#include "llvm/ADT/STLExtras.h"

#include <ATen/ATen.h>

#include <map>
#include <numeric>

using namespace cleave::runtime;
using llvm::StringRef;
using std::chrono::milliseconds;

namespace {

class GlooCommunicator final : public Communicator {
public:
  GlooCommunicator(std::shared_ptr<World> world, int rank, std::vector<int> members,
                   std::string name, std::string path,
                   c10::intrusive_ptr<c10d::ProcessGroupGloo> group)
      : Communicator(rank, std::move(members), std::move(name), world->timeout),
        world(std::move(world)), path(std::move(path)), group(std::move(group)) {}
  ~GlooCommunicator() override;

  llvm::Expected<std::unique_ptr<Work>> startAllReduce(at::Tensor &tensor, Reduction reduction,
                                                       StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startBroadcast(at::Tensor &tensor, int root,
                                                       StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startSend(const at::Tensor &tensor, int peer, int tag,
                                                  StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startReceive(at::Tensor &tensor, int peer, int tag,
                                                     StringRef what) override;
  llvm::Expected<std::vector<std::string>> allGatherBytes(StringRef bytes, StringRef what) override;
  llvm::Error barrier(StringRef what) override;
  llvm::Expected<std::unique_ptr<Communicator>> subgroup(llvm::ArrayRef<int> ranks,
                                                         StringRef name) override;
  llvm::Error checkPeers() override;
  void abort(StringRef reason) override;
  llvm::Error finish() override;

  /// The error of `operation`, which Gloo ended with `cause` (empty: it did not end in time).
  llvm::Error diagnose(const Operation &operation, StringRef cause, milliseconds limit);
  World &shared() { return *world; }

private:
  bool isWorld() const { return path == kWorldName; }
  Operation begin(StringRef kind, StringRef what);
  template <typename Start>
  llvm::Expected<std::unique_ptr<Work>> launch(Operation operation, at::Tensor result, Start start);
  llvm::Error checkExchange(StringRef operation, const at::Tensor &tensor, int peer, int tag,
                            StringRef what) const;
  llvm::Expected<std::unique_ptr<Work>> startExchange(bool sends, const at::Tensor &tensor,
                                                      int peer, int tag, StringRef what);
  llvm::Expected<std::vector<at::Tensor>> gather(at::Tensor mine, StringRef what);

  std::shared_ptr<World> world;
  /// The group's key: the world's name, or the path of the parent and then its own.
  std::string path;
  std::map<std::string, int> subgroups;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  uint64_t started = 0;
  /// An operation failed, or the ranks left in good order.
  bool broken = false, finished = false;
  /// The ranks that this one found missing.
  std::vector<int> blamed;
};

class GlooWork final : public Work {
public:
  GlooWork(GlooCommunicator &owner, Operation operation, c10::intrusive_ptr<c10d::Work> work,
           at::Tensor result, at::Tensor buffer)
      : owner(owner), operation(std::move(operation)), work(std::move(work)),
        result(std::move(result)), buffer(std::move(buffer)) {}

  /// Learns of the completion, where this kind of work can tell.
  void watch() {
    work->getFuture()->addCallback(
        [world = &owner.shared(), done = completed](c10::ivalue::Future &) {
          done->store(true, std::memory_order_release);
          world->notify();
        });
  }

  bool isDone() override {
    return finished || completed->load(std::memory_order_acquire) || work->isCompleted();
  }

  llvm::Error wait(std::optional<milliseconds> timeout) override {
    if (finished)
      return llvm::Error::success();
    milliseconds limit = timeout.value_or(owner.timeout());
    World &world = owner.shared();
    {
      std::unique_lock lock(world.mutex);
      world.wake.wait_until(lock, operation.start + limit, [&] {
        return completed->load(std::memory_order_acquire) || world.monitor->hasLoss();
      });
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
  GlooCommunicator &owner;
  Operation operation;
  c10::intrusive_ptr<c10d::Work> work;
  /// Where `buffer` is defined, the operation works on it and `result` receives it at the end.
  at::Tensor result, buffer;
  std::shared_ptr<std::atomic<bool>> completed = std::make_shared<std::atomic<bool>>(false);
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
    if (owner.shared().monitor->hasLoss())
      return owner.diagnose(operation, "", limit);
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

//===----------------------------------------------------------------------===//
// Failure
//===----------------------------------------------------------------------===//

llvm::Error GlooCommunicator::diagnose(const Operation &operation, StringRef cause,
                                       milliseconds limit) {
  broken = true;
  GroupView view{name(), path, rank(), members()};
  return cleave::runtime::diagnose(*world->monitor, view, operation, cause, limit, blamed);
}

llvm::Error GlooCommunicator::checkPeers() {
  if (!world->monitor->hasLoss())
    return llvm::Error::success();
  broken = true;
  return lossError(*world->monitor->loss(), "", blamed);
}

void GlooCommunicator::abort(StringRef reason) {
  broken = true;
  world->monitor->fail(reason, blamed);
}

llvm::Error GlooCommunicator::finish() {
  if (llvm::Error error = barrier("the end of the program"))
    return error;
  if (isWorld())
    world->monitor->leave();
  finished = true;
  return llvm::Error::success();
}

GlooCommunicator::~GlooCommunicator() {
  if (isWorld() && !finished) {
    broken = true;
    world->monitor->fail("it ended before the program did", blamed);
  }
  // Gloo's threads stay with an operation that cannot complete until its timeout. Whoever reports
  // the failure need not wait for them.
  if (broken || world->monitor->hasLoss())
    std::thread([world = std::move(world), group = std::move(group)]() mutable {
      group.reset();
      world.reset();
    }).detach();
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

Operation GlooCommunicator::begin(StringRef kind, StringRef what) {
  Operation operation{what.empty() ? kind.str() : (kind + " of " + what).str(), ++started};
  world->monitor->setPosition(path, operation.number, operation.text);
  return operation;
}

template <typename Start>
llvm::Expected<std::unique_ptr<Work>> GlooCommunicator::launch(Operation operation,
                                                               at::Tensor result, Start start) {
  if (world->monitor->hasLoss())
    return diagnose(operation, "", timeout());
  try {
    // Gloo works on contiguous memory; strides may differ between ranks.
    at::Tensor buffer;
    if (!result.is_contiguous())
      buffer = result.contiguous();
    std::vector<at::Tensor> tensors{buffer.defined() ? buffer : result};
    auto work = std::make_unique<GlooWork>(*this, operation, start(tensors), result, buffer);
    work->watch();
    return work;
  } catch (...) {
    return llvm::createStringError(operation.text + ": " + describeException());
  }
}

llvm::Expected<std::unique_ptr<Work>>
GlooCommunicator::startAllReduce(at::Tensor &tensor, Reduction reduction, StringRef what) {
  c10d::AllreduceOptions options;
  switch (reduction) {
  case Reduction::Sum:
    options.reduceOp = c10d::ReduceOp::SUM;
    break;
  case Reduction::Max:
    options.reduceOp = c10d::ReduceOp::MAX;
    break;
  case Reduction::Min:
    options.reduceOp = c10d::ReduceOp::MIN;
    break;
  case Reduction::Product:
    options.reduceOp = c10d::ReduceOp::PRODUCT;
    break;
  }
  return launch(begin("all_reduce", what), tensor, [&](std::vector<at::Tensor> &tensors) {
    return group->allreduce(tensors, options);
  });
}

llvm::Expected<std::unique_ptr<Work>> GlooCommunicator::startBroadcast(at::Tensor &tensor, int root,
                                                                       StringRef what) {
  if (llvm::Error error = checkPeer("broadcast", root))
    return error;
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return launch(begin("broadcast", what), tensor, [&](std::vector<at::Tensor> &tensors) {
    return group->broadcast(tensors, options);
  });
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
    return llvm::createStringError(operation.text + " " + describeException());
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

llvm::Expected<std::vector<at::Tensor>> GlooCommunicator::gather(at::Tensor mine, StringRef what) {
  std::vector<std::vector<at::Tensor>> all(1);
  for (int each = 0; each < size(); ++each)
    all[0].push_back(at::empty_like(mine));
  auto work = launch(begin("all_gather", what), mine, [&](std::vector<at::Tensor> &tensors) {
    return group->allgather(all, tensors);
  });
  if (!work)
    return work.takeError();
  if (llvm::Error error = (*work)->wait())
    return error;
  return all[0];
}

llvm::Expected<std::vector<std::string>> GlooCommunicator::allGatherBytes(StringRef bytes,
                                                                          StringRef what) {
  // Gloo gathers equal sizes only: the lengths first, then the bytes padded to the longest.
  auto lengths = gather(at::full({1}, int64_t(bytes.size()), at::kLong), what);
  if (!lengths)
    return lengths.takeError();
  int64_t longest = 1;
  for (at::Tensor &length : *lengths)
    longest = std::max(longest, length.item<int64_t>());
  at::Tensor padded = at::zeros({longest}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), padded.data_ptr<uint8_t>());
  auto gathered = gather(padded, what);
  if (!gathered)
    return gathered.takeError();
  std::vector<std::string> result;
  for (auto [tensor, length] : llvm::zip(*gathered, *lengths))
    result.emplace_back(reinterpret_cast<const char *>(tensor.template data_ptr<uint8_t>()),
                        length.template item<int64_t>());
  return result;
}

llvm::Error GlooCommunicator::barrier(StringRef what) {
  // A sum of one number: Gloo's own barrier waits for each rank in turn and cannot be observed.
  at::Tensor one = at::ones({1}, at::kInt);
  auto work = launch(begin("barrier", what), one,
                     [&](std::vector<at::Tensor> &tensors) { return group->allreduce(tensors); });
  return work ? (*work)->wait() : work.takeError();
}

llvm::Expected<std::unique_ptr<Communicator>> GlooCommunicator::subgroup(llvm::ArrayRef<int> ranks,
                                                                         StringRef subgroupName) {
  if (llvm::Error error = checkSubgroup(ranks, subgroupName))
    return error;
  std::vector<int> worldRanks;
  for (int each : ranks)
    worldRanks.push_back(members()[each]);
  // The first member's rank keeps groups of one name on disjoint ranks apart; the count, groups
  // made one after the other.
  std::string groupPath = path + "/" + subgroupName.str() + "." + std::to_string(worldRanks[0]);
  groupPath += "." + std::to_string(subgroups[groupPath]++);
  int place = static_cast<int>(llvm::find(ranks, rank()) - ranks.begin());
  Operation operation{"making group \"" + subgroupName.str() + "\"", 1};
  world->monitor->setPosition(groupPath, 1, operation.text);
  try {
    auto made = world->makeGroup(groupPath, place, worldRanks.size());
    return std::make_unique<GlooCommunicator>(world, place, std::move(worldRanks),
                                              subgroupName.str(), groupPath, std::move(made));
  } catch (...) {
    return diagnose(operation, describeException(), timeout());
  }
}

std::unique_ptr<Communicator>
cleave::runtime::makeGlooCommunicator(std::shared_ptr<World> world,
                                      c10::intrusive_ptr<c10d::ProcessGroupGloo> group) {
  std::vector<int> members(world->size);
  std::iota(members.begin(), members.end(), 0);
  int rank = world->rank;
  return std::make_unique<GlooCommunicator>(std::move(world), rank, std::move(members), kWorldName,
                                            kWorldName, std::move(group));
}
