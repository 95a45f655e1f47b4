// Rendezvous between the ranks of one process, under NCCL's order of execution or Gloo's matching:
// what StrictBackend is built on. Knows no tensors.
//
// Nothing is buffered: an operation is complete only when its counterparts run, too. Because every
// completion happens while some rank starts something, "all ranks that have not ended wait" is
// proof of a deadlock, found the moment it arises; no clock is involved.

#ifndef CLEAVE_TEST_UNIT_LIB_SCHEDULE_STRICT_FABRIC_H
#define CLEAVE_TEST_UNIT_LIB_SCHEDULE_STRICT_FABRIC_H

#include "lib/schedule/model/CommModel.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace cleave::strict {

using schedule::Matching;
using schedule::StreamSharing;

/// Thrown in every rank that waits when nothing can happen any more; `what()` is the report.
struct Stuck : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Role : uint8_t { Send, Recv, Collective };

struct Communicator;
struct Entry;

/// One end of a transfer, or one rank's part of a collective.
struct Side {
  Role role = Role::Send;
  Communicator *comm = nullptr;
  unsigned rank = 0, peer = 0; // of the whole world
  int64_t tag = 0;
  std::string what; // "send", "allreduce(sum)": parts of one collective must agree on it
  size_t bytes = 0; // ends must agree on it
  std::shared_ptr<void> data;
  Entry *entry = nullptr;
  bool met = false;
};

/// What a rank started together: complete when all sides have met their counterparts, as a fused
/// kernel is.
struct Entry {
  unsigned rank = 0;
  uint64_t number = 0; // of this rank's starts
  size_t position = 0; // where the rank was, from Fabric::setPosition
  std::vector<Side> sides;
  std::vector<unsigned> streams;
  unsigned pendingHeads = 0, pendingSides = 0;
  bool running = false, complete = false;
  unsigned awaited = 0; // how many of the works that the rank waits for it stands for
  std::string error;    // of the transfer, for the waiter
};

/// How a communicator orders and matches.
struct CommOptions {
  Matching matching = Matching::Fifo;
  StreamSharing streams = StreamSharing::Direction;
  /// Transfers take lane `tag mod lanes`, each a pair of streams and a channel of its own.
  unsigned lanes = 1;
  /// Communicators of one scope share their streams on a rank; empty: the communicator's name.
  std::string streamScope;
};

/// A set of ranks with its queues of operations that run and wait for their counterparts.
struct Communicator {
  std::string name;
  std::vector<unsigned> members; // world ranks; a rank's number here is its place
  CommOptions options;
  struct Channel {
    std::deque<Side *> sends, recvs;
  };
  std::map<std::tuple<unsigned, unsigned, int64_t>, Channel> channels; // from, to, lane or tag
  std::map<unsigned, std::deque<Side *>> collectives;                  // by rank, in order
};

class Fabric {
public:
  /// Moves the data of sides that met (a send and a receive; the parts of a collective, in the
  /// order of the communicator's ranks). What it throws, every wait for them throws.
  using Deliver = std::function<void(const std::vector<Side *> &)>;
  /// Names the position of a rank in reports: "position 3: recvB2.0".
  using Describe = std::function<std::string(unsigned rank, size_t position)>;
  Fabric(unsigned ranks, Deliver deliver, Describe describe = nullptr)
      : ranks(ranks), deliver(std::move(deliver)), describe(std::move(describe)) {}

  /// The communicator with that name, made at the first call. The rest must be equal in all calls.
  Communicator &communicator(const std::string &name, const std::vector<unsigned> &members,
                             const CommOptions &options);

  /// Runs the body on a thread for each rank, until all have ended or are stuck.
  void run(const std::function<void(unsigned rank)> &body);

  /// Starts the sides together. Never blocks.
  std::shared_ptr<Entry> start(std::vector<Side> sides);
  bool isComplete(const Entry &entry);
  /// Blocks until at most `allowed` of the entries, all of `rank`, are incomplete. Throws Stuck;
  /// or what a transfer of a completed entry failed with.
  void wait(unsigned rank, const std::vector<std::shared_ptr<Entry>> &entries, size_t allowed = 0);
  /// Waits for something that only this rank could do: always stuck.
  void waitForever(unsigned rank, const std::string &reason);
  /// Where the rank is, for reports. Called by the rank's own thread.
  void setPosition(unsigned rank, size_t position) { ranks[rank].position = position; }
  size_t position(unsigned rank) const { return ranks[rank].position; }

  bool isStuck() const { return stuck; }
  /// Who waits for what, a line each, if stuck.
  const std::string &report() const { return text; }
  /// First-in-first-out matching disregards tags: the pairs that met with different ones.
  unsigned numMismatches() const { return mismatches; }
  /// What ended a rank's body, other than Stuck; empty if it returned.
  const std::string &failure(unsigned rank) const { return ranks[rank].failure; }

private:
  struct Rank {
    std::condition_variable wake;
    bool ended = false, blocked = false;
    size_t missing = 0; // completed works until it may go on; 0: it does
    uint64_t nextNumber = 0;
    size_t position = 0;
    std::string failure, reason;
    std::vector<Entry *> awaited;
    std::map<uint64_t, std::shared_ptr<Entry>> open; // incomplete, by number
  };

  unsigned streamOf(const Side &side);
  void activate(Entry &first);
  void meet(Side &side);
  void meetTransfer(Side &side);
  void meetCollective(Side &side);
  void joined(const std::vector<Side *> &sides);
  void complete(Entry &entry);
  void block(unsigned rank, std::unique_lock<std::mutex> &lock);
  void checkStuck();
  std::string describeWait(const Entry &entry) const;
  std::string nameOf(const Side &side) const;
  std::string nameOf(const Entry &entry) const;
  static std::tuple<unsigned, unsigned, int64_t> channelOf(const Side &side);

  std::mutex mutex;
  std::vector<Rank> ranks;
  Deliver deliver;
  Describe describe;
  unsigned numLive = 0, numBlocked = 0, mismatches = 0;
  bool stuck = false;
  std::string text;
  std::map<std::string, Communicator> communicators;
  std::map<std::string, unsigned> streamIds;
  std::vector<std::deque<std::shared_ptr<Entry>>> streams;
  std::vector<Entry *> active; // came to the head of all their streams, not yet offered
};

} // namespace cleave::strict

#endif // CLEAVE_TEST_UNIT_LIB_SCHEDULE_STRICT_FABRIC_H
