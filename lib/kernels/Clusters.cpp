//===- Clusters.cpp - which ops become one kernel ---------------------------===//

#include "lib/kernels/Clusters.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave::kernels;

namespace {

class ClusterFinder {
public:
  ClusterFinder(Block &block, const ClusterOptions &options) : block(block), options(options) {}

  std::vector<Cluster> run();

private:
  static constexpr int kNone = -1;
  /// Ops that a search for a cycle looks at before it gives up and takes it for one.
  static constexpr size_t kMostVisited = 4096;

  /// A cluster in the making. One that another has taken up is empty.
  struct Open {
    Cluster cluster;
    unsigned first = 0, last = 0;
    /// What each value made in it has of the matrix.
    llvm::DenseMap<Value, Extent> extents;
  };

  int clusterOf(Operation *op) const {
    auto it = owner.find(op);
    return it == owner.end() ? kNone : it->second;
  }
  void place(Operation *op);
  bool fits(Operation *op, const RowOp &rowOp, const Open &open) const;
  std::optional<Open> widen(const Open &open, Domain domain) const;
  bool dependsOn(Operation *op, int cluster, llvm::ArrayRef<int> joined) const;
  void add(Operation *op, const RowOp &rowOp, int cluster);
  void merge(int into, int from);
  void dropViews(Cluster &cluster) const;

  Block &block;
  const ClusterOptions &options;
  llvm::DenseMap<Operation *, unsigned> position;
  llvm::DenseMap<Operation *, int> owner;
  std::vector<Open> clusters;
};

} // namespace

/// Whether what the op takes from the cluster has the extent there that the op expects. Sums down
/// the columns are finished only when the last row is.
bool ClusterFinder::fits(Operation *op, const RowOp &rowOp, const Open &open) const {
  for (auto [operand, extent] : llvm::zip(op->getOperands(), rowOp.operands)) {
    auto made = open.extents.find(operand);
    if (made != open.extents.end() && (made->second != extent || extent == Extent::Column))
      return false;
  }
  return true;
}

/// The same ops over another matrix; none where they do not lie over it.
std::optional<ClusterFinder::Open> ClusterFinder::widen(const Open &open, Domain domain) const {
  constexpr size_t kMostOps = 16;
  if (open.cluster.ops.size() > kMostOps)
    return std::nullopt;
  Open widened = open;
  widened.cluster.domain = domain;
  widened.extents.clear();
  for (Operation *op : open.cluster.ops) {
    std::optional<RowOp> rowOp = analyzeRowOp(op, domain);
    if (!rowOp || !fits(op, *rowOp, widened))
      return std::nullopt;
    for (auto [result, extent] : llvm::zip(op->getResults(), rowOp->results))
      widened.extents[result] = extent;
  }
  return widened;
}

/// Whether what `op` takes from outside of the clusters `cluster` and `joined` needs something of
/// `cluster`.
bool ClusterFinder::dependsOn(Operation *op, int cluster, llvm::ArrayRef<int> joined) const {
  auto isInside = [&](Operation *other) {
    int its = clusterOf(other);
    return its != kNone && (its == cluster || llvm::is_contained(joined, its));
  };
  llvm::SmallVector<Operation *> waiting;
  llvm::DenseSet<Operation *> visited;
  llvm::DenseSet<int> visitedClusters;
  unsigned first = clusters[cluster].first;
  auto visitOperands = [&](Operation *of, bool isOutside) {
    for (Value operand : of->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      if (!maker || (isInside(maker) && !isOutside))
        continue;
      if (isInside(maker))
        return true;
      int its = clusterOf(maker);
      unsigned latest = its == kNone ? position.lookup(maker) : clusters[its].last;
      if (latest > first && visited.insert(maker).second)
        waiting.push_back(maker);
    }
    return false;
  };
  if (visitOperands(op, false))
    return true;
  for (int inside : joined)
    for (Operation *member : clusters[inside].cluster.ops)
      visitOperands(member, false);
  while (!waiting.empty()) {
    if (visited.size() > kMostVisited)
      return true;
    Operation *next = waiting.pop_back_val();
    int its = clusterOf(next);
    if (its == kNone) {
      if (visitOperands(next, true))
        return true;
    } else if (visitedClusters.insert(its).second) {
      // A kernel waits for all that any of its ops needs.
      for (Operation *member : clusters[its].cluster.ops)
        if (visitOperands(member, true))
          return true;
    }
  }
  return false;
}

