//===- Profile.h - measured costs of pipeline stages --------------*- C++ -*-===//
//
// From what every rank saw of a run's actions to a cost table that cleave-sim reads: median times
// of each stage's functions and transfers, and one step's timeline. Neither LibTorch nor MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PROFILE_PROFILE_H
#define CLEAVE_RUNTIME_PROFILE_PROFILE_H

#include "lib/schedule/model/Schedule.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace cleave::runtime {

/// One action of one step; times in nanoseconds of a clock that ranks share. A plain value.
struct RecordedAction {
  schedule::Action action;
  int64_t step = 0;
  int64_t position = 0; ///< in the rank's list
  int64_t begin = 0;    ///< when the rank came to it
  int64_t ready = 0;    ///< when what it waits for was there
  int64_t end = 0;
  int64_t bytes = 0; ///< bytes that a transfer moved
};

struct RankRecord {
  int64_t rank = 0;    ///< in the run
  int64_t place = 0;   ///< along the pipeline
  int64_t replica = 0; ///< which of the pipelines that run side by side
  /// Ranks of one machine have one number, and one clock; that of another is compared by what its
  /// clock must be added to be wall time.
  uint64_t machine = 0;
  int64_t clockOffset = 0;
  std::vector<RecordedAction> actions;

  /// For exchange between ranks of one run: bytes of this machine.
  std::string encode() const;
  static llvm::Expected<RankRecord> decode(llvm::StringRef bytes);
};

/// Puts the times of all ranks on the clock of the first one's machine.
void alignClocks(std::vector<RankRecord> &records);

/// What a profile contains besides its numbers.
struct ProfileNotes {
  std::string program, fingerprint, schedule, processor;
  int64_t ranks = 1, threads = 1, cores = 1, microbatches = 1;
  /// Steps at the run's beginning that do not count.
  int64_t skippedSteps = 0;
};

/// A number that this machine, as it was booted, has alone.
uint64_t getMachineNumber();
/// "model name" of /proc/cpuinfo, or "unknown".
std::string getProcessorName();

/// A cost table for cleave-sim, in milliseconds, with what was measured in "measured". Of each
/// stage and kind of action: the mean over the microbatches and replicas of a step, of which the
/// median over steps. The time of a computation goes on until the rank comes to its next one: what
/// the rank does between two counts as the first one's. Of a transfer: from the start of its send
/// to its arrival, which is known where the receiver was waiting for it (TransferTimes). `schedule`
/// is the one that the actions are of: it has the names of collectives and custom actions. Fails
/// where no step is left.
llvm::Expected<llvm::json::Object> makeProfile(llvm::ArrayRef<RankRecord> records,
                                               unsigned numStages, const ProfileNotes &notes,
                                               const schedule::Schedule &schedule = {});

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_PROFILE_H
