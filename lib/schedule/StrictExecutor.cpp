// Threads and a rendezvous fabric under one lock.
#include "lib/schedule/StrictExecutor.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>

using namespace cleave::schedule;

namespace {
/// A value is the name of the action that makes it.
using Value = std::tuple<bool, unsigned, unsigned>; // forward?, stage, microbatch

/// One end of a transfer or one entry of a collective, from its start to its completion.
struct Operation {
  Action action;
  unsigned rank = 0, peer = 0;
  uint64_t group = 0; // what was started together
  std::vector<std::string> streams;
  std::string channel;
  bool launched = false, complete = false;
  std::optional<Value> payload; // what a send carries, what a receive got
};

class Runtime {
public:
  Runtime(const Program &program, const CommModel &model)
      : program(program), model(model), operations(program.numRanks()), outputs(program.numRanks()),
        received(program.numRanks()), held(program.numRanks()) {
    result.positions.resize(program.numRanks());
  }

  Execution run() {
    alive = program.numRanks();
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < program.numRanks(); ++rank)
      threads.emplace_back([this, rank] { runRank(rank); });
    for (std::thread &thread : threads)
      thread.join();
    result.stuck = stuck;
    return std::move(result);
  }

private:
  void runRank(unsigned rank) {
    std::unique_lock<std::mutex> lock(mutex);
    const std::vector<Action> &list = program.ranks[rank];
    for (size_t &position = result.positions[rank]; position < list.size(); ++position) {
      if (!runAction(lock, rank, list[position]))
        return;
      // Let other threads in, so that executions differ in their order.
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    auto allComplete = [&] {
      return std::all_of(operations[rank].begin(), operations[rank].end(),
                         [](const Operation &operation) { return operation.complete; });
    };
    if (!waitFor(lock, allComplete))
      return;
    --alive;
    changed();
  }

  /// False if the execution is stuck.
  bool runAction(std::unique_lock<std::mutex> &lock, unsigned rank, Action action) {
    std::vector<Action> leaves;
    program.forEachLeaf(action, [&](Action leaf) { leaves.push_back(leaf); });
    auto count = [&](auto kind) {
      return size_t(std::count_if(leaves.begin(), leaves.end(),
                                  [&](Action leaf) { return kind(leaf.kind); }));
    };
    size_t sends = count(isSend), recvs = count(isRecv);
    auto slotsFree = [&] {
      size_t inFlight =
          std::count_if(operations[rank].begin(), operations[rank].end(),
                        [](const Operation &o) { return isSend(o.action.kind) && !o.complete; });
      return (!sends || !model.sendSlots || inFlight + sends <= model.sendSlots) &&
             (!recvs || !model.recvSlots || held[rank].size() + recvs <= model.recvSlots);
    };
    if (!waitFor(lock, slotsFree))
      return false;
    post(rank, leaves);
    if (action.kind == ActionKind::Collective) {
      Operation &entered = operations[rank].back();
      return waitFor(lock, [&] { return entered.complete; });
    }
    auto inputsReady = [&] {
      return std::all_of(leaves.begin(), leaves.end(),
                         [&](Action leaf) { return inputsOf(rank, leaf).has_value(); });
    };
    if (!waitFor(lock, inputsReady))
      return false;
    for (Action leaf : leaves)
      compute(rank, leaf);
    changed();
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Waiting
  //===--------------------------------------------------------------------===//

  void changed() {
    ++version;
    quiet = 0;
    condition.notify_all();
  }

  /// Waits until the condition holds; false if all threads wait and no condition does.
  template <typename Fn> bool waitFor(std::unique_lock<std::mutex> &lock, Fn holds) {
    while (!stuck && !holds()) {
      if (++quiet == alive) {
        stuck = true;
        condition.notify_all();
        return false;
      }
      condition.wait(lock, [this, seen = version] { return stuck || version != seen; });
    }
    return !stuck;
  }

  //===--------------------------------------------------------------------===//
  // Compute
  //===--------------------------------------------------------------------===//

  static Value valueOf(Action compute) {
    return {compute.kind == ActionKind::Forward, compute.stage, compute.index};
  }

  /// The value that this rank holds under the name `wanted`: made here, or received.
  std::optional<Value> find(unsigned rank, bool remote, Value wanted, Action recv) const {
    if (!remote)
      return outputs[rank].count(wanted) ? std::optional<Value>(wanted) : std::nullopt;
    auto found = received[rank].find({isForwardP2P(recv.kind), recv.stage, recv.index});
    return found == received[rank].end() ? std::nullopt : std::optional<Value>(found->second);
  }

  /// The values a leaf computes with, or nullopt while one is not there.
  std::optional<std::vector<Value>> inputsOf(unsigned rank, Action leaf) const {
    std::vector<Value> inputs;
    bool ready = true;
    auto need = [&](bool remote, Value wanted, Action recv) {
      std::optional<Value> value = find(rank, remote, wanted, recv);
      ready &= value.has_value();
      if (value)
        inputs.push_back(*value);
    };
    unsigned stage = leaf.stage, microbatch = leaf.index;
    auto remote = [&](unsigned other) { return program.topology.rankOf(other) != rank; };
    if (leaf.kind == ActionKind::Forward && stage > 0)
      need(remote(stage - 1), {true, stage - 1, microbatch},
           {ActionKind::RecvForward, stage, microbatch});
    if (makesInputGradient(leaf.kind)) {
      need(false, {true, stage, microbatch}, leaf);
      if (stage + 1 < program.numStages())
        need(remote(stage + 1), {false, stage + 1, microbatch},
             {ActionKind::RecvBackward, stage, microbatch});
    }
    if (leaf.kind == ActionKind::BackwardWeight)
      need(false, {false, stage, microbatch}, leaf);
    return ready ? std::optional(std::move(inputs)) : std::nullopt;
  }

  void compute(unsigned rank, Action leaf) {
    if (leaf.kind != ActionKind::Forward && !makesInputGradient(leaf.kind))
      return;
    bool forward = leaf.kind == ActionKind::Forward;
    std::vector<Value> inputs = inputsOf(rank, leaf).value();
    for (const Value &input : inputs) {
      auto [isForward, stage, microbatch] = input;
      bool right =
          microbatch == leaf.index && (isForward ? stage == leaf.stage - (forward ? 1u : 0u)
                                                 : !forward && stage == leaf.stage + 1u);
      if (!right)
        result.dataErrors.push_back("rank " + std::to_string(rank) + ": " + program.str(leaf) +
                                    " got the " + (isForward ? "output" : "gradient") +
                                    " of stage " + std::to_string(stage) + ", microbatch " +
                                    std::to_string(microbatch));
    }
    outputs[rank][valueOf(leaf)] = true;
    // The buffer of the received input is free again.
    auto buffer =
        std::find(held[rank].begin(), held[rank].end(), Value(forward, leaf.stage, leaf.index));
    if (buffer != held[rank].end() && !consumed.count(*buffer)) {
      consumed[*buffer] = true;
      held[rank].erase(buffer);
    }
  }

  //===--------------------------------------------------------------------===//
  // Transfers
  //===--------------------------------------------------------------------===//

  void post(unsigned rank, const std::vector<Action> &leaves) {
    std::vector<Operation *> posted;
    for (Action leaf : leaves) {
      bool collective = leaf.kind == ActionKind::Collective;
      if (!isP2P(leaf.kind) && !collective)
        continue;
      Operation operation;
      operation.action = leaf;
      operation.rank = rank;
      operation.group = nextGroup;
      if (!collective)
        operation.peer = getPeer(program.topology, leaf);
      if (isSend(leaf.kind)) {
        Value value(leaf.kind == ActionKind::SendForward, leaf.stage, leaf.index);
        if (outputs[rank].count(value))
          operation.payload = value;
        else
          result.dataErrors.push_back("rank " + std::to_string(rank) + ": " + program.str(leaf) +
                                      " has nothing to send");
      }
      if (isRecv(leaf.kind))
        held[rank].emplace_back(isForwardP2P(leaf.kind), leaf.stage, leaf.index);
      nameChannels(operation);
      operations[rank].push_back(std::move(operation));
      posted.push_back(&operations[rank].back());
    }
    ++nextGroup;
    if (posted.empty())
      return;
    // A group enters every stream that one of its members uses.
    std::vector<std::string> all;
    for (Operation *operation : posted)
      all.insert(all.end(), operation->streams.begin(), operation->streams.end());
    for (Operation *operation : posted)
      operation->streams = all;
    progress();
    changed();
  }

  /// The communicator and the stream, by name.
  void nameChannels(Operation &operation) const {
    bool collective = operation.action.kind == ActionKind::Collective;
    bool fifo = model.matching == Matching::Fifo;
    if (collective) {
      operation.channel = "collective " + std::to_string(operation.action.index);
      if (fifo && model.streams == StreamSharing::World)
        operation.streams = {"world"};
      return;
    }
    bool send = isSend(operation.action.kind);
    std::string kind = isForwardP2P(operation.action.kind) ? " activations" : " gradients";
    std::string peer = std::to_string(operation.peer);
    operation.channel = std::to_string(send ? operation.rank : operation.peer) + "->" +
                        std::to_string(send ? operation.peer : operation.rank);
    if (!fifo) {
      bool forward = isForwardP2P(operation.action.kind);
      int stage = int(operation.action.stage) + (send ? (forward ? 1 : -1) : 0);
      operation.channel +=
          kind + " " + std::to_string(stage) + "." + std::to_string(operation.action.index);
      return;
    }
    if (model.streams == StreamSharing::Kind)
      operation.channel += kind;
    switch (model.streams) {
    case StreamSharing::World:
      operation.streams = {"world"};
      break;
    case StreamSharing::Peer:
      operation.streams = {"peer " + peer};
      break;
    case StreamSharing::Direction:
      operation.streams = {(send ? "to " : "from ") + peer};
      break;
    case StreamSharing::Kind:
      operation.streams = {(send ? "to " : "from ") + peer + kind};
      break;
    }
  }

  /// Launches and matches operations until nothing more happens.
  void progress() {
    for (bool again = true; again;) {
      again = false;
      for (std::list<Operation> &ofRank : operations) {
        ofRank.remove_if([](const Operation &o) {
          return o.complete && o.action.kind != ActionKind::Collective;
        });
        for (Operation &operation : ofRank)
          again |= launch(ofRank, operation);
      }
      for (std::list<Operation> &ofRank : operations)
        for (Operation &operation : ofRank)
          if (operation.launched && !operation.complete)
            again |= match(operation);
    }
  }

  /// An operation runs when nothing that was started before it in its streams is incomplete.
  bool launch(std::list<Operation> &ofRank, Operation &operation) {
    if (operation.launched)
      return false;
    for (const Operation &earlier : ofRank) {
      if (earlier.group == operation.group)
        break;
      if (earlier.complete)
        continue;
      for (const std::string &stream : earlier.streams)
        if (std::find(operation.streams.begin(), operation.streams.end(), stream) !=
            operation.streams.end())
          return false;
    }
    return operation.launched = true;
  }

  /// Completes the operation together with its counterparts if all of them run.
  bool match(Operation &operation) {
    if (operation.action.kind == ActionKind::Collective)
      return matchCollective(operation);
    for (Operation &other : operations[operation.peer]) {
      if (!other.launched || other.complete || other.channel != operation.channel ||
          isSend(other.action.kind) == isSend(operation.action.kind))
        continue;
      // First in, first out: `operation` must be its rank's first in the channel, too.
      for (Operation &mine : operations[operation.rank]) {
        if (&mine == &operation)
          break;
        if (mine.launched && !mine.complete && mine.channel == operation.channel &&
            isSend(mine.action.kind) == isSend(operation.action.kind))
          return false;
      }
      Operation &send = isSend(operation.action.kind) ? operation : other;
      Operation &recv = isSend(operation.action.kind) ? other : operation;
      operation.complete = other.complete = true;
      if (send.payload)
        received[recv.rank].try_emplace(
            {isForwardP2P(recv.action.kind), recv.action.stage, recv.action.index}, *send.payload);
      else
        received[recv.rank].try_emplace(
            {isForwardP2P(recv.action.kind), recv.action.stage, recv.action.index},
            Value(isForwardP2P(recv.action.kind), ~0u, ~0u));
      return true;
    }
    return false;
  }

  bool matchCollective(Operation &operation) {
    std::vector<Operation *> entered;
    for (unsigned rank : program.collectiveOf(operation.action).ranks)
      for (Operation &other : operations[rank])
        if (other.launched && !other.complete && other.channel == operation.channel) {
          entered.push_back(&other);
          break;
        }
    if (entered.size() < program.collectiveOf(operation.action).ranks.size())
      return false;
    for (Operation *other : entered)
      other->complete = true;
    return true;
  }

  const Program &program;
  const CommModel model;
  std::mutex mutex;
  std::condition_variable condition;
  unsigned alive = 0, quiet = 0;
  uint64_t version = 0, nextGroup = 0;
  bool stuck = false;
  std::vector<std::list<Operation>> operations; // by rank, in order of start
  std::vector<std::map<Value, bool>> outputs;   // by rank: what its compute actions made
  std::vector<std::map<Value, Value>> received; // by rank: what each receive got
  std::vector<std::vector<Value>> held;         // by rank: receive buffers in use
  std::map<Value, bool> consumed;
  Execution result;
};
} // namespace

Execution cleave::schedule::executeStrictly(const Program &program, const CommModel &model) {
  return Runtime(program, model).run();
}
