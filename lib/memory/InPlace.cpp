//===- InPlace.cpp - ops that may write over what they read -------------------===//

#include "lib/memory/InPlace.h"
#include "dialects/aten/ops/Activation.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"

using namespace mlir;
using namespace cleave;

/// Ops whose `out` overloads are ATen's own pointwise kernels.
static bool hasPointwiseOut(Operation *op) {
  using namespace aten;
  return isa<AddOp, SubOp, MulOp, DivOp, AddcmulOp, PowOp, PowTensorScalarOp, SqrtOp, RsqrtOp,
             ReciprocalOp, NegOp, AbsOp, SgnOp, SignOp, ExpOp, LogOp, Log1pOp, SinOp, CosOp, ErfOp,
             SiluOp, SigmoidOp, TanhOp, GeluOp, SiluBackwardOp, SigmoidBackwardOp, TanhBackwardOp,
             ThresholdBackwardOp, GeluBackwardOp, MaximumOp, MinimumOp, ClampOp, ClampMinOp,
             ClampMaxOp, LogicalAndOp, LogicalOrOp, LogicalNotOp, BitwiseAndOp, BitwiseOrOp,
             BitwiseNotOp, WhereOp>(op);
}

/// Pointwise ops that are so inside of a kernel, whatever overloads they have.
static bool isPointwise(Operation *op) {
  using namespace aten;
  return hasPointwiseOut(op) ||
         isa<AddScalarOp, SubScalarOp, RsubScalarOp, MulScalarOp, DivScalarOp, ReluOp, EqOp,
             EqScalarOp, NeOp, NeScalarOp, LtOp, LtScalarOp, LeOp, LeScalarOp, GtOp, GtScalarOp,
             GeOp, GeScalarOp>(op);
}

bool cleave::exec::mayOverwrite(Operation *op, unsigned operand) {
  if (op->getNumResults() != 1 || dist::erasePlacement(op->getOperand(operand).getType()) !=
                                      dist::erasePlacement(op->getResult(0).getType()))
    return false;
  auto launch = dyn_cast<LaunchOp>(op);
  if (!launch)
    return hasPointwiseOut(op);
  // A kernel of pointwise ops that gives as many elements as it reads of the operand reads each in
  // its place; with one result, nothing is read after its place has been written.
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
  return kernel && llvm::all_of(kernel.getBody().front().without_terminator(),
                                [](Operation &each) { return isPointwise(&each); });
}
