//===- Rendezvous.h - How the ranks of a job find each other ----*- C++ -*-===//
//
// What a rank must know to join the others, however it was started. The launcher fills it in
// (runtime/launch), `connect` uses it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_RENDEZVOUS_H
#define CLEAVE_RUNTIME_COMM_RENDEZVOUS_H

#include "runtime/comm/Communicator.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cleave::runtime {

/// Key-value store that ranks living in one process share, instead of one behind a TCP port.
/// Opaque, since LibTorch's type is hidden.
class InProcessStore;
std::shared_ptr<InProcessStore> makeInProcessStore();

struct Rendezvous {
  int rank = 0;
  int size = 1;
  /// The variables in which the launcher said the two, for messages; empty if no one else could
  /// have said something different.
  std::string rankName, sizeName;
  /// Where the key-value store listens.
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  /// Rank 0 serves the store, unless the launcher does (torchrun's agent).
  bool launcherHasStore = false;
  /// A socket already listening on `port`, for rank 0 to serve the store on; -1: bind `port`.
  int listeningSocket = -1;
  /// Keys of the job in a store shared with others, or with its own earlier attempts.
  std::string keyPrefix = "cleave";
  /// All ranks are on this machine: no other interface than the loopback is opened.
  bool oneMachine = false;
  /// Set where ranks are threads of this process; host and port are then unused.
  std::shared_ptr<InProcessStore> inProcess;
};

/// Seconds that an operation may take before its rank gives up, where the user does not say.
inline constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::seconds(300);

struct ConnectOptions {
  /// Bounds the joining and, from then on, every operation.
  std::chrono::milliseconds timeout = kDefaultTimeout;
  /// Where not 0: when a peer is lost and this process has not ended `lossGrace` (at most
  /// `timeout`) later, it ends itself with this status. Otherwise a rank in an endless loop, or in
  /// a long computation between two operations, would outlive its job. Not for ranks that are
  /// threads.
  int lossExitStatus = 0;
  std::chrono::milliseconds lossGrace = std::chrono::seconds(5);
  /// Calls this with the message before it ends, if set.
  std::function<void(const std::string &)> reportLoss;
};

/// Joins the job, over Gloo; a job of one rank touches no socket. Errors name the ranks that did
/// not appear, or that were told another number of ranks. From then on the process ignores SIGPIPE.
/// The environment variable GLOO_SOCKET_IFNAME selects the network interface.
llvm::Expected<std::unique_ptr<Communicator>> connect(const Rendezvous &rendezvous,
                                                      const ConnectOptions &options = {});

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_RENDEZVOUS_H
