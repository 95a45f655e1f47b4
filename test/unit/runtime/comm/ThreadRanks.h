//===- ThreadRanks.h - Ranks as threads of a test ---------------*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_COMM_THREADRANKS_H
#define CLEAVE_TEST_UNIT_RUNTIME_COMM_THREADRANKS_H

#include "runtime/comm/Rendezvous.h"

#include <functional>
#include <vector>

namespace cleave::runtime::test {

/// What became of one rank.
struct Outcome {
  bool failed = false;
  /// It failed with a PeerFailure, which blames `missing`.
  bool peerFailure = false;
  std::vector<int> missing;
  std::string message;
  double seconds = 0;
};

/// Runs `body` on `size` ranks that have joined each other; by rank. A rank whose body succeeds
/// leaves without waiting for the others; one whose body fails tells them why.
std::vector<Outcome> runThreadRanks(int size, std::chrono::milliseconds timeout,
                                    const std::function<llvm::Error(Communicator &)> &body);

/// What became of a rank that returned `error`.
Outcome outcomeOf(llvm::Error error);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_UNIT_RUNTIME_COMM_THREADRANKS_H
