//===- Lowered.h - functions whose memory and streams are decided --*- C++ -*-===//
//
// What `--lower-to-exec` writes on a function and its ops, for those who plan, verify or execute
// it. The contract is `docs/executable.md`.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_EXEC_LOWERED_H
#define CLEAVE_DIALECTS_EXEC_LOWERED_H

#include "dialects/exec/Exec.h"

namespace cleave::exec {

/// On a phase function (#exec.lowered).
inline constexpr llvm::StringLiteral kLoweredAttrName = "exec.lowered";
/// On an op of a lowered function: a list with an entry for each result.
inline constexpr llvm::StringLiteral kMemoryAttrName = "exec.memory";
/// On an op of a lowered function: a `StreamAttr`; absent on the compute stream.
inline constexpr llvm::StringLiteral kStreamAttrName = "exec.stream";
/// On communicator calls of a lowered function (i64): their order, from 0, as it was when the
/// program's communication was proved to fit together.
inline constexpr llvm::StringLiteral kCallAttrName = "exec.call";

/// How the function was lowered; null for one that is not.
LoweredAttr getLowered(mlir::Operation *function);
/// The lowered function that an op is in; null if there is none.
mlir::Operation *getLoweredFunction(mlir::Operation *op);

/// Where a result lies.
struct ResultMemory {
  enum Kind {
    Apart, ///< in memory of its own, which is allocated when it is made
    Arena, ///< in the rank's arena
    Frame, ///< in the microbatch's frame
    Same   ///< in the memory of an operand
  } kind = Apart;
  /// Bytes from the beginning of the arena or frame.
  int64_t offset = 0;
  /// The number of the operand.
  unsigned operand = 0;

  mlir::Attribute getAttr(mlir::MLIRContext *context) const;
  friend bool operator==(const ResultMemory &, const ResultMemory &) = default;
};

/// Where a result of an op of a lowered function lies. The op is verified.
ResultMemory getResultMemory(mlir::OpResult result);
/// Says it for all results of an op.
void setResultMemory(mlir::Operation *op, llvm::ArrayRef<ResultMemory> memory);

/// The stream on which an op of a lowered function runs; that of an `exec.record` or `exec.wait` is
/// the one it is on.
Stream getStream(mlir::Operation *op);

/// Removes what `--lower-to-exec` has added to a function.
void dropLowering(mlir::Operation *function);

} // namespace cleave::exec

#endif // CLEAVE_DIALECTS_EXEC_LOWERED_H
