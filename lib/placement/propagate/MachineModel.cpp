//===- MachineModel.cpp - what redistributions cost ----------------------------===//

#include "lib/placement/propagate/MachineModel.h"

using namespace cleave;
using namespace cleave::placement::propagate;
using dist::AxisPlacement;

double AxisCosts::bytesSent(AxisPlacement from, AxisPlacement to, double bytes) const {
  if (from == to)
    return 0;
  double n = static_cast<double>(ranks);
  if (from.isPartial())
    return (to.isShard() ? 1 : 2) * bytes * (n - 1) / n;
  if (from.isShard() && to.isShard())
    return bytes * (n - 1) / (n * n);
  if (from.isShard() && (to.isReplicate() || !to.isPartialSum()))
    return bytes * (n - 1) / n;
  return 0;
}

double AxisCosts::redistribute(AxisPlacement from, AxisPlacement to, double bytes) const {
  if (from == to)
    return 0;
  // No communication makes a pending product of anything else.
  if (to.isPartial() && to.reduction == dist::Reduction::Product)
    return kImpossible;
  double sent = bytesSent(from, to, bytes);
  bool isAllReduce = from.isPartial() && !to.isShard();
  return kTieBreak + send(sent) + (sent && isAllReduce ? hops() : 0);
}
