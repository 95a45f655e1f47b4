//===- GatherStages.h - values of all stages in one place ---------*- C++ -*-===//
//
// Ranks of a scheduled session have the values of their own stages. Files are written by the first
// rank: these functions bring everything there. All ranks call them together; on ranks whose
// pipeline coordinate is not 0 the result is empty. In other sessions every rank has its values,
// and gets them whole.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_RANKS_GATHERSTAGES_H
#define CLEAVE_RUNTIME_RANKS_GATHERSTAGES_H

#include "cleave/Session.h"
#include "runtime/ranks/WholeTensors.h"

namespace cleave::runtime {

/// What the microbatches of the last step leave: the mean of their losses, batched outputs one
/// after another (with SessionOptions::keepOutputs; else those of the last microbatch), gradients
/// and buffers as they are at the end. What a forward-only schedule does not make is left out.
llvm::Expected<std::vector<WholeTensor>> gatherResults(Session &session);

/// Parameters and buffers under their names in dumps, without constants.
llvm::Expected<std::vector<WholeTensor>> gatherWeights(Session &session);
/// Optimizer states under theirs.
llvm::Expected<std::vector<WholeTensor>> gatherOptimizerStates(Session &session);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RANKS_GATHERSTAGES_H
