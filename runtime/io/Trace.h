//===- Trace.h - a time line of ops ------------------------------*- C++ -*-===//
//
// Writes Chrome's JSON trace events, which ui.perfetto.dev and chrome://tracing open: a slice an
// op, a process a rank.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_TRACE_H
#define CLEAVE_RUNTIME_IO_TRACE_H

#include "runtime/io/OutputFile.h"

namespace cleave::runtime {

/// The time `steadyNs` of the steady clock as nanoseconds since the Unix epoch, to be comparable
/// between machines as far as their clocks are.
int64_t wallTime(int64_t steadyNs);

/// The trace of one rank. Events are buffered and written in large pieces.
class TraceWriter {
public:
  /// Times are written relative to `origin` (see wallTime): viewers read them as doubles, which
  /// have no room for nanoseconds since 1970.
  static llvm::Expected<std::unique_ptr<TraceWriter>> open(llvm::StringRef path, int64_t rank,
                                                           int64_t origin);
  ~TraceWriter();
  TraceWriter(const TraceWriter &) = delete;
  TraceWriter &operator=(const TraceWriter &) = delete;

  /// A slice between two times of the steady clock, in nanoseconds. Slices of one track nest by
  /// time. `location` may be empty; it becomes the slice's argument `location`.
  void slice(llvm::StringRef name, llvm::StringRef category, llvm::StringRef location,
             int64_t begin, int64_t end, int64_t track = 0);
  /// Names a track (a thread in the viewer).
  void nameTrack(int64_t track, llvm::StringRef name);
  /// Ends the file, which is there from now on. Errors of earlier writes are reported here.
  llvm::Error close();

private:
  TraceWriter() = default;
  void add(const std::string &event);
  void flush();
  std::unique_ptr<OutputFile> file;
  std::string buffer;
  int64_t rank = 0, origin = 0;
  /// The error of the first write that failed.
  llvm::Error error = llvm::Error::success();
  bool isFirst = true;
};

/// Joins traces that were closed into one file, commits it and removes them.
llvm::Error mergeTraces(llvm::ArrayRef<std::string> parts, OutputFile &out);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_TRACE_H
