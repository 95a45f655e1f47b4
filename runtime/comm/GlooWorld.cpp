//===- GlooWorld.cpp - Joining a job over c10d's stores and Gloo ----------===//
//
// Process groups and stores are LibTorch's; what they throw becomes an llvm::Error here and in
// GlooCommunicator.cpp.
//
//===----------------------------------------------------------------------===//

#include "GlooWorld.h"

#include "runtime/comm/C10dHelpers.h"
#include "runtime/comm/Failure.h"

#include "llvm/ADT/SmallVector.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>

#include <unistd.h>

using namespace cleave::runtime;
using llvm::StringRef;
using std::chrono::milliseconds;

C10_DECLARE_int(caffe2_log_level);

class cleave::runtime::InProcessStore {
public:
  c10::intrusive_ptr<c10d::HashStore> store = c10::make_intrusive<c10d::HashStore>();
};

/// c10d's flight recorder takes a stack trace per operation, and ranks that are threads race in it.
/// It is not needed: the peer monitor knows what each rank does.
static void disableFlightRecorder(bool evenIfAsked) {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", evenIfAsked);
}

std::shared_ptr<InProcessStore> cleave::runtime::makeInProcessStore() {
  // Here, where the ranks' threads do not exist yet.
  disableFlightRecorder(true);
  return std::make_shared<InProcessStore>();
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> World::makeGroup(const std::string &key, int groupRank,
                                                            int groupSize) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices = devices;
  auto groupStore = c10::make_intrusive<c10d::PrefixStore>(key, store);
  return c10::make_intrusive<c10d::ProcessGroupGloo>(groupStore, groupRank, groupSize, options);
}

static double seconds(milliseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

/// The error of a rank that waited for the others to join, in vain.
static llvm::Error describeJoinFailure(PeerMonitor &monitor, const Rendezvous &rendezvous,
                                       milliseconds timeout) {
  if (std::optional<PeerLoss> loss = monitor.loss())
    return llvm::make_error<PeerFailure>("rank " + std::to_string(loss->rank) +
                                             " was lost while the ranks joined: " + loss->reason,
                                         std::vector{loss->rank});
  std::vector<PeerPosition> positions = monitor.askPositions(kWorldName, milliseconds(1000));
  std::vector<int> missing;
  for (int rank = 0; rank < rendezvous.size; ++rank)
    if (positions[rank].state == PeerPosition::State::NotJoined)
      missing.push_back(rank);
  // No rank has an answer if rank 0, which knows, is stopped.
  if (missing.empty())
    missing.push_back(0);
  return llvm::make_error<PeerFailure>(
      describeRanks(missing) + " of " + std::to_string(rendezvous.size) + " did not join within " +
          describeSeconds(seconds(timeout)),
      missing);
}

/// A client of the store. c10d waits without an end for the answer of who has the port, so it waits
/// in a thread, which is abandoned if there is no answer: the process must then end by _exit.
static llvm::Expected<c10::intrusive_ptr<c10d::Store>>
joinStore(const Rendezvous &rendezvous, const c10d::TCPStoreOptions &options, milliseconds timeout,
          Clock::time_point deadline) {
  using StorePointer = c10::intrusive_ptr<c10d::Store>;
  std::packaged_task<StorePointer()> join([host = rendezvous.host, options]() -> StorePointer {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  });
  std::future<StorePointer> joined = join.get_future();
  std::thread(std::move(join)).detach();
  // c10d's own timeout, where it holds, says more.
  if (joined.wait_until(deadline + milliseconds(500)) == std::future_status::ready)
    return joined.get();
  return llvm::make_error<PeerFailure>(
      rendezvous.host + ":" + std::to_string(rendezvous.port) +
          " accepts connections but did not respond as the ranks' rendezvous within " +
          describeSeconds(seconds(timeout)) + ": another program may be using the port",
      std::vector<int>{});
}

/// The store that all ranks share. Throws what c10d throws.
static llvm::Expected<c10::intrusive_ptr<c10d::Store>>
openStore(const Rendezvous &rendezvous, milliseconds timeout, Clock::time_point deadline) {
  if (rendezvous.inProcess)
    return rendezvous.inProcess->store;
  c10d::TCPStoreOptions options;
  options.port = rendezvous.port;
  options.waitWorkers = false;
  options.multiTenant = true;
  options.isServer = rendezvous.rank == 0 && !rendezvous.launcherHasStore;
  if (options.isServer) {
    FileDescriptor socket(rendezvous.listeningSocket);
    if (!socket) {
      llvm::Expected<FileDescriptor> bound = listenOn(rendezvous.port, rendezvous.oneMachine);
      if (!bound)
        return llvm::createStringError("rank 0 cannot serve the rendezvous: %s",
                                       llvm::toString(bound.takeError()).c_str());
      socket = std::move(*bound);
    }
    options.masterListenFd = socket.release();
  } else {
    // c10d would report a server that is not there at length, and only at the end of its timeout.
    llvm::Expected<FileDescriptor> probe = connectTo(rendezvous.host, rendezvous.port, deadline);
    if (!probe)
      return llvm::make_error<PeerFailure>(
          "the rendezvous, which " +
              std::string(rendezvous.launcherHasStore ? "the launcher" : "rank 0") +
              " serves, is unreachable: " + llvm::toString(probe.takeError()),
          rendezvous.launcherHasStore ? std::vector<int>{} : std::vector{0});
  }
  auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  options.timeout = std::max(left, milliseconds(100));
  if (options.isServer)
    return c10::make_intrusive<c10d::TCPStore>(rendezvous.host, options);
  return joinStore(rendezvous, options, timeout, deadline);
}

/// The names under which other machines may reach rank 0's monitor.
static std::vector<std::string> ownHosts(const Rendezvous &rendezvous) {
  if (rendezvous.oneMachine || rendezvous.inProcess)
    return {"127.0.0.1"};
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) || !*name || rendezvous.host == name)
    return {rendezvous.host};
  return {rendezvous.host, name};
}

