//===- Agreement.h - all ranks start together or not at all ------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_AGREEMENT_H
#define CLEAVE_RUNTIME_TRAIN_AGREEMENT_H

#include "runtime/comm/Communicator.h"

namespace cleave::runtime {

/// Ends a phase of the start, `what`, in which ranks work on their own. Succeeds if every rank
/// brings a success; otherwise every rank gets one error that says which ranks have which problem.
llvm::Error agree(Communicator &world, llvm::Error mine, llvm::StringRef what);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_AGREEMENT_H
