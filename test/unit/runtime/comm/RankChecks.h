//===- RankChecks.h - What any set of ranks must be able to do --*- C++ -*-===//
//
// Every rank calls the same check; an error says what came out wrong on it. Used with ranks as
// threads and as processes.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_COMM_RANKCHECKS_H
#define CLEAVE_TEST_UNIT_RUNTIME_COMM_RANKCHECKS_H

#include "runtime/comm/Communicator.h"

namespace cleave::runtime::test {

/// Sums, maxima, minima and products over several element types, strides and sizes.
llvm::Error checkReductions(Communicator &world);
/// Operations started before earlier ones are waited for.
llvm::Error checkOverlap(Communicator &world);
/// From each rank in turn.
llvm::Error checkBroadcasts(Communicator &world);
/// Strings of different lengths, empty ones too.
llvm::Error checkByteGather(Communicator &world);
/// A ring with two tags, received in the other order.
llvm::Error checkExchange(Communicator &world);
/// Even and odd ranks in groups of one name, and a group within a group.
llvm::Error checkSubgroups(Communicator &world);
/// All of the above.
llvm::Error checkEverything(Communicator &world);

/// One all-reduce of `elements` numbers, described as `what`.
llvm::Error reduceOnce(Communicator &world, llvm::StringRef what, int64_t elements = 100);
/// One all-gather of as many from each rank.
llvm::Error gatherOnce(Communicator &world, llvm::StringRef what, int64_t elements);
/// Receives a tensor that `peer` is not going to send.
llvm::Error receiveOnce(Communicator &world, int peer, llvm::StringRef what);
/// One broadcast from rank 0.
llvm::Error broadcastOnce(Communicator &world, llvm::StringRef what);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_UNIT_RUNTIME_COMM_RANKCHECKS_H
