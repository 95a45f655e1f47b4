//===- JoinShards.h - signatures of whole tensors, for a run -------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PROVE_JOINSHARDS_H
#define CLEAVE_TOOLS_CLEAVE_PROVE_JOINSHARDS_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave::prove {

/// Where attributes say that ranks have shards of parameters and optimizer states, has functions
/// take them whole and return them whole, as files have them: each rank takes its part, and what it
/// returns is gathered. Removes the attributes; whether there were any.
bool joinShards(mlir::ModuleOp module);

} // namespace cleave::prove

#endif // CLEAVE_TOOLS_CLEAVE_PROVE_JOINSHARDS_H
