// The communication streams of a simulation: which send meets which receive, and when.

#ifndef CLEAVE_LIB_SCHEDULE_SIMULATE_TRANSFERS_H
#define CLEAVE_LIB_SCHEDULE_SIMULATE_TRANSFERS_H

#include "lib/schedule/simulate/Simulator.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <deque>

namespace cleave::simulate {

/// One transfer that has both ends.
struct Transfer {
  schedule::Action send;
  ActionRef sender, receiver;
  double begin = 0, end = 0;
};

class Transfers {
public:
  Transfers(const schedule::Schedule &program, const CostTable &costs,
            const schedule::CommModel &model);

  /// A transfer without a receive in the program: starts as soon as the data and the link from
  /// this rank to that one are there; returns its end.
  double send(schedule::Action send, double now);

  /// One end of a transfer is started at `now`. Calls `complete` for every transfer that can now
  /// run: by tag, once both ends are there; first-in-first-out, once it heads its stream on both.
  void start(schedule::Action action, ActionRef here, double now,
             llvm::function_ref<void(const Transfer &)> complete);

  /// Some of the ends that never met; empty if there are none.
  std::string describeUnmatched() const;

private:
  /// One end that waits for the other.
  struct End {
    schedule::Action action;
    ActionRef where;
    double time = -1;
    bool isThere() const { return time >= 0; }
  };
  struct Stream {
    std::deque<End> queue;
    double free = 0;
  };
  uint64_t streamOf(schedule::Action action, unsigned rank) const;
  double costOf(schedule::Action send) const;
  size_t tagOf(schedule::Action send) const;
  void startByTag(const End &end, llvm::function_ref<void(const Transfer &)> complete);
  void drain(uint64_t stream, llvm::function_ref<void(const Transfer &)> complete);

  const schedule::Schedule &program;
  const CostTable &costs;
  schedule::CommModel model;
  llvm::DenseMap<uint64_t, double> linkFree; // by sender and receiver
  /// By direction, stage and microbatch: the end that is there, of transfers that are not matched.
  std::vector<End> byTag;
  llvm::DenseMap<uint64_t, Stream> streams;
};

} // namespace cleave::simulate

#endif // CLEAVE_LIB_SCHEDULE_SIMULATE_TRANSFERS_H
