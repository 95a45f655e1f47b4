//===- OpTime.h - seconds of matrix products, attention, moved bytes -*- C++ -*-===//

#ifndef CLEAVE_LIB_COST_OPTIME_H
#define CLEAVE_LIB_COST_OPTIME_H

#include "lib/cost/Device.h"

namespace cleave::cost {

/// `batch` products of m x k by k x n.
struct MatrixProduct {
  double batch = 1, m = 0, n = 0, k = 0;
  Width width = Width::Bits16;
  /// Bytes of an element that the result is added to, in place; 0: it is only written.
  double added = 0;

  double flops() const { return 2 * batch * m * n * k; }
  bool operator==(const MatrixProduct &) const = default;
  /// Operands in their width, results in 16 bits, or 32 if the operands have as many.
  double bytes() const;
};

/// Seconds of one kernel without its launch. The result is cut into tiles (but for a device of
/// which it is not known how many processors it has: then only operations and bytes count); the
/// processors run one each, in waves, and a last wave that is not full takes as long as a full one.
/// A tile takes the time of its k steps and of `depthOverhead` more. A product is never faster than
/// its bytes. Of the tile sizes that kernels are written for, the fastest counts, with k split
/// where the tiles leave processors idle.
double timeOf(const Device &device, const MatrixProduct &product);

/// Operations a second that a large product of this width reaches; 0 where the device's file has no
/// rate for 32 bits.
double reachedFlops(const Device &device, Width width);

/// Fused (flash) attention: never slower than its operations at the reached rate allow, by tiles of
/// 128 queries; `flops` counts the pairs of positions that are not masked, and `rate` is the part
/// of the reached rate that a kernel for such heads has, on a device with processors of which tiles
/// are known.
double attentionTime(const Device &device, double flops, double tiles, Width width = Width::Bits16,
                     double rate = 1);

/// The rate of fused attention with heads of this depth (the mean of queries' and values'), as a
/// part of that with the usual 128: a pair's softmax takes as long whatever its depth. On an H100,
/// cuDNN's forward has two thirds of its rate left where heads are 64 deep, and its backward five
/// sixths (arXiv 2407.08608, figures 5 and 6); FlashAttention's forward on a B200 has two thirds as
/// well (its pull request 2605).
double rateOfHeads(double depth, bool isBackward);

/// A kernel that moves bytes and computes next to nothing.
double timeOfBytes(const Device &device, double bytes);

/// Seconds of kernels that take `busy` on the device, and `host` to be launched: the longer of the
/// two, and more where they are alike.
double timeOfLaunched(double busy, double host);

} // namespace cleave::cost

#endif // CLEAVE_LIB_COST_OPTIME_H
