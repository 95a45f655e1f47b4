//===- MachineModel.cpp - what redistributions cost ----------------------------===//

#include "lib/placement/propagate/MachineModel.h"

using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisPlacement;

llvm::SmallVector<cost::Group> propagate::getGroups(llvm::ArrayRef<MeshAxis> axes) {
  llvm::SmallVector<cost::Group> groups(axes.size());
  int64_t stride = 1;
  for (size_t axis = axes.size(); axis-- > 0;) {
    groups[axis] = {axes[axis].size, stride};
    stride *= axes[axis].size;
  }
  return groups;
}

cost::Cluster MachineModel::describe(llvm::ArrayRef<MeshAxis> axes) const {
  if (cluster)
    return *cluster;
  cost::Cluster described;
  double fastest = any.bandwidth;
  for (const auto &link : links)
    fastest = std::max(fastest, link.second.bandwidth);
  described.device = cost::makeNominalDevice(fastest / work);
  int64_t devices = 1;
  for (const MeshAxis &axis : llvm::reverse(axes)) {
    AxisLink link = getLink(axis.name);
    cost::Level &level = described.levels.emplace_back();
    level.link.bandwidth = link.bandwidth;
    level.link.latency = link.latency;
    level.size = devices *= axis.size;
  }
  return described;
}

/// What communication takes a value from one placement to the other, and how large it is then, as
/// `cost::timeOf` counts; none where nothing is sent.
static std::optional<std::pair<cost::Collective, double>>
getCollective(AxisPlacement from, AxisPlacement to, double bytes, int64_t ranks) {
  if (from.isPartial())
    return std::pair(to.isShard() ? cost::Collective::ReduceScatter : cost::Collective::AllReduce,
                     bytes);
  if (from.isShard() && to.isShard())
    return std::pair(cost::Collective::AllToAll, bytes / static_cast<double>(ranks));
  if (from.isShard() && (to.isReplicate() || !to.isPartialSum()))
    return std::pair(cost::Collective::AllGather, bytes);
  return std::nullopt;
}

double AxisCosts::redistribute(AxisPlacement from, AxisPlacement to, double bytes) const {
  if (from == to)
    return 0;
  // No communication makes a pending product of anything else.
  if (to.isPartial() && to.reduction == dist::Reduction::Product)
    return kImpossible;
  auto collective = getCollective(from, to, bytes, ranks.size);
  return kTieBreak +
         (collective ? cost::timeOf(cluster, collective->first, ranks, collective->second) : 0);
}

double AxisCosts::send(double bytes) const {
  auto n = static_cast<double>(ranks.size);
  // A gather of so large a value sends these bytes.
  return cost::timeOf(cluster, cost::Collective::AllGather, ranks, bytes * n / (n - 1));
}
