//===- LocalLauncher.h - Several ranks on this machine ----------*- C++ -*-===//
//
// `--ranks N` without a launcher. The ranks are forks of the calling process, made before it has a
// second thread: they start in milliseconds, share the pages of LibTorch's relocated libraries,
// and inherit the rendezvous socket, so that no port can be taken in between and no command line
// has to be put together again. The caller becomes their supervisor and runs nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_LAUNCH_LOCALLAUNCHER_H
#define CLEAVE_RUNTIME_LAUNCH_LOCALLAUNCHER_H

#include "runtime/comm/Failure.h"
#include "runtime/launch/RankEnvironment.h"

#include <functional>

namespace cleave::runtime {

/// Exit status of a rank that ended because of others: never the cause of a job's failure.
inline constexpr int kPeerFailureStatus = 76;

/// Runs one rank; its result is the rank's exit status.
using RankMain = std::function<int(const RankEnvironment &)>;

struct LocalLaunchOptions {
  int ranks = 1;
  /// After a rank has failed: how long the others may take to find out and say so themselves, and
  /// then to end on SIGTERM, before they are killed.
  std::chrono::milliseconds grace = std::chrono::seconds(1);
  /// How long ranks may take to end in good order after a signal, if that is longer. A second
  /// signal ends the patience.
  std::chrono::milliseconds patience{0};
};

/// Notes that this rank, a fork of `launchProcesses` or a thread of `launchThreads`, says why the
/// job fails. True for the first one.
bool claimReport();

/// In a fork of `launchProcesses`, rank `rank`, that failed because of others: leaves it to the
/// supervisor, who knows how each rank ended, to say so. It tells the first such failure where no
/// rank failed by itself. False elsewhere.
bool deferReport(int rank, const PeerFailure &failure);

/// Runs `rankMain` in `ranks` child processes. Rank 0 has the caller's output streams; every line
/// that another rank writes comes out with "rank N: " in front. Signals to the caller go to all
/// ranks. When a rank fails, ends the others and reaps them, and says which one failed and how
/// unless it did so itself (`claimReport`); if the caller itself is killed the kernel kills the
/// ranks. Returns the status to exit with: 0, or that of the
/// rank that failed first (128 + N for signal N).
llvm::Expected<int> launchProcesses(const LocalLaunchOptions &options, const RankMain &rankMain);

/// Runs `rankMain` in threads of this process, for tests. Returns the first status that is not 0.
llvm::Expected<int> launchThreads(const LocalLaunchOptions &options, const RankMain &rankMain);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_LAUNCH_LOCALLAUNCHER_H
