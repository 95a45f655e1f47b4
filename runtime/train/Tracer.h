//===- Tracer.h - the trace of a run's first steps ---------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_TRACER_H
#define CLEAVE_RUNTIME_TRAIN_TRACER_H

#include "cleave/Session.h"
#include "runtime/io/Trace.h"

namespace cleave::runtime {

class Communicator;

/// Writes this rank's slices; `finish` joins those of all ranks into one file.
class Tracer {
public:
  /// All ranks call it together. Ranks that are several write each its part, FILE.rankN, which the
  /// first one joins: FILE is then to be a regular file.
  static llvm::Expected<std::unique_ptr<Tracer>> open(llvm::StringRef path, Communicator &world);

  /// A slice an op, named and placed as the event says.
  void op(const OpEvent &event);
  /// Slices of an action of a pipeline schedule: the computation around its ops, and the idle time
  /// before it in which it waited for another rank; of a transfer, one on tracks of their own.
  void action(const ActionEvent &event);
  /// A slice of a bucket's reduction, on tracks of their own.
  void reduction(const ReductionEvent &event);
  /// A slice around ops: `step 3`, `microbatch 1`. Times are of the steady clock, in nanoseconds.
  void span(const std::string &name, int64_t beginNs, int64_t endNs);
  /// Ends the trace. All ranks call it together. Traces of ranks that rank 0 cannot see, because
  /// they run on other machines, stay where they are: FILE.rankN.
  llvm::Error finish();

private:
  explicit Tracer(Communicator &world) : world(world) {}
  /// A track called `name` that is free at `beginNs` and taken until `endNs`: slices of one track
  /// must not overlap.
  int64_t takeTrack(llvm::StringRef name, int64_t beginNs, int64_t endNs);

  std::string path;
  Communicator &world;
  /// Where the first of several ranks joins the parts.
  std::unique_ptr<OutputFile> joined;
  std::unique_ptr<TraceWriter> writer;
  /// Tracks after that of the program: their names, and the ends of their last slices.
  std::vector<std::pair<std::string, int64_t>> tracks;
};

/// The steady clock in nanoseconds, as OpEvent has it.
int64_t steadyNs();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_TRACER_H
