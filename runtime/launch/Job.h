//===- Job.h - From the command line to a running rank ----------*- C++ -*-===//
//
// The one call that a program's `main` makes to run on all its ranks, however they are started.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_LAUNCH_JOB_H
#define CLEAVE_RUNTIME_LAUNCH_JOB_H

#include "runtime/launch/LocalLauncher.h"

namespace cleave::runtime {

struct JobOptions {
  /// `--ranks`: start this many ranks here. Absent: be the rank that the environment says.
  std::optional<int> ranks;
  /// `--ranks-as threads`.
  bool asThreads = false;
  /// `--timeout`: for joining and for every operation.
  std::chrono::milliseconds timeout = kDefaultTimeout;
  /// The body ends in good order, by an `Interruption`, on signals: it may take up to `timeout`.
  bool isInterruptible = false;
};

/// What a rank does with its communicator. An error ends the job on all ranks.
using JobBody = std::function<llvm::Error(Communicator &world, const RankEnvironment &environment)>;

/// Starts or joins the ranks, runs `body` on each and returns the status for `main` to return: 0 if
/// every rank succeeded. Prints each error once, on standard error, with its rank if there are
/// several. The status of a job that ended by an `Interruption` is 128 + the signal. Call it before
/// the process has a second thread: before MLIR and LibTorch are used. May not return in a process
/// that is one of several ranks.
int runJob(const JobOptions &options, const JobBody &body);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_LAUNCH_JOB_H
