//===- MaxFlow.cpp - maximum flow and minimum cut ----------------------------===//

#include "lib/backward/MaxFlow.h"

#include <algorithm>

using namespace cleave::backward;

unsigned MaxFlow::addNode() {
  edgesOf.emplace_back();
  return edgesOf.size() - 1;
}

void MaxFlow::addEdge(unsigned from, unsigned to, int64_t capacity) {
  edgesOf[from].push_back(edges.size());
  edges.push_back({to, std::min(capacity, kInfinite)});
  edgesOf[to].push_back(edges.size());
  edges.push_back({from, 0});
}

bool MaxFlow::findLevels(unsigned source, unsigned sink) {
  level.assign(edgesOf.size(), -1);
  level[source] = 0;
  std::vector<unsigned> queue{source};
  for (size_t i = 0; i < queue.size(); ++i)
    for (unsigned index : edgesOf[queue[i]])
      if (const Edge &edge = edges[index]; edge.capacity > 0 && level[edge.to] < 0) {
        level[edge.to] = level[queue[i]] + 1;
        queue.push_back(edge.to);
      }
  return level[sink] >= 0;
}

/// Sends as much as possible along one path from level to level; 0 where there is none left. A loop
/// and not a recursion: paths are as long as programs.
int64_t MaxFlow::augment(unsigned source, unsigned sink) {
  std::vector<unsigned> path;
  unsigned node = source;
  while (node != sink) {
    bool hasAdvanced = false;
    for (; next[node] < edgesOf[node].size(); ++next[node]) {
      const Edge &edge = edges[edgesOf[node][next[node]]];
      if (edge.capacity > 0 && level[edge.to] == level[node] + 1) {
        path.push_back(edgesOf[node][next[node]]);
        node = edge.to;
        hasAdvanced = true;
        break;
      }
    }
    if (hasAdvanced)
      continue;
    if (path.empty())
      return 0;
    node = edges[path.back() ^ 1].to;
    path.pop_back();
    ++next[node];
  }
  int64_t amount = kInfinite;
  for (unsigned index : path)
    amount = std::min(amount, edges[index].capacity);
  for (unsigned index : path) {
    edges[index].capacity -= amount;
    edges[index ^ 1].capacity += amount;
  }
  return amount;
}

int64_t MaxFlow::solve(unsigned source, unsigned sink) {
  int64_t flow = 0;
  // The last search finds no way to the sink, and its levels are the source's side of the cut.
  while (findLevels(source, sink)) {
    next.assign(edgesOf.size(), 0);
    while (int64_t amount = augment(source, sink)) {
      flow += amount;
      if (flow >= kInfinite)
        return flow;
    }
  }
  return flow;
}
