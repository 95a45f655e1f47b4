//===- C10dHelpers.h - what communicators on c10d share ----------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_COMM_C10DHELPERS_H
#define CLEAVE_RUNTIME_COMM_C10DHELPERS_H

#include "runtime/comm/Communicator.h"

namespace cleave::runtime {

/// What the exception being handled says, without LibTorch's stack traces.
std::string describeException();

/// Communicator::allGatherBytes where gathers take equal sizes only.
llvm::Expected<std::vector<std::string>> gatherPadded(Communicator &ranks, llvm::StringRef bytes,
                                                      llvm::StringRef what);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_C10DHELPERS_H
