//===- Kernels.h - how ops become instructions ---------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_KERNELS_H
#define CLEAVE_RUNTIME_EXEC_KERNELS_H

#include "runtime/exec/Binder.h"

namespace cleave::runtime {

using BindResult = llvm::Expected<std::unique_ptr<Instruction>>;
/// Binds a group of ops of one name; groups of several come only from a kernel that `batches`.
using BindFunction = BindResult (*)(Binder &, llvm::ArrayRef<mlir::Operation *>);

struct Kernel {
  BindFunction bind;
  /// Whether `b`, which comes later, may be executed together with `a`; null: never.
  bool (*batches)(mlir::Operation *a, mlir::Operation *b) = nullptr;
};

/// The kernel of an op that is not a plain call of one dispatcher operator; null for others.
const Kernel *findKernel(mlir::Operation *op);

/// A call of the operator that an op with AtenOpInterface names.
BindResult bindAtenCall(Binder &binder, mlir::Operation *op);

/// An op of the `arith` or `math` dialect.
BindResult bindArithmetic(Binder &binder, mlir::Operation *op);

// One per op; the table is in Kernels.cpp.
BindResult bindAccumulate(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindItem(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindLearningRate(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindHyperparameter(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindAdamW(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindSGD(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindContribute(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindContributeMm(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindReduceBucket(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindWaitBucket(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindRngNativeDropout(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindRngBernoulli(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindRngUniform(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindRngNormal(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindRngExponential(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindRngRandint(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindRngRandperm(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindRngMultinomial(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
/// All ops with dist::CommunicationOpInterface.
BindResult bindCommunication(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindWait(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindOffload(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindReload(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindConvert(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
/// Ops whose result is their operand in another type.
BindResult bindAlias(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindFakeScatter(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindAxisIndex(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
/// `exec.launch`.
BindResult bindLaunch(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
/// `exec.record` and `exec.wait`.
BindResult bindRecord(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
BindResult bindWaitEvent(Binder &binder, llvm::ArrayRef<mlir::Operation *> ops);
/// `exec.record` and `exec.wait` on a device with streams; null for other ops.
BindResult bindDeviceEvent(Binder &binder, mlir::Operation *op);
/// Which of a device's streams an op runs on.
StreamKind streamOf(mlir::Operation *op);
bool batchesOptimizerSteps(mlir::Operation *a, mlir::Operation *b);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_KERNELS_H
