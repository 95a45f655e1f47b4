//===- MachineModel.h - what it costs to move and to compute ------------*- C++ -*-===//
//
// The machine as propagation sees it: a cluster of lib/cost, described by a file or by a few
// numbers on the links along each mesh axis and on what a byte of work is worth against a byte
// sent.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_MACHINEMODEL_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_MACHINEMODEL_H

#include "lib/cost/CollectiveTime.h"
#include "lib/placement/Strategy.h"

#include "llvm/ADT/StringMap.h"

#include <optional>

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
  /// What the nominal device takes for a byte of work, in bytes sent over the fastest link. Large:
  /// what the annotations let divide is divided, unless that moves many times what the op works on.
  double work = 16;
  /// Microbatches per step, by which what an update does once is cheaper.
  double microbatches = 4;
  /// What is described by a file, in place of links and work.
  std::optional<cost::Cluster> cluster;

  AxisLink getLink(llvm::StringRef axis) const {
    auto it = links.find(axis);
    return it == links.end() ? any : it->second;
  }
  /// The cluster that ranks of a mesh with these axes run on, numbered as on the mesh: the last
  /// axis has neighbours. Without a description each axis is a level with links of its own.
  cost::Cluster describe(llvm::ArrayRef<MeshAxis> axes) const;
};

/// The ranks along each axis.
llvm::SmallVector<cost::Group> getGroups(llvm::ArrayRef<MeshAxis> axes);

/// Costs along one axis. Sizes are in bytes of what the ranks along it hold together.
class AxisCosts {
public:
  AxisCosts(const cost::Cluster &cluster, cost::Group ranks) : cluster(cluster), ranks(ranks) {}

  /// Seconds of a redistribution. One that sends nothing takes next to nothing, but more than none.
  double redistribute(dist::AxisPlacement from, dist::AxisPlacement to, double bytes) const;
  /// Seconds until each rank has sent so many bytes to its neighbour, inside a form.
  double send(double bytes) const;

private:
  const cost::Cluster &cluster;
  cost::Group ranks;
};

/// Seconds that settle which of two equal ways is taken: less than any real cost.
constexpr double kTieBreak = 1e-10;
/// Seconds for what there is no way to do: more than any real cost.
constexpr double kImpossible = 1e15;

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_MACHINEMODEL_H
