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
  /// `program` is what `op` says. Without a text (standard input, bytecode, a schedule made by
  /// name, a file that has changed since) nothing is found.
  ScheduleSource(ScheduleOp op, const schedule::Schedule &program);

  /// The line and column of an action; null where the text does not have it, as a pass inserted it.
  mlir::LocationAttr locate(const schedule::Place &place) const;

private:
  void readOp(llvm::StringRef text, llvm::StringRef symbol);
  void readFile(llvm::StringRef text, llvm::StringRef path);

  const schedule::Schedule &program;
  mlir::MLIRContext *context;
  mlir::StringAttr path;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  /// The actions of the text, and where they begin.
  schedule::Schedule written;
  schedule::ActionOffsets offsets;
};

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_SCHEDULESOURCE_H
