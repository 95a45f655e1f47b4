//===- HeldValues.h - what to keep from dI to dW -------------------*- C++ -*-===//
//
// dW needs values that dI has computed. Holding one of them may be more expensive than holding what
// it is made of: a view keeps its whole base, a converted copy exists in addition to the original.
// Which to hold is a minimum cut between what dI starts from and what dW needs.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_HELDVALUES_H
#define CLEAVE_LIB_BACKWARD_HELDVALUES_H

#include "lib/backward/SplitPlan.h"

namespace cleave::backward {

/// Fills in `held`, `recomputed` and `memory` of a plan whose slices are known. Views are
/// recomputed wherever that holds no more; with `recomputeCheap` also elementwise ops and
/// conversions, where that holds less.
void chooseHeldValues(const train::ProgramFunctions &program, mlir::func::FuncOp function,
                      SplitPlan &plan, bool recomputeCheap);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_HELDVALUES_H
