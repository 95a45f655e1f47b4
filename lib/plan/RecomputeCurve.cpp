// Minimum cuts at several prices.
#include "lib/plan/RecomputeCurve.h"

#include "lib/solve/MinCut.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace cleave::plan;
using cleave::solve::Network;

namespace {
/// What is on the source's side is in the backward: a value, or an op that it recomputes.
class PricedNetwork {
public:
  PricedNetwork(const RecomputeGraph &graph, RecomputeWeights weights)
      : graph(graph), weights(weights) {
    for (const RecomputeGraph::Op &op : graph.ops)
      seconds += timeOf(op);
    for (const RecomputeGraph::Value &value : graph.values)
      bytes += value.bytes;
  }

  /// The least of `time` times the seconds of ops plus `price` times the bytes of what is saved.
  double cut(double time, double price) const {
    const double total = time * seconds + price * bytes;
    if (total == 0)
      return 0;
    Network network;
    const Network::Node source = network.addNode(), sink = network.addNode();
    const auto firstOp = Network::Node(2 + graph.values.size());
    for (size_t node = 0; node < graph.values.size() + graph.ops.size(); ++node)
      network.addNode();
    // Rounded down, so that the cut is no more than what it stands for.
    const double scale = 0x1p58 / total;
    auto widthOf = [&](double amount) { return int64_t(amount * scale); };
    for (auto [number, value] : llvm::enumerate(graph.values)) {
      const auto node = Network::Node(2 + number);
      if (value.isNeeded)
        network.addEdge(source, node, Network::kUnlimited);
      network.addEdge(node, value.op == RecomputeGraph::none ? sink : firstOp + value.op,
                      widthOf(price * value.bytes));
    }
    for (auto [number, op] : llvm::enumerate(graph.ops)) {
      const auto node = firstOp + Network::Node(number);
      network.addEdge(node, sink, widthOf(time * timeOf(op)));
      for (unsigned operand : op.operands)
        network.addEdge(node, Network::Node(2 + operand), Network::kUnlimited);
    }
    // Each value may be saved, so there is a cut.
    return double(network.findMinCut(source, sink)->capacity) / scale * (1 - 1e-12);
  }

  /// At which bytes and seconds weigh alike.
  double getMiddlePrice() const { return bytes > 0 ? seconds / bytes : 0; }

private:
  double timeOf(const RecomputeGraph::Op &op) const {
    return weights.kernels * op.seconds + weights.sent * op.sent;
  }

  const RecomputeGraph &graph;
  RecomputeWeights weights;
  double seconds = 0, bytes = 0;
};
} // namespace

RecomputeCurve::RecomputeCurve(const RecomputeGraph &graph, RecomputeWeights weights) {
  constexpr double ratio = 1.25, farthest = 256;
  const PricedNetwork network(graph, weights);
  const double middle = network.getMiddlePrice();
  leastBytes = network.cut(/*time=*/0, /*price=*/1);
  if (middle == 0)
    return;
  for (double price = middle / farthest; price <= middle * farthest; price *= ratio)
    points.push_back({price, network.cut(/*time=*/1, price)});
}

RecomputeCurve RecomputeCurve::leastOf(llvm::ArrayRef<const RecomputeCurve *> curves) {
  RecomputeCurve least;
  for (const RecomputeCurve *curve : curves)
    llvm::append_range(least.points, curve->points);
  llvm::sort(least.points, [](Point a, Point b) { return a.price < b.price; });
  auto findLeast = [&](auto of) {
    double found = std::numeric_limits<double>::infinity();
    for (const RecomputeCurve *curve : curves)
      found = std::min(found, of(*curve));
    return found;
  };
  least.leastBytes = findLeast([](const RecomputeCurve &curve) { return curve.leastBytes; });
  for (Point &point : least.points)
    point.cost = findLeast([&](const RecomputeCurve &curve) { return curve.at(point.price); });
  return least;
}

double RecomputeCurve::at(double price) const {
  if (points.empty())
    return price * leastBytes;
  auto next = llvm::upper_bound(points, price,
                                [](double price, Point point) { return price < point.price; });
  if (next == points.end())
    return points.back().cost + (price - points.back().price) * leastBytes;
  Point from = next == points.begin() ? Point{0, 0} : *std::prev(next);
  return from.cost + (next->cost - from.cost) * (price - from.price) / (next->price - from.price);
}
