//===- JoinShards.h - signatures of whole tensors, for a run -------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PROVE_JOINSHARDS_H
#define CLEAVE_TOOLS_CLEAVE_PROVE_JOINSHARDS_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave::prove {

/// Whether attributes say how arguments or results of the functions of a step lie.
bool hasShards(mlir::ModuleOp module);

/// Has functions of which attributes say how arguments and results lie take these whole and return
/// them whole, as files have them: each rank takes its part, what it returns is gathered, and
/// terms are added up. Where roles divide the batch, a gradient that it has not reduced stays the
/// rank's term. Removes the attributes. False if a value is not a part of a whole.
bool joinShards(mlir::ModuleOp module);

} // namespace cleave::prove

#endif // CLEAVE_TOOLS_CLEAVE_PROVE_JOINSHARDS_H