static std::vector<std::shared_ptr<::gloo::transport::Device>>
openDevices(const Rendezvous &rendezvous) {
  std::vector<std::shared_ptr<::gloo::transport::Device>> devices;
  const char *interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (interfaces && *interfaces) {
    llvm::SmallVector<StringRef> names;
    StringRef(interfaces).split(names, ',');
    for (StringRef name : names)
      devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(name.str()));
  } else if (rendezvous.oneMachine || rendezvous.inProcess) {
    devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  } else {
    devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  }
  return devices;
}

static llvm::Expected<std::unique_ptr<PeerMonitor>>
openMonitor(const Rendezvous &rendezvous, c10d::Store &store, Clock::time_point deadline) {
  const std::string key = rendezvous.keyPrefix + "/monitor";
  if (rendezvous.rank == 0) {
    auto monitor = PeerMonitor::host(rendezvous.size, rendezvous.oneMachine || rendezvous.inProcess,
                                     ownHosts(rendezvous));
    if (monitor)
      store.set(key, (*monitor)->endpoint());
    return monitor;
  }
  try {
    auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    store.wait({key}, std::max(left, milliseconds(1)));
  } catch (...) {
    return llvm::make_error<PeerFailure>("rank 0 did not join in time", std::vector{0});
  }
  return PeerMonitor::join(rendezvous.rank, rendezvous.size, store.get_to_str(key), deadline);
}

static constexpr char kRefused[] = "/refused";

/// Each rank is one process, and all were told the same number of ranks. Throws what c10d throws.
static llvm::Error checkMembership(const Rendezvous &rendezvous, c10d::Store &store) {
  if (rendezvous.sizeName.empty())
    return llvm::Error::success();
  std::string size = std::to_string(rendezvous.size), rank = std::to_string(rendezvous.rank);
  std::string first = store.compareSet("/size", "", size), text;
  if (first != size)
    text = rendezvous.sizeName + "=" + size + " on rank " + rank + ", but " + first +
           " on the one that joined first: expected the same number on all ranks";
  else if (store.add("/rank/" + rank, 1) > 1)
    text = rendezvous.rankName + "=" + rank +
           " in two processes: expected a different number in each, from 0 to " +
           std::to_string(rendezvous.size - 1);
  if (text.empty())
    return llvm::Error::success();
  // Rank 0 ends with it, and by that all.
  store.set(kRefused, text);
  return llvm::createStringError("%s", text.c_str());
}

