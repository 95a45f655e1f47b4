//===- ExecutionOrder.h - when the ops of a function run -----------*- C++ -*-===//
//
// Points of time are counted in ops, from 1; 0 is the beginning of the function and the last one
// its end. Optimizer steps that stand one after the other are executed by one call, at the same
// time.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_MEMORY_EXECUTIONORDER_H
#define CLEAVE_LIB_MEMORY_EXECUTIONORDER_H

#include "dialects/exec/Lowered.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

namespace cleave::exec {

/// Whether `op` is executed together with others of its kind next to it.
bool isOptimizerStep(mlir::Operation *op);

/// Whether `op` has to run on the communication stream: it communicates, or awaits what others do.
bool runsOnCommunication(mlir::Operation *op);

/// The stream that `op` has to run on.
Stream findStream(mlir::Operation *op);
inline constexpr unsigned kNumStreams = getMaxEnumValForStream() + 1;

/// Whether `op` calls a communicator: all ranks of a group have to do so in the same order.
bool isCommunicatorCall(mlir::Operation *op);

/// Whether an op only gives what its operands hold another type or shape, and touches no memory.
bool isOnlyView(mlir::Operation *op);

/// By argument, whether the function may overwrite it: the new value is a result of the function,
/// or the old one is dead.
llvm::BitVector findOwnedArguments(mlir::func::FuncOp function);

class ExecutionOrder {
public:
  explicit ExecutionOrder(mlir::func::FuncOp function);

  unsigned of(mlir::Operation *op) const { return times.lookup(op); }
  unsigned end() const { return unsigned(units.size()); }
  /// The ops of a time, in order; the function's terminator at the end. None at time 0.
  llvm::ArrayRef<mlir::Operation *> at(unsigned time) const { return units[time - 1]; }

  /// When what `op` reads and writes is no longer in use by it: for an op that is only started,
  /// when it has been waited for.
  unsigned completionOf(mlir::Operation *op) const;
  /// The same for what it writes to one result.
  unsigned completionOf(mlir::OpResult result) const;

private:
  std::vector<llvm::SmallVector<mlir::Operation *, 1>> units;
  llvm::DenseMap<mlir::Operation *, unsigned> times;
};

} // namespace cleave::exec

#endif // CLEAVE_LIB_MEMORY_EXECUTIONORDER_H
