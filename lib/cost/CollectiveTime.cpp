//===- CollectiveTime.cpp - rings, trees, and exchanges between all -----------===//

#include "lib/cost/CollectiveTime.h"

#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>

using namespace cleave::cost;

/// Bytes per second of one device of a unit of `size` in which all send.
static double bandwidthOf(const Level &level, int64_t size) {
  double bandwidth = level.link.bandwidth * level.width;
  return level.link.shared != 0 && size > 0 ? bandwidth / static_cast<double>(size) : bandwidth;
}

/// Devices of the run below a level: what one link of it serves.
static int64_t sizeBelow(const Cluster &cluster, size_t level) {
  int64_t size = level == 0 ? cluster.levels[0].size : cluster.levels[level - 1].size;
  return cluster.devices ? std::min(size, cluster.devices) : size;
}

/// What NCCL sends at once on a ring: its buffer of 4 MiB has 8 slots. While a slot is on its way
/// the next ones follow, but for the first of a step, which travels like a message of its own.
static constexpr double slot = 512 * 1024;

namespace {
/// The levels that a group crosses: of each, how many parts meet there, and how many ranks each
/// part brings with it.
struct Crossing {
  const Link *link;
  double bandwidth; // of one rank
  int64_t parts, ranks;
  bool isNode; // the innermost of several levels
};
} // namespace

static llvm::SmallVector<Crossing, 4> crossings(const Cluster &cluster, const Group &group) {
  llvm::SmallVector<Crossing, 4> result;
  int64_t inside = 1;
  for (size_t i = 0; i < cluster.levels.size() && inside < group.size; ++i) {
    const Level &level = cluster.levels[i];
    int64_t within = ranksWithin(group, level.size);
    if (within > inside)
      result.push_back({&level.link, bandwidthOf(level, sizeBelow(cluster, i)),
                        (within + inside - 1) / inside, inside, i == 0 && level.size != 0});
    inside = std::max(inside, within);
  }
  return result;
}

double cleave::cost::timeOf(const Cluster &cluster, Collective kind, const Group &group,
                            double bytes) {
  if (group.size <= 1 || bytes <= 0)
    return 0;
  if (kind == Collective::Send)
    return sendTime(cluster, group.stride, bytes);
  double n = static_cast<double>(group.size);
  llvm::SmallVector<Crossing, 4> levels = crossings(cluster, group);
  double start = levels.empty() ? 0 : levels.back().link->startSeconds;
  if (kind == Collective::AllToAll) {
    // What goes to ranks beyond a level's units leaves through the next one's links.
    double seconds = 0, latency = 0;
    for (const Crossing &level : levels) {
      double beyond = (n - static_cast<double>(level.ranks)) / n;
      seconds =
          std::max(seconds, bytes * beyond / (level.bandwidth * level.link->allToAllEfficiency));
      latency += level.link->latency * std::log2(static_cast<double>(level.parts) + 1);
    }
    return start + seconds + latency;
  }
  // A ring enters and leaves each unit once; as many rings as ranks in it share its links.
  double ringStep = 0, tree = 0, steps = 0, treeSteps = 0;
  for (const Crossing &level : levels) {
    const Link &link = *level.link;
    double rings = static_cast<double>(level.ranks);
    double bandwidth = level.bandwidth * rings;
    // Each ring enters a unit at one device and leaves it at another, which has another network
    // card: before NCCL could pass data on to the card's own device (PXN, 2.12), it crossed the
    // host.
    if (level.ranks > 1 && group.stride > 1)
      bandwidth *= link.stridedEfficiency;
    auto pass = [&](double part) {
      double first = cluster.firstSlots ? std::min(part, slot * rings) : 0;
      return first / (bandwidth * std::min(link.pointToPointEfficiency, link.efficiency)) +
             (part - first) / (bandwidth * link.efficiency);
    };
    ringStep = std::max(ringStep, pass(bytes / n));
    tree = std::max(tree, pass(bytes));
    double parts = static_cast<double>(level.parts);
    // Of the ring's n - 1 steps, those between parts of this level: in each unit of it.
    double units = n / (parts * rings);
    steps += link.latency * (parts - 1) * units;
    treeSteps += link.latency * (level.isNode ? parts - 1 : std::ceil(std::log2(parts)));
  }
  double passes = kind == Collective::AllReduce ? 2 : 1;
  double ring = passes * ((n - 1) * ringStep + steps);
  if (kind != Collective::AllReduce)
    return start + ring;
  return start + std::min(ring, 2 * (tree + treeSteps));
}

double cleave::cost::exchangeTime(const Cluster &cluster, const Group &group, double bytes,
                                  double copies) {
  if (group.size <= 1 || bytes <= 0)
    return 0;
  double n = static_cast<double>(group.size), seconds = 0, latency = 0;
  llvm::SmallVector<Crossing, 4> levels = crossings(cluster, group);
  double start = levels.empty() ? 0 : levels.back().link->startSeconds;
  for (const Crossing &level : levels) {
    double units = n / static_cast<double>(level.ranks);
    double others = (units - 1) * (1 - std::pow(1 - 1 / units, copies));
    seconds =
        std::max(seconds, bytes * others / (level.bandwidth * level.link->allToAllEfficiency));
    latency += level.link->latency * std::log2(static_cast<double>(level.parts) + 1);
  }
  return start + seconds + latency;
}

double cleave::cost::sendTime(const Cluster &cluster, int64_t stride, double bytes) {
  const Level *level = findLevel(cluster, stride);
  if (bytes <= 0 || !level)
    return 0;
  int64_t below = sizeBelow(cluster, static_cast<size_t>(level - cluster.levels.data()));
  return level->link.latency +
         bytes / (bandwidthOf(*level, below) * level->link.pointToPointEfficiency);
}
