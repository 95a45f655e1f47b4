//===- Verify.h - that a lowered function computes what its ops say -*- C++ -*-===//
//
// Looks at nothing but the function: where its results lie, what runs on which stream, and which
// events there are. With what made the plan it shares facts about ops, and nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_EXEC_VERIFY_H
#define CLEAVE_LIB_EXEC_VERIFY_H

#include "lib/exec/Timeline.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave::exec {

/// Verifies every function of the module that has `exec.lowered`, and that all functions of the
/// program have it, with one target, or none. Emits an error for each thing that is wrong, at the
/// op, with notes at the others that are part of it.
llvm::LogicalResult verifyLowered(mlir::ModuleOp module);

/// A range of bytes.
struct Range {
  /// Whose memory it is: a result or argument; null for the arena and the frame.
  mlir::Value root;
  ResultMemory::Kind region = ResultMemory::Apart;
  int64_t begin = 0, end = 0;

  /// "bytes 0 to 127 of the arena"
  std::string str() const;
};

/// Where all values of a lowered function lie, as its attributes say.
class Places {
public:
  explicit Places(mlir::func::FuncOp function);

  /// The result or argument whose memory `value` has.
  mlir::Value rootOf(mlir::Value value) const { return roots.lookup(value); }
  Range of(mlir::Value value) const;

private:
  llvm::DenseMap<mlir::Value, mlir::Value> roots;
};

/// One after the other, the ops compute what they say: every value is there, unchanged, until its
/// last use; nothing outlives the function in memory that does not.
llvm::LogicalResult verifyMemory(mlir::func::FuncOp function, const Timeline &timeline,
                                 const Places &places);

/// On two streams, they compute the same: what touches the same bytes runs in the function's order.
/// Communicators are called in the order in which they were.
llvm::LogicalResult verifyEvents(mlir::func::FuncOp function, const Timeline &timeline,
                                 const Places &places);

} // namespace cleave::exec

#endif // CLEAVE_LIB_EXEC_VERIFY_H
