//===- Agreement.h - all ranks start together or not at all ------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_AGREEMENT_H
#define CLEAVE_RUNTIME_TRAIN_AGREEMENT_H

#include "cleave/Program.h"
#include "runtime/comm/Communicator.h"

namespace cleave::runtime {

/// Ends a phase of the start, `what`, in which ranks work on their own. Succeeds if every rank
/// brings a success; otherwise every rank gets one error that says which ranks have which problem.
llvm::Error agree(Communicator &world, llvm::Error mine, llvm::StringRef what);

/// An error on all ranks unless they were all given this program, with these options: name, as the
/// user spells it, and value; and unless their environments fit together. `needsEqualBits`: the run
/// compares bits of ranks. `kernels`: SessionOptions::kernels. The first rank prints what differs
/// and may.
llvm::Error agreeOnProgram(Communicator &world, const Program &program,
                           std::vector<std::pair<std::string, std::string>> options,
                           llvm::StringRef kernels, bool needsEqualBits);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_AGREEMENT_H
