//===- RecomputeUnits.cpp - what is best recomputed together ----------------===//

#include "lib/backward/RecomputeUnits.h"

#include "lib/solve/MinCut.h"

#include "llvm/ADT/EquivalenceClasses.h"

#include <cmath>
#include <map>

using namespace cleave::backward;
using cleave::solve::Network;
using llvm::BitVector;
using Fate = PartitionCosts::Fate;

/// Cuts that are made at most: enough for some twenty different kinds of ops.
static constexpr unsigned kMaxCuts = 40;
/// What more ops than this use, such as a mask that all layers share, joins no units.
static constexpr unsigned kMaxUses = 6;

namespace {
/// What a price recomputes, and the bytes and the time that it comes to.
struct Cut {
  BitVector again;
  double bytes = 0, time = 0;
};

class PriceSweep {
public:
  explicit PriceSweep(const PartitionCosts &costs) : costs(costs) {
    for (unsigned value = 0; value < costs.countValues(); ++value)
      if (isCounted(value))
        totalBytes += double(costs.getBytes(value));
    for (unsigned value = 0; value < costs.countValues(); ++value)
      if (unsigned op = costs.getOp(value);
          op != PartitionCosts::kNone && costs.getResults(op).front() == value)
        totalTime += double(costs.getTime(op));
  }

  /// From the lowest price to the highest, each with more than the one before.
  std::vector<Cut> run() {
    if (costs.getChoices().empty() || totalBytes == 0)
      return {};
    // Prices at which nothing but bytes, or nothing but time counts in effect.
    double low = 1e-9 * std::max(totalTime, 1.0) / totalBytes;
    double high = 1e9 * std::max(totalTime, 1.0) / totalBytes;
    cuts.push_back(cut(low));
    Cut last = cut(high);
    refine(cuts.front(), last);
    cuts.push_back(std::move(last));
    return std::move(cuts);
  }

private:
  bool isCounted(unsigned value) const {
    return costs.getFate(value) == Fate::Choice || costs.getFate(value) == Fate::Saved;
  }

  /// Adds what lies between two cuts, in order.
  void refine(Cut from, const Cut &to) {
    if (to.bytes >= from.bytes || to.time <= from.time || numCuts >= kMaxCuts)
      return;
    double price = (to.time - from.time) / (from.bytes - to.bytes);
    Cut middle = cut(price);
    double line = from.time + price * from.bytes;
    if (middle.time + price * middle.bytes >= line * (1 - 1e-7) || middle.again == from.again)
      return;
    refine(std::move(from), middle);
    cuts.push_back(middle);
    refine(std::move(middle), to);
  }

  Cut cut(double price) const;

  const PartitionCosts &costs;
  double totalBytes = 0, totalTime = 0;
  mutable unsigned numCuts = 0;
  std::vector<Cut> cuts;
};
} // namespace

/// A value is an edge as wide as what saving it costs, an op one from the source as wide as what
/// recomputing it costs: which also asks for its operands.
Cut PriceSweep::cut(double price) const {
  ++numCuts;
  Network network;
  Network::Node source = network.addNode(), sink = network.addNode();
  // The sum of all capacities stays below what a network can hold.
  double scale = 0x1p58 / (price * totalBytes + totalTime + 1);
  auto widthOf = [&](double amount) {
    return amount > 0 ? std::max<int64_t>(1, std::llround(amount * scale)) : 0;
  };
  std::vector<Network::Node> nodes(costs.countValues(), 0);
  llvm::DenseMap<unsigned, Network::Node> nodeOfOp;
  std::vector<unsigned> worklist;
  auto nodeOf = [&](unsigned value) {
    if (nodes[value] == 0) {
      nodes[value] = network.addNode();
      network.addNode();
      worklist.push_back(value);
    }
    return nodes[value];
  };
  auto isThere = [&](unsigned value) {
    return costs.getFate(value) == Fate::There || costs.getFate(value) == Fate::Own;
  };
  for (unsigned value : costs.getNeeds())
    if (!isThere(value))
      network.addEdge(nodeOf(value) + 1, sink, Network::kUnlimited);
  while (!worklist.empty()) {
    unsigned value = worklist.back();
    worklist.pop_back();
    Network::Node node = nodes[value];
    bool isSavable = isCounted(value);
    network.addEdge(node, node + 1,
                    isSavable ? widthOf(price * double(costs.getBytes(value)))
                              : Network::kUnlimited);
    if (costs.getFate(value) == Fate::Saved) {
      network.addEdge(source, node, Network::kUnlimited);
      continue;
    }
    unsigned op = costs.getOp(value);
    auto [entry, isNew] = nodeOfOp.try_emplace(op, 0);
    if (isNew) {
      entry->second = network.addNode();
      Network::Node opNode = entry->second;
      network.addEdge(source, opNode, widthOf(double(costs.getTime(op))));
      for (unsigned operand : costs.getOperands(op))
        if (!isThere(operand))
          network.addEdge(nodeOf(operand) + 1, opNode, Network::kUnlimited);
    }
    network.addEdge(nodeOfOp.lookup(op), node, Network::kUnlimited);
  }
  Cut result;
  result.again.resize(unsigned(costs.getChoices().size()));
  std::optional<Network::Cut> found = network.findMinCut(source, sink);
  if (!found)
    return result;
  for (unsigned value = 0; value < costs.countValues(); ++value) {
    if (nodes[value] == 0)
      continue;
    bool isAgain = found->sinkSide.test(nodes[value]);
    if (costs.getFate(value) == Fate::Choice && isAgain)
      result.again.set(costs.getChoice(value));
    if (isCounted(value) && !isAgain && found->sinkSide.test(nodes[value] + 1))
      result.bytes += double(costs.getBytes(value));
  }
  for (auto [op, node] : nodeOfOp)
    if (found->sinkSide.test(node))
      result.time += double(costs.getTime(op));
  return result;
}

