//===- CheckSession.h - whether a program runs as options say ------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_SESSION_CHECKSESSION_H
#define CLEAVE_RUNTIME_SESSION_CHECKSESSION_H

#include "cleave/Session.h"

namespace cleave::runtime {

/// An error where options ask for a check of replication and the program's types do not say what
/// is replicated.
llvm::Error checkReplicable(const Program &program, const SessionOptions &options);

/// An error where `options` adopt memory for what the program does not keep, or of another type.
llvm::Error checkAdopted(const Program &program, const SessionOptions &options);

/// An error where ranks that do not run the program's schedule would leave out one of its actions
/// that changes the state.
llvm::Error checkActions(const Program &program, bool isScheduled);

/// An error where the program, on ranks that run it by its schedule or not, cannot run the number
/// of microbatches, or defer weight gradients, as `options` say.
llvm::Error checkMicrobatches(const Program &program, const SessionOptions &options,
                              bool isScheduled);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_CHECKSESSION_H
