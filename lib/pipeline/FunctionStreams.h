//===- FunctionStreams.h - what runs beside a function's kernels ----*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_FUNCTIONSTREAMS_H
#define CLEAVE_LIB_PIPELINE_FUNCTIONSTREAMS_H

#include "lib/schedule/simulate/ProgramCosts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace cleave::pipeline {

/// Finds out what waits for what among the streams of a function, for the simulator's cost model.
/// Ops are visited in their order. Lowered functions say by events what copies to and from the host
/// wait for, and who waits for them; in others the first op does that uses what comes back.
class FunctionStreams {
public:
  explicit FunctionStreams(mlir::func::FuncOp function);

  /// The number of a communication that has been started, and of the results that it will bring.
  int start(mlir::ValueRange results);
  /// The number of what brings the value or is the event; none if that does not run in this part of
  /// the function.
  std::optional<int> find(mlir::Value value) const;

  /// `op`: a dist.offload or dist.reload.
  void appendCopy(mlir::Operation *op, unsigned name, simulate::FunctionWork &list);
  /// `op`: an exec.record or exec.wait. Only those to or from the host's stream count: what waits
  /// for communication, its ops say.
  void appendEvent(mlir::Operation *op, simulate::FunctionWork &list);
  /// Has a kernel or a communication wait for what it uses.
  void awaitReloads(mlir::Operation *op, simulate::FunctionWork &list);

private:
  bool isLowered;
  int count = 0;
  /// By what it makes, and what reloads bring that no op has waited for.
  llvm::DenseMap<mlir::Value, int> numbers, reloads;
};

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_FUNCTIONSTREAMS_H
