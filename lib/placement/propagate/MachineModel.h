//===- MachineModel.h - what it costs to move and to compute ------------*- C++ -*-===//
//
// The machine as propagation sees it: links along each mesh axis, and what a byte of work is worth
// against a byte sent.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_MACHINEMODEL_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_MACHINEMODEL_H

#include "dialects/dist/Placement.h"

#include "llvm/ADT/StringMap.h"

namespace cleave::placement::propagate {

/// A link between two ranks along an axis.
struct AxisLink {
  /// Bytes per second; an NVLink or a rail of a cluster's network.
  double bandwidth = 25e9;
  /// Seconds that each hop of a collective takes on top. None by default: small collectives are
  /// merged later, so that their number says little.
  double latency = 0;
};

struct MachineModel {
  llvm::StringMap<AxisLink> links;
  AxisLink any;
  /// What a byte of work (OpCost.h) costs, in bytes sent over the fastest link. Large: what the
  /// annotations let divide is divided, unless that moves many times what the op works on.
  double work = 16;
  /// Microbatches per step, by which what an update does once is cheaper.
  double microbatches = 4;

  AxisLink getLink(llvm::StringRef axis) const {
    auto it = links.find(axis);
    return it == links.end() ? any : it->second;
  }
};

/// Costs along one axis. Sizes are in bytes of what the ranks along it hold together.
class AxisCosts {
public:
  AxisCosts(int64_t ranks, AxisLink link) : ranks(ranks), link(link) {}

  /// What one rank sends where a value of `bytes` bytes is redistributed: by a ring for gathers and
  /// reductions, twice as much for an all_reduce.
  double bytesSent(dist::AxisPlacement from, dist::AxisPlacement to, double bytes) const;
  /// Seconds for that. A conversion that sends nothing takes next to nothing, but more than none.
  double redistribute(dist::AxisPlacement from, dist::AxisPlacement to, double bytes) const;
  /// Seconds to send so many bytes inside a form.
  double send(double bytes) const { return bytes ? bytes / link.bandwidth + hops() : 0; }

private:
  double hops() const { return link.latency * static_cast<double>(ranks - 1); }

  int64_t ranks;
  AxisLink link;
};

/// Seconds that settle which of two equal ways is taken: less than any real cost.
constexpr double kTieBreak = 1e-10;
/// Seconds for what there is no way to do: more than any real cost.
constexpr double kImpossible = 1e15;

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_MACHINEMODEL_H
