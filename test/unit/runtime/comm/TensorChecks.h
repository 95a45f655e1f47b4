//===- TensorChecks.h - Collectives of tensors against lists ----*- C++ -*-===//
//
// Every rank calls the same check. Each knows what all ranks contribute, so that it computes the
// specification, an operation on a list of tensors, by itself.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_COMM_TENSORCHECKS_H
#define CLEAVE_TEST_UNIT_RUNTIME_COMM_TENSORCHECKS_H

#include "runtime/comm/Communicator.h"

namespace cleave::runtime::test {

/// All reductions over all element types: all_reduce, reduce, reduce_scatter, coalesced too.
llvm::Error checkTensorReductions(Communicator &world);
/// Sums and maxima of random numbers have the same bits on all ranks.
llvm::Error checkSameBits(Communicator &world);
/// NaNs come through maxima; what has no meaning for an element type is refused.
llvm::Error checkSpecialReductions(Communicator &world);
/// all_gather, gather, scatter, all_to_all; along every dimension, with uneven and empty parts.
llvm::Error checkParts(Communicator &world);
/// broadcast, permute, shift, send and receive.
llvm::Error checkMoves(Communicator &world);
/// Several operations in flight, waited for in another order.
llvm::Error checkPending(Communicator &world);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_UNIT_RUNTIME_COMM_TENSORCHECKS_H
