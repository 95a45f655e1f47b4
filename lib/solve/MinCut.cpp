//===- MinCut.cpp - minimum cuts of networks with capacities -----------------===//

#include "lib/solve/MinCut.h"

#include <algorithm>
#include <cassert>

using namespace cleave::solve;

int64_t Network::chooseScale(double total, int64_t wanted) {
  constexpr double kMost = double(int64_t(1) << 61);
  while (wanted > 1 && total * double(wanted) >= kMost)
    wanted /= 2;
  return wanted;
}

void Network::addEdge(Node from, Node to, int64_t capacity) {
  assert(from < numNodes && to < numNodes && capacity >= 0 && "no such edge");
  pending.push_back({from, to, capacity});
}

/// Lays all edges out by the node they leave, each with its opposite.
void Network::build(int64_t unlimited) {
  begin.assign(numNodes + 1, 0);
  for (const Pending &edge : pending) {
    ++begin[edge.from + 1];
    ++begin[edge.to + 1];
  }
  for (Node node = 0; node < numNodes; ++node)
    begin[node + 1] += begin[node];
  std::vector<uint32_t> place(begin.begin(), begin.end() - 1);
  edges.resize(begin.back());
  for (const Pending &edge : pending) {
    uint32_t forward = place[edge.from]++, backward = place[edge.to]++;
    edges[forward] = {edge.to, backward, std::min(edge.capacity, unlimited)};
    edges[backward] = {edge.from, forward, 0};
  }
}

/// Distances to the sink along edges with capacity left. Whether the source has one.
bool Network::findDistances(Node source, Node sink) {
  distance.assign(numNodes, -1);
  distance[sink] = 0;
  std::vector<Node> queue = {sink};
  for (size_t head = 0; head < queue.size(); ++head) {
    Node node = queue[head];
    for (uint32_t i = begin[node]; i < begin[node + 1]; ++i) {
      Node from = edges[i].to;
      if (distance[from] >= 0 || edges[edges[i].reverse].residual == 0)
        continue;
      distance[from] = distance[node] + 1;
      if (from != source)
        queue.push_back(from);
    }
  }
  return distance[source] >= 0;
}

/// Pushes flow along shortest paths until none is left, without recursion: paths may be long.
int64_t Network::augment(Node source, Node sink) {
  next.assign(begin.begin(), begin.end() - 1);
  std::vector<uint32_t> path;
  int64_t total = 0;
  Node node = source;
  while (true) {
    if (node == sink) {
      int64_t amount = kUnlimited;
      for (uint32_t edge : path)
        amount = std::min(amount, edges[edge].residual);
      total += amount;
      // Go on from the first edge that is full now.
      size_t full = path.size();
      for (size_t i = path.size(); i-- > 0;) {
        edges[path[i]].residual -= amount;
        edges[edges[path[i]].reverse].residual += amount;
        if (edges[path[i]].residual == 0)
          full = i;
      }
      node = edges[edges[path[full]].reverse].to;
      path.resize(full);
      continue;
    }
    uint32_t &edge = next[node];
    while (edge < begin[node + 1] &&
           (edges[edge].residual == 0 || distance[edges[edge].to] != distance[node] - 1))
      ++edge;
    if (edge < begin[node + 1]) {
      path.push_back(edge);
      node = edges[edge].to;
      continue;
    }
    if (path.empty())
      return total;
    // A dead end: its predecessor looks further.
    uint32_t last = path.back();
    path.pop_back();
    node = edges[edges[last].reverse].to;
    ++next[node];
  }
}

llvm::BitVector Network::findSinkSide(Node sink) const {
  llvm::BitVector side(numNodes);
  side.set(sink);
  std::vector<Node> queue = {sink};
  for (size_t head = 0; head < queue.size(); ++head)
    for (uint32_t i = begin[queue[head]]; i < begin[queue[head] + 1]; ++i) {
      Node from = edges[i].to;
      if (side.test(from) || edges[edges[i].reverse].residual == 0)
        continue;
      side.set(from);
      queue.push_back(from);
    }
  return side;
}

std::optional<Network::Cut> Network::findMinCut(Node source, Node sink) {
  // More than all finite edges can carry together stands for no limit: a flow of as much has found
  // a path without one, and nothing overflows.
  int64_t finite = 0;
  for (const Pending &edge : pending)
    if (edge.capacity != kUnlimited)
      finite += edge.capacity;
  int64_t unlimited = finite + 1;
  build(unlimited);
  Cut cut;
  while (findDistances(source, sink)) {
    cut.capacity += augment(source, sink);
    if (cut.capacity >= unlimited)
      return std::nullopt;
  }
  cut.sinkSide = findSinkSide(sink);
  return cut;
}
