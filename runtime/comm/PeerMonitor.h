//===- PeerMonitor.h - Which rank is lost, which is late --------*- C++ -*-===//
//
// A collective that fails says "connection closed" or "timed out", never which rank is to blame.
// The monitor knows: every rank holds one TCP connection to rank 0, besides the data connections.
// The kernel closes it when a process dies, however it dies, and rank 0 tells all others within
// milliseconds. A rank that must report a timeout asks all ranks where they are; who is behind, or
// does not respond (a stopped process), is named. Nothing is sent while all goes well.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_PEERMONITOR_H
#define CLEAVE_RUNTIME_COMM_PEERMONITOR_H

#include "runtime/comm/PeerFrames.h"
#include "runtime/comm/Socket.h"

#include "llvm/ADT/ArrayRef.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace cleave::runtime {

/// Instead of a group's name in a question: the send or receive that a rank waits for, or else the
/// operation that it started last in any group. It is answered after the group's name and a line
/// break; a send or receive has no group, and another line break and its peer behind it.
inline constexpr const char *kAnyGroup = "";

class PeerMonitor {
public:
  /// Rank 0's end. `hosts` are names under which other machines may know this one.
  static llvm::Expected<std::unique_ptr<PeerMonitor>> host(int size, bool loopbackOnly,
                                                           std::vector<std::string> hosts);
  /// Another rank's end; `endpoint` is what rank 0's `endpoint()` gave.
  static llvm::Expected<std::unique_ptr<PeerMonitor>>
  join(int rank, int size, llvm::StringRef endpoint, Clock::time_point deadline);

  /// Leaving without `leave` tells the others that this rank is lost.
  ~PeerMonitor();

  /// How the others reach rank 0's monitor: one line of text.
  const std::string &endpoint() const { return endpointLine; }

  /// Waits until every rank has joined; false if a rank is lost or the time is over before.
  bool waitForAll(Clock::time_point deadline);

  /// Notes that this rank starts the `number`th operation (from 1) of `group`.
  void setPosition(llvm::StringRef group, uint64_t number, llvm::StringRef operation);

  /// Notes that this rank waits for a send or receive with rank `peer` of the world, until
  /// `endExchange` of what this gives.
  uint64_t beginExchange(llvm::StringRef operation, int peer);
  void endExchange(uint64_t exchange);

  /// Asks every rank where it is in `group`, or kAnyGroup; by world rank. Takes `patience` at most.
  std::vector<PeerPosition> askPositions(llvm::StringRef group, std::chrono::milliseconds patience);

  /// Calls `handler`, once, on the monitor's thread when a peer is lost.
  void onLoss(std::function<void()> handler);
  bool hasLoss() const { return lossKnown.load(std::memory_order_acquire); }
  std::optional<PeerLoss> loss();
  /// Like `loss`, giving news that is on its way some time to arrive.
  std::optional<PeerLoss> waitForLoss(std::chrono::milliseconds patience);

  /// Ends the process by `end`, on the monitor's thread, `grace` after a loss.
  void endAfterLoss(std::chrono::milliseconds grace, std::function<void(const PeerLoss &)> end);

  /// Tells the others why this rank stops, and which ranks it holds responsible.
  void fail(llvm::StringRef reason, llvm::ArrayRef<int> blamed = {});
  /// Tells the others that this rank has finished.
  void leave();

private:
  struct Connection {
    FileDescriptor socket;
    std::string received;
  };
  struct Question {
    std::vector<PeerPosition> answers;
    int missing = 0;
  };
  struct Started {
    uint64_t number = 0;
    std::string operation;
  };

  PeerMonitor(int rank, int size);
  llvm::Error start();
  void run();
  bool isHub() const { return rank == 0; }
  void takeFrames(int peer, Connection &connection);
  bool takeFrame(int peer, llvm::StringRef frame);
  void acceptNewcomers();
  bool greet(Connection &connection);
  void welcome(int peer, Connection connection);
  void passOnQuestion(int asker, llvm::StringRef payload);
  PeerPosition ownPosition(llvm::StringRef group);
  PeerPosition positionOfAbsent(int peer);
  void recordAnswer(int from, llvm::StringRef payload);
  void recordLoss(PeerLoss lost);
  void connectionBroke(int peer);
  bool sendFrame(int peer, PeerFrame kind, uint32_t from, uint32_t to, llvm::StringRef payload);
  void wake();

  int rank, size;
  uint64_t token = 0;
  std::string endpointLine;
  FileDescriptor listener, wakeEvent;
  /// By peer's rank: on rank 0 every other rank that has joined, elsewhere rank 0 alone.
  std::map<int, Connection> connections;
  /// Connections that have not said yet who they are (rank 0).
  std::vector<Connection> newcomers;

  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false, everyoneHere = false, leaving = false;
  std::vector<bool> joined, left;
  std::optional<PeerLoss> firstLoss;
  std::atomic<bool> lossKnown{false};
  std::function<void()> lossHandler;
  std::function<void(const PeerLoss &)> endProcess;
  std::chrono::milliseconds endGrace{0};
  Clock::time_point lossTime;
  std::map<std::string, Started, std::less<>> positions;
  /// The group whose position changed last.
  std::string lastGroup;
  struct Exchange {
    std::string operation;
    int peer = -1;
  };
  /// Sends and receives that threads of this rank wait for, in the order in which they began to.
  std::map<uint64_t, Exchange> exchanges;
  uint64_t nextExchange = 0;
  std::map<uint64_t, Question> questions;
  uint64_t nextQuestion = 0;
  /// Held while writing to a connection, and while the map of connections changes.
  std::mutex sendMutex;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_PEERMONITOR_H