void ClusterFinder::add(Operation *op, const RowOp &rowOp, int cluster) {
  Open &open = clusters[cluster];
  unsigned at = position.lookup(op);
  open.first = open.cluster.ops.empty() ? at : std::min(open.first, at);
  open.last = std::max(open.last, at);
  open.cluster.ops.push_back(op);
  for (auto [result, extent] : llvm::zip(op->getResults(), rowOp.results))
    open.extents[result] = extent;
  owner[op] = cluster;
}

void ClusterFinder::merge(int into, int from) {
  Open &target = clusters[into], &source = clusters[from];
  for (Operation *op : source.cluster.ops)
    owner[op] = into;
  llvm::append_range(target.cluster.ops, source.cluster.ops);
  target.extents.insert(source.extents.begin(), source.extents.end());
  target.first = std::min(target.first, source.first);
  target.last = std::max(target.last, source.last);
  source = Open();
}

/// Puts the op into the clusters of its operands that it fits, or into one of its own.
void ClusterFinder::place(Operation *op) {
  std::optional<RowOp> own = analyzeRowOp(op);
  llvm::SmallSetVector<int, 4> makers;
  for (Value operand : op->getOperands())
    if (Operation *maker = operand.getDefiningOp())
      if (int its = clusterOf(maker); its != kNone)
        makers.insert(its);
  // The latest first: what was made long ago is rarely free of what came in between.
  auto order = makers.takeVector();
  llvm::sort(order, [&](int a, int b) { return clusters[a].last > clusters[b].last; });
  llvm::SmallVector<int, 4> joined;
  std::optional<RowOp> rowOp;
  for (int candidate : order) {
    Open &open = clusters[candidate];
    std::optional<Open> widened;
    std::optional<RowOp> there = rowOp ? rowOp : analyzeRowOp(op, open.cluster.domain);
    if (rowOp && !(open.cluster.domain == rowOp->domain))
      widened = widen(open, rowOp->domain);
    else if (!there && own && (widened = widen(open, own->domain)))
      there = own;
    if (!there || (!(open.cluster.domain == there->domain) && !widened) ||
        !fits(op, *there, widened ? *widened : open))
      continue;
    if (dependsOn(op, candidate, joined) ||
        llvm::any_of(joined, [&](int other) { return dependsOn(op, other, {candidate}); }))
      continue;
    if (widened)
      open = std::move(*widened);
    rowOp = there;
    joined.push_back(candidate);
  }
  if (joined.empty()) {
    if (!own)
      return;
    joined.push_back(static_cast<int>(clusters.size()));
    rowOp = own;
    clusters.emplace_back().cluster.domain = own->domain;
  }
  int home = *llvm::min_element(joined);
  for (int other : joined)
    if (other != home)
      merge(home, other);
  add(op, *rowOp, home);
}

/// Views at the edges of a cluster are as free outside.
void ClusterFinder::dropViews(Cluster &cluster) const {
  auto isView = [&](Operation *op) {
    std::optional<RowOp> rowOp = analyzeRowOp(op, cluster.domain);
    return rowOp && rowOp->isView;
  };
  llvm::DenseSet<Operation *> inside(cluster.ops.begin(), cluster.ops.end());
  for (Operation *op : llvm::reverse(cluster.ops))
    if (isView(op) &&
        llvm::none_of(op->getUsers(), [&](Operation *user) { return inside.contains(user); }))
      inside.erase(op);
  for (Operation *op : cluster.ops)
    if (inside.contains(op) && isView(op) && !inside.contains(op->getOperand(0).getDefiningOp()))
      inside.erase(op);
  llvm::erase_if(cluster.ops, [&](Operation *op) { return !inside.contains(op); });
  if (llvm::count_if(cluster.ops, [&](Operation *op) { return !isView(op); }) < options.minOps)
    cluster.ops.clear();
}

std::vector<Cluster> ClusterFinder::run() {
  for (auto [index, op] : llvm::enumerate(block))
    position[&op] = index;
  for (Operation &op : block.without_terminator())
    if (isFusible(&op))
      place(&op);
  std::vector<Cluster> found;
  for (Open &open : clusters) {
    llvm::sort(open.cluster.ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    dropViews(open.cluster);
    if (!open.cluster.ops.empty())
      found.push_back(std::move(open.cluster));
  }
  return found;
}

std::vector<Cluster> cleave::kernels::findClusters(Block &block, const ClusterOptions &options) {
  return ClusterFinder(block, options).run();
}