namespace {
/// The units that lie between two cuts.
class UnitFinder {
public:
  UnitFinder(const PartitionCosts &costs) : costs(costs), uses(costs.countValues()) {
    for (unsigned value = 0; value < costs.countValues(); ++value)
      if (unsigned op = costs.getOp(value);
          op != PartitionCosts::kNone && costs.getResults(op).front() == value)
        for (unsigned operand : costs.getOperands(op))
          ++uses[operand];
  }

  void add(const BitVector &added) {
    llvm::EquivalenceClasses<unsigned> classes;
    for (unsigned choice : added.set_bits()) {
      classes.insert(choice);
      joinOperands(choice, added, classes);
    }
    std::vector<RecomputeUnit> found;
    for (const auto *leader : classes) {
      if (!leader->isLeader())
        continue;
      RecomputeUnit &unit = found.emplace_back();
      for (auto member = classes.member_begin(*leader); member != classes.member_end(); ++member)
        unit.choices.push_back(*member);
      llvm::sort(unit.choices);
    }
    llvm::sort(found, [](const RecomputeUnit &a, const RecomputeUnit &b) {
      return a.choices.front() < b.choices.front();
    });
    // Like units have the same values to recompute.
    std::map<std::vector<int64_t>, unsigned> likenesses;
    for (RecomputeUnit &unit : found) {
      std::vector<int64_t> key;
      for (unsigned choice : unit.choices) {
        unsigned value = costs.getValue(choice);
        key.push_back(costs.getBytes(value));
        key.push_back(costs.getTime(costs.getOp(value)));
      }
      auto [entry, isNew] = likenesses.try_emplace(std::move(key), numLikenesses);
      numLikenesses += isNew;
      unit.likeness = entry->second;
    }
    llvm::append_range(units, found);
  }
  std::vector<RecomputeUnit> units;

private:
  /// With what the choice is computed from, through values that are always recomputed.
  void joinOperands(unsigned choice, const BitVector &added,
                    llvm::EquivalenceClasses<unsigned> &classes) {
    llvm::SmallVector<unsigned> worklist = {costs.getValue(choice)};
    while (!worklist.empty()) {
      unsigned op = costs.getOp(worklist.pop_back_val());
      for (unsigned operand : costs.getOperands(op)) {
        if (uses[operand] > kMaxUses)
          continue;
        if (costs.getFate(operand) == Fate::Again)
          worklist.push_back(operand);
        else if (costs.getFate(operand) == Fate::Choice && added.test(costs.getChoice(operand)))
          classes.unionSets(choice, costs.getChoice(operand));
      }
    }
  }

  const PartitionCosts &costs;
  std::vector<unsigned> uses;
  unsigned numLikenesses = 0;
};
} // namespace

std::vector<RecomputeUnit> cleave::backward::findRecomputeUnits(const PartitionCosts &costs) {
  UnitFinder finder(costs);
  BitVector known(unsigned(costs.getChoices().size()));
  for (const Cut &cut : PriceSweep(costs).run()) {
    BitVector added = cut.again;
    added.reset(known);
    known |= added;
    finder.add(added);
  }
  // What no price recomputes: what the backward needs only where something else is recomputed.
  BitVector rest = known;
  rest.flip();
  finder.add(rest);
  return std::move(finder.units);
}
