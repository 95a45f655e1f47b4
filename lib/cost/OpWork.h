//===- OpWork.h - what an op does, as far as its time depends on it -*- C++ -*-===//

#ifndef CLEAVE_LIB_COST_OPWORK_H
#define CLEAVE_LIB_COST_OPWORK_H

#include "lib/cost/CollectiveTime.h"
#include "lib/cost/OpTime.h"

namespace cleave::cost {

/// One op of a program, or of a layer that is given by formulas, for any device.
struct OpWork {
  /// `Bytes`: a kernel that computes next to nothing.
  enum Kind { Bytes, Product, Attention, Communication } kind = Bytes;
  MatrixProduct product = {};
  /// Of attention: operations on pairs of positions that are not masked, the part of all pairs that
  /// these are, and blocks of 128 queries.
  double flops = 0, unmasked = 1, tiles = 0;
  /// Of attention: its kernel's rate, as a part of the device's best one.
  double rate = 1;
  Width width = Width::Bits16;
  /// Of `Bytes`, what `timeOf` of collectives says of `Communication`, and what `Attention` takes
  /// and gives, which it is never faster than.
  double bytes = 0;
  /// Kernels that it launches.
  double kernels = 1;
  /// What it copies between the device's memory and the host's; it is no kernel then, and has no
  /// other work.
  double hostBytes = 0;
  Collective collective = Collective::AllReduce;
  /// Of an all-to-all: how many ranks each token goes to; 0: the bytes are divided evenly among all
  /// ranks.
  double copies = 0;

  bool operator==(const OpWork &) const = default;
};

/// Seconds of a kernel without its launch, of a copy to or from the host, and of a communication
/// among `group`, which is not used otherwise. Communication that nothing receives, in a group of
/// one, takes none.
double timeOf(const Cluster &cluster, const OpWork &op, const Group &group);

/// Floating-point operations; of attention all pairs of positions count, masked or not.
double flopsOf(const OpWork &op);

/// Bytes that a rank sends, by the algorithm that sends the least.
double sentBytes(const OpWork &op, const Group &group);

} // namespace cleave::cost

#endif // CLEAVE_LIB_COST_OPWORK_H
