//===- ScheduleSource.h - where a schedule's actions were read ------*- C++ -*-===//
//
// A schedule has millions of actions, so no action has a location of its own. Where one is to be
// pointed at, which only errors do, the text that the op's location names is read once more.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PIPELINE_SCHEDULESOURCE_H
#define CLEAVE_LIB_PIPELINE_SCHEDULESOURCE_H

#include "dialects/pipeline/Pipeline.h"
#include "lib/schedule/model/Schedule.h"
#include "lib/schedule/model/Text.h"

#include "llvm/Support/MemoryBuffer.h"

namespace cleave::pipeline {

/// The text from which a schedule was read: an op in an MLIR file, or a schedule file.
class ScheduleSource {
public:
  /// `current` is what `op` says now.
  ScheduleSource(ScheduleOp op, const schedule::Schedule &current);

  /// The line and column of an action. The op's location where the text does not have the action,
  /// as a pass inserted it, and where there is no text: standard input, bytecode, a schedule made
  /// by name, a file that has changed since.
  mlir::Location locate(const schedule::Place &place) const;

private:
  void readOp(llvm::StringRef text, llvm::StringRef symbol);
  void readFile(llvm::StringRef text, llvm::StringRef path);

  mlir::Location fallback;
  const schedule::Schedule &current;
  mlir::StringAttr path;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  /// The actions of the text, and where they begin.
  schedule::Schedule written;
  schedule::ActionOffsets offsets;
};

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_SCHEDULESOURCE_H
