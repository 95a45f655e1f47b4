//===- Against.h - compares what two programs compute --------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_AGAINST_H
#define CLEAVE_TOOLS_CLEAVE_RUN_AGAINST_H

#include "cleave/Session.h"
#include "runtime/comm/Communicator.h"
#include "runtime/exec/Compare.h"
#include "tools/cleave-run/Options.h"

namespace cleave::run {

/// How far one value of two programs is apart.
struct Row {
  std::string name;
  llvm::SmallVector<int64_t, 4> shape;
  runtime::Difference difference;
  /// Where ranks are compared one by one, that on which it is largest.
  std::optional<int> rank = std::nullopt;
  /// As relativeDifference takes it, for this value, if it is more than that of all.
  double floor = 0;
};

/// 1e-3 of the median over the reference's gradients of their largest element.
double gradientFloor(llvm::ArrayRef<Row> rows);

/// Prints a line a value and fails if one differs by more than the tolerance (0: in any bit), or if
/// there are `problems`. `floor` as relativeDifference takes it. With --json the same goes to a
/// file.
llvm::Error reportDifferences(llvm::ArrayRef<Row> rows, double floor, const Options &options,
                              std::vector<std::string> problems,
                              std::pair<llvm::StringRef, llvm::StringRef> paths);

/// Runs `program` and the one that `--against` names on the same weights and inputs, prints the
/// difference of every value, and fails if one is above the tolerance or only one program has it.
/// A program without a mesh runs on rank 0, a typed one on all ranks of `world`, which call it
/// together.
llvm::Error compare(const runtime::Program &program, runtime::Communicator &world,
                    const Options &options);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_AGAINST_H
