//===- SearchSchedule.h - a schedule searched for a program -----------*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_SEARCHSCHEDULE_H
#define CLEAVE_LIB_PIPELINE_SEARCHSCHEDULE_H

#include "dialects/train/Program.h"
#include "lib/schedule/model/Schedule.h"

#include <limits>
#include <optional>

namespace cleave::pipeline {

struct SearchOptions {
  unsigned ranks = 1, microbatches = 1;
  std::optional<schedule::TopologyStyle> topology;
  /// Files with what stages cost: the description of a cluster, or a cost table (what a run
  /// measured). At most one; without them costs are those on a typical cluster.
  std::string cluster, profile;
  /// Bytes of activations on a rank.
  double memoryLimit = std::numeric_limits<double>::infinity();
  /// As of schedule::search::AutoRequest.
  double effort = 1;
  uint64_t seed = 1;
};

/// The best compute-only schedule of the program's stages that the search (lib/schedule/search)
/// finds; the same for the same options and program. Mesh axes of size `?` count as one rank. Emits
/// an error at `location` if there is none.
mlir::FailureOr<schedule::Schedule> searchSchedule(llvm::ArrayRef<train::ProgramFunctions> stages,
                                                   const SearchOptions &options,
                                                   mlir::Location location);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_SEARCHSCHEDULE_H
