//===- Diagnosis.h - Why an operation did not complete ----------*- C++ -*-===//
//
// Turns "connection closed" and "timed out" into an error that names the operation, its position
// and the ranks at fault, which the peer monitor knows.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_DIAGNOSIS_H
#define CLEAVE_RUNTIME_COMM_DIAGNOSIS_H

#include "runtime/comm/PeerMonitor.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace cleave::runtime {

/// An operation of a group, as errors name it.
struct Operation {
  std::string text;
  /// Its place among the group's collectives, from 1; of a send or receive, the last one's before.
  uint64_t number;
  /// The other rank of a send or receive, in the group.
  int peer = -1;
  Clock::time_point start = Clock::now();
};

/// The group that an operation belongs to.
struct GroupView {
  llvm::StringRef name;
  /// Under which its positions are noted.
  llvm::StringRef path;
  /// This rank's place in it.
  int rank;
  llvm::ArrayRef<int> members;
};

/// A PeerFailure for `operation`, which failed with `cause` (empty: it did not end within `limit`).
/// Takes a second or two. `blamed` receives the world ranks at fault.
llvm::Error diagnose(PeerMonitor &monitor, const GroupView &group, const Operation &operation,
                     llvm::StringRef cause, std::chrono::milliseconds limit,
                     std::vector<int> &blamed);

/// The PeerFailure for a known loss, which leaves `operation` (empty: none) incomplete.
llvm::Error lossError(const PeerLoss &loss, llvm::StringRef operation, std::vector<int> &blamed);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_DIAGNOSIS_H