/// Waits until all ranks have joined: false if they do not, or an error that one of them left.
static llvm::Expected<bool> waitForRanks(const Rendezvous &rendezvous, PeerMonitor &monitor,
                                         c10d::Store &store, Clock::time_point deadline) {
  bool looks = rendezvous.rank == 0 && !rendezvous.sizeName.empty();
  while (true) {
    Clock::time_point until =
        looks ? std::min(deadline, Clock::now() + milliseconds(250)) : deadline;
    if (monitor.waitForAll(until))
      return true;
    if (looks && store.check({kRefused}))
      return llvm::createStringError("%s", store.get_to_str(kRefused).c_str());
    if (monitor.loss() || Clock::now() >= deadline)
      return false;
  }
}

llvm::Expected<std::unique_ptr<Communicator>>
cleave::runtime::connect(const Rendezvous &rendezvous, const ConnectOptions &options) {
  if (rendezvous.size == 1)
    return makeSingleRankCommunicator();
  // c10d logs what it also throws; the user gets one message.
  if (!std::getenv("TORCH_CPP_LOG_LEVEL"))
    FLAGS_caffe2_log_level = 3;
  if (!rendezvous.inProcess)
    disableFlightRecorder(false);
  // Gloo writes to connections whose other end may be gone; that is an error, not the end.
  std::signal(SIGPIPE, SIG_IGN);
  Clock::time_point deadline = Clock::now() + options.timeout;
  auto world = std::make_shared<World>();
  world->rank = rendezvous.rank;
  world->size = rendezvous.size;
  world->timeout = options.timeout;
  try {
    auto store = openStore(rendezvous, options.timeout, deadline);
    if (!store)
      return store.takeError();
    world->store = c10::make_intrusive<c10d::PrefixStore>(rendezvous.keyPrefix, *store);
    if (llvm::Error error = checkMembership(rendezvous, *world->store))
      return error;
    auto monitor = openMonitor(rendezvous, *world->store, deadline);
    if (!monitor)
      return monitor.takeError();
    world->monitor = std::move(*monitor);
    world->monitor->onLoss([world = world.get()] { world->interrupt(); });
    if (options.lossExitStatus)
      world->monitor->endAfterLoss(
          std::min(options.lossGrace, options.timeout), [options](const PeerLoss &loss) {
            if (options.reportLoss)
              options.reportLoss("rank " + std::to_string(loss.rank) + " is lost: " + loss.reason +
                                 "; this rank was busy and is terminated");
            ::_exit(options.lossExitStatus);
          });
    auto joined = waitForRanks(rendezvous, *world->monitor, *world->store, deadline);
    if (!joined) {
      std::string reason = llvm::toString(joined.takeError());
      world->monitor->fail(reason);
      return llvm::createStringError("%s", reason.c_str());
    }
    if (!*joined) {
      llvm::Error error = describeJoinFailure(*world->monitor, rendezvous, options.timeout);
      return error;
    }
    world->devices = openDevices(rendezvous);
    auto group = world->makeGroup(kWorldName, rendezvous.rank, rendezvous.size);
    return makeGlooCommunicator(std::move(world), std::move(group));
  } catch (...) {
    std::string cause = describeException();
    std::optional<PeerLoss> loss =
        world->monitor ? world->monitor->waitForLoss(milliseconds(500)) : std::nullopt;
    if (loss)
      return describeJoinFailure(*world->monitor, rendezvous, options.timeout);
    return llvm::createStringError("rank %d of %d cannot join the others: %s", rendezvous.rank,
                                   rendezvous.size, cause.c_str());
  }
}
