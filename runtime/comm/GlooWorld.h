//===- GlooWorld.h - What the Gloo communicators of a job share -*- C++ -*-===//
//
// Private to the two files that include c10d, GlooWorld.cpp and GlooCommunicator.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_GLOOWORLD_H
#define CLEAVE_RUNTIME_COMM_GLOOWORLD_H

#include "runtime/comm/PeerMonitor.h"
#include "runtime/comm/Rendezvous.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <set>

namespace cleave::runtime {

inline constexpr const char *kWorldName = "world";

/// What a world's communicator and its subgroups share.
struct World {
  int rank, size;
  std::chrono::milliseconds timeout;
  c10::intrusive_ptr<c10d::Store> store;
  std::vector<std::shared_ptr<::gloo::transport::Device>> devices;
  // Wakes waiters when the operation completes or a peer is lost.
  std::mutex mutex;
  std::condition_variable wake;
  /// Operations whose wait must be aborted when a peer is lost.
  std::set<c10d::Work *> interruptible;
  std::unique_ptr<PeerMonitor> monitor;

  void notify() {
    std::lock_guard lock(mutex);
    wake.notify_all();
  }
  void interrupt() {
    std::lock_guard lock(mutex);
    for (c10d::Work *work : interruptible)
      work->abort();
    wake.notify_all();
  }

  /// A Gloo group of `groupSize` ranks, of which this is number `groupRank`. `key` is the same on
  /// them, and unused so far. Throws.
  c10::intrusive_ptr<c10d::ProcessGroupGloo> makeGroup(const std::string &key, int groupRank,
                                                       int groupSize);
};

/// The world's communicator, once its Gloo group is connected.
std::unique_ptr<Communicator>
makeGlooCommunicator(std::shared_ptr<World> world,
                     c10::intrusive_ptr<c10d::ProcessGroupGloo> group);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_GLOOWORLD_H
