//===- RankClasses.h - programs with a function per class of ranks -*- C++ -*-===//
//
// Where a sharded dimension does not divide evenly, ranks hold parts of different sizes, and shapes
// are static: each class of ranks has functions of its own. All classes have the same signature but
// for sizes of sharded dimensions, and communicate in the same order.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_TRAIN_RANKCLASSES_H
#define CLEAVE_DIALECTS_TRAIN_RANKCLASSES_H

#include "dialects/train/Program.h"

#include "llvm/ADT/StringMap.h"

namespace cleave::train {

/// The functions that the ranks of one class run.
struct ProgramClass {
  /// `{tp = array<i64: 0>}`; null if the program has one class.
  mlir::DictionaryAttr ranks;
  ProgramFunctions program;

  /// Whether the rank with these places, by axis, is of the class.
  bool contains(const llvm::StringMap<int64_t> &places) const;
};

/// The programs of all classes of ranks, one where no function has `train.ranks`. Checks each as
/// `getProgram` does, that each rank of the mesh is of exactly one class, and that classes fit each
/// other, where no `train.program` has it verified. Emits an error otherwise.
llvm::FailureOr<llvm::SmallVector<ProgramClass, 1>> getProgramClasses(mlir::ModuleOp module,
                                                                      ProgramForms forms);

/// The same, checked in any case.
llvm::FailureOr<llvm::SmallVector<ProgramClass, 1>> verifyProgramClasses(mlir::ModuleOp module,
                                                                         ProgramForms forms);

/// Whether `ranks` is a well-formed `train.ranks` of `op`; emits an error if not.
llvm::LogicalResult verifyRanks(mlir::Operation *op, mlir::Attribute ranks);

} // namespace cleave::train

#endif // CLEAVE_DIALECTS_TRAIN_RANKCLASSES_H
