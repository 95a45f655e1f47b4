//===- Profiler.h - measures a run's actions ----------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_PROFILER_H
#define CLEAVE_RUNTIME_TRAIN_PROFILER_H

#include "runtime/io/OutputFile.h"
#include "runtime/profile/Profile.h"
#include "runtime/step/ActionEvent.h"

namespace cleave::runtime {

class Communicator;
class Program;
class RankGrid;

/// Records this rank's actions; `finish` makes the profile of all ranks' (runtime/profile).
class Profiler {
public:
  /// Rank 0 finds out here that it cannot write the file, not when the run is over.
  static llvm::Expected<std::unique_ptr<Profiler>> open(llvm::StringRef path, int rank);
  /// Steps after `step` are not recorded.
  void setLastStep(int64_t step) { lastStep = step; }

  void add(const ActionEvent &event);
  /// All ranks call it together; rank 0 writes the file. `microbatches` are those of a pipeline in
  /// a step. The first `skipped` steps do not count.
  llvm::Error finish(const Program &program, const RankGrid &grid, int64_t microbatches,
                     int64_t skipped);

private:
  Profiler() = default;
  std::string path;
  std::unique_ptr<OutputFile> file;
  int64_t lastStep = 0;
  RankRecord record;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_PROFILER_H
