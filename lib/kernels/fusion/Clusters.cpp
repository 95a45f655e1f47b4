//===- Clusters.cpp - which ops become one kernel ---------------------------===//

#include "lib/kernels/fusion/Clusters.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"
#include "lib/kernels/fusion/RowSpace.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

#include <deque>
#include <memory>

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

namespace {

class ClusterFinder {
public:
  ClusterFinder(Block &block, llvm::function_ref<bool(Operation *)> hasFormula)
      : block(block), hasFormula(hasFormula) {}

  std::vector<Cluster> run();

private:
  static constexpr int kNone = -1;
  /// Ops that a search for a cycle looks at before it gives up and takes it for one.
  static constexpr size_t kMaxVisited = 4096;
  /// How far apart ops are, at most, that are joined.
  static constexpr unsigned kNeighbourhood = 256;
  static constexpr size_t kMaxReaders = 16;
  /// Ops that are laid over other rows again, because another op has wider ones.
  static constexpr size_t kMaxLaidAnew = 16;
  /// How often a value that not all rows need may be computed, at most.
  static constexpr int64_t kMaxRepeats = 16;

  /// A cluster in the making. One that another has taken up is empty.
  struct Open {
    llvm::SmallVector<Operation *, 8> ops;
    RowSpace space;
    unsigned first = 0, last = 0;
    /// The latest position of what it is, or waits for, as known when its last op came.
    unsigned reach = 0;
    bool isBackward = false;
  };

  int clusterOf(Operation *op) const {
    auto it = owner.find(op);
    return it == owner.end() ? kNone : it->second;
  }
  const RowOp *analyze(Operation *op);
  void place(Operation *op);
  llvm::SmallVector<int, 8> listCandidates(Operation *op);
  bool start(Operation *op, int candidate);
  int join(Operation *op, int home, int candidate);
  bool isSound(Operation *op, const RowSpace &space, int a, int b, bool areRowsNew) const;
  bool dependsOn(Operation *op, int cluster, llvm::ArrayRef<int> joined) const;
  void merge(int into, int from);
  unsigned reachOf(Operation *op) const;
  void breakCycles();
  bool isBackward(Operation *op);
  llvm::SmallVector<RowSpace::Member> membersOf(int cluster);

  Block &block;
  llvm::function_ref<bool(Operation *)> hasFormula;
  llvm::DenseMap<Operation *, unsigned> position;
  llvm::DenseMap<Operation *, int> owner;
  /// As of clusters, of ops that are in none.
  llvm::DenseMap<Operation *, unsigned> reaches;
  llvm::DenseMap<Operation *, std::unique_ptr<RowOp>> rowOps;
  /// The communication before each one: their order stays.
  llvm::DenseMap<Operation *, Operation *> communicationBefore;
  std::deque<Open> clusters;
};

} // namespace

const RowOp *ClusterFinder::analyze(Operation *op) {
  auto [it, isNew] = rowOps.try_emplace(op);
  if (isNew && hasFormula(op))
    if (std::optional<RowOp> rowOp = analyzeRowOp(op))
      it->second = std::make_unique<RowOp>(std::move(*rowOp));
  return it->second.get();
}

/// What may be repeated belongs to what it is for.
bool ClusterFinder::isBackward(Operation *op) {
  while (op->hasOneUse() && isRepeatable(op))
    op = *op->user_begin();
  return op->hasAttr(train::kBackwardAttrName);
}

llvm::SmallVector<RowSpace::Member> ClusterFinder::membersOf(int cluster) {
  return llvm::map_to_vector(clusters[cluster].ops,
                             [&](Operation *op) { return RowSpace::Member{op, analyze(op)}; });
}

/// Clusters that make operands of the op, then those that read the same: each time the latest
/// first, since what was made long ago is rarely free of what came in between.
llvm::SmallVector<int, 8> ClusterFinder::listCandidates(Operation *op) {
  llvm::SmallSetVector<int, 8> producers, readers;
  // What is computed early for late must be kept in between.
  bool itsPhase = isBackward(op);
  auto isNear = [&](int its) {
    return its != kNone && clusters[its].isBackward == itsPhase &&
           position.lookup(op) - clusters[its].last < kNeighbourhood;
  };
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (int its = producer ? clusterOf(producer) : kNone; its != kNone) {
      if (isNear(its))
        producers.insert(its);
      continue;
    }
    auto tensor = dyn_cast<RankedTensorType>(operand.getType());
    if (!tensor || tensor.getNumElements() < 2)
      continue;
    for (auto [count, user] : llvm::enumerate(operand.getUsers())) {
      if (count == kMaxReaders)
        break;
      int its = user->getBlock() == &block ? clusterOf(user) : kNone;
      if (isNear(its))
        readers.insert(its);
    }
  }
  auto isLater = [&](int a, int b) {
    return std::pair(clusters[a].last, a) > std::pair(clusters[b].last, b);
  };
  llvm::SmallVector<int, 8> order(producers.begin(), producers.end());
  llvm::sort(order, isLater);
  llvm::SmallVector<int, 8> others;
  llvm::copy_if(readers, std::back_inserter(others),
                [&](int its) { return !producers.contains(its); });
  llvm::sort(others, isLater);
  order.append(others);
  return order;
}

/// Whether each value that some rows have in common is needed inside only: it is computed for each
/// of these rows, and not stored. `op` has just been laid over the space of clusters `a` and `b`;
/// its own users are not known yet.
bool ClusterFinder::isSound(Operation *op, const RowSpace &space, int a, int b,
                            bool areRowsNew) const {
  auto isInside = [&](Operation *user) {
    int its = clusterOf(user);
    return user == op || (its != kNone && (its == a || its == b));
  };
  auto isRepeated = [&](Value value) {
    std::optional<Layout> layout = space.find(value);
    return layout && !layout->isTotal && space.countRows(*layout) != space.countRows();
  };
  if (llvm::any_of(op->getResults(), isRepeated))
    return false;
  if (!areRowsNew)
    return true;
  for (int cluster : {a, b}) {
    if (cluster == kNone)
      continue;
    for (Operation *member : clusters[cluster].ops)
      for (Value result : member->getResults()) {
        if (!isRepeated(result))
          continue;
        Layout layout = *space.find(result);
        bool isNumber = layout.rows.empty() && layout.columns == 0;
        if (!isNumber && space.countRows() / space.countRows(layout) > kMaxRepeats)
          return false;
        if (!llvm::all_of(result.getUsers(), isInside))
          return false;
      }
  }
  return true;
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
  auto visit = [&](Operation *producer, bool isOutside) {
    if (!producer || (isInside(producer) && !isOutside))
      return false;
    if (isInside(producer))
      return true;
    if (reachOf(producer) > first && visited.insert(producer).second)
      waiting.push_back(producer);
    return false;
  };
  auto visitOperands = [&](Operation *of, bool isOutside) {
    for (Value operand : of->getOperands())
      if (visit(operand.getDefiningOp(), isOutside))
        return true;
    return visit(communicationBefore.lookup(of), isOutside);
  };
  if (visitOperands(op, false))
    return true;
  for (int inside : joined)
    for (Operation *member : clusters[inside].ops)
      visitOperands(member, false);
  while (!waiting.empty()) {
    if (visited.size() > kMaxVisited)
      return true;
    Operation *next = waiting.pop_back_val();
    int its = clusterOf(next);
    if (its == kNone) {
      if (visitOperands(next, true))
        return true;
    } else if (visitedClusters.insert(its).second) {
      // A kernel waits for all that any of its ops needs.
      for (Operation *member : clusters[its].ops)
        if (visitOperands(member, true))
          return true;
    }
  }
  return false;
}

void ClusterFinder::merge(int into, int from) {
  Open &target = clusters[into], &source = clusters[from];
  for (Operation *op : source.ops)
    owner[op] = into;
  llvm::append_range(target.ops, source.ops);
  target.first = std::min(target.first, source.first);
  target.last = std::max(target.last, source.last);
  target.reach = std::max(target.reach, source.reach);
  source = Open();
}

unsigned ClusterFinder::reachOf(Operation *op) const {
  int its = clusterOf(op);
  return its == kNone ? reaches.lookup(op) : clusters[its].reach;
}

/// Lays the op over the candidate's space, or both over rows that are the op's.
bool ClusterFinder::start(Operation *op, int candidate) {
  Open &open = clusters[candidate];
  const RowOp &rowOp = *analyze(op);
  RowSpace::Mark before = open.space.mark();
  int64_t rows = open.space.countRows();
  bool isFree = !dependsOn(op, candidate, {});
  if (!isFree)
    return false;
  if (open.space.touches(op) || rowOp.factors.empty() || open.space.countRows() == 1) {
    if (open.space.add(op, rowOp)) {
      if (isSound(op, open.space, candidate, kNone, open.space.countRows() != rows))
        return true;
      open.space.rollback(before);
    }
  }
  if (open.ops.size() > kMaxLaidAnew)
    return false;
  RowSpace anew;
  llvm::SmallVector<RowSpace::Member> members = membersOf(candidate);
  members.push_back({op, &rowOp});
  if (!anew.addAll(members) || !isSound(op, anew, candidate, kNone, true))
    return false;
  open.space = std::move(anew);
  return true;
}

/// Lays the ops of `home`, which has `op` in its space, and of the candidate over one space. The
/// cluster that has them all, or none.
int ClusterFinder::join(Operation *op, int home, int candidate) {
  if (dependsOn(op, candidate, {home}) || dependsOn(op, home, {candidate}))
    return kNone;
  int into = home, from = candidate;
  bool isSwapped = clusters[candidate].ops.size() > clusters[home].ops.size();
  if (isSwapped)
    std::swap(into, from);
  RowSpace &space = clusters[into].space;
  RowSpace::Mark before = space.mark();
  llvm::SmallVector<RowSpace::Member> members = membersOf(from);
  if (isSwapped)
    members.push_back({op, analyze(op)});
  bool areRowsNew = true;
  if (space.addAll(members)) {
    areRowsNew =
        space.countRows() != before.rows || space.countRows() != clusters[from].space.countRows();
    if (isSound(op, space, home, candidate, areRowsNew))
      return into;
    space.rollback(before);
  }
  if (clusters[home].ops.size() + clusters[candidate].ops.size() > kMaxLaidAnew)
    return kNone;
  RowSpace anew;
  llvm::append_range(members, membersOf(into));
  if (!isSwapped)
    members.push_back({op, analyze(op)});
  if (!anew.addAll(members) || !isSound(op, anew, home, candidate, true))
    return kNone;
  clusters[into].space = std::move(anew);
  return into;
}

/// Puts the op into the clusters of its operands that it fits, or into one of its own.
void ClusterFinder::place(Operation *op) {
  unsigned at = position.lookup(op), reach = at;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      reach = std::max(reach, reachOf(producer));
  if (Operation *before = communicationBefore.lookup(op))
    reach = std::max(reach, reachOf(before));
  reaches[op] = reach;
  const RowOp *rowOp = analyze(op);
  if (!rowOp)
    return;
  int home = kNone;
  for (int candidate : listCandidates(op)) {
    if (home == kNone) {
      if (start(op, candidate))
        home = candidate;
      continue;
    }
    int into = join(op, home, candidate);
    if (into == kNone)
      continue;
    merge(into, into == home ? candidate : home);
    home = into;
  }
  if (home == kNone) {
    RowSpace space;
    if (!space.add(op, *rowOp))
      return;
    home = static_cast<int>(clusters.size());
    clusters.emplace_back().space = std::move(space);
  }
  Open &open = clusters[home];
  open.first = open.ops.empty() ? at : std::min(open.first, at);
  open.last = std::max(open.last, at);
  open.reach = std::max(open.reach, reach);
  open.isBackward = isBackward(op);
  open.ops.push_back(op);
  owner[op] = home;
}

/// Searches for cycles know what clusters waited for when they came; what these took up later may
/// close a cycle. Then a cluster of it is given up: the smallest, since that loses least.
void ClusterFinder::breakCycles() {
  // A cluster counts as its first op.
  auto nodeOf = [&](Operation *op) {
    int its = clusterOf(op);
    return its == kNone ? op : clusters[its].ops.front();
  };
  while (true) {
    llvm::DenseMap<Operation *, llvm::SmallVector<Operation *, 4>> before, after;
    llvm::SetVector<Operation *> left;
    for (Operation &op : block) {
      Operation *node = nodeOf(&op);
      left.insert(node);
      auto follow = [&](Operation *producer) {
        if (!producer || nodeOf(producer) == node)
          return;
        before[node].push_back(nodeOf(producer));
        after[nodeOf(producer)].push_back(node);
      };
      for (Value operand : op.getOperands())
        follow(operand.getDefiningOp());
      follow(communicationBefore.lookup(&op));
    }
    // Nodes that wait for no remaining node, then nodes that no remaining node waits for.
    llvm::DenseSet<Operation *> done;
    for (auto *edges : {&before, &after}) {
      auto &others = edges == &before ? after : before;
      llvm::DenseMap<Operation *, size_t> missing;
      llvm::SmallVector<Operation *> ready;
      for (Operation *node : left) {
        if (done.contains(node))
          continue;
        missing[node] = llvm::count_if(edges->lookup(node),
                                       [&](Operation *other) { return !done.contains(other); });
        if (missing[node] == 0)
          ready.push_back(node);
      }
      while (!ready.empty()) {
        Operation *node = ready.pop_back_val();
        done.insert(node);
        for (Operation *other : others.lookup(node))
          if (!done.contains(other) && --missing[other] == 0)
            ready.push_back(other);
      }
    }
    int smallest = kNone;
    for (Operation *node : left)
      if (int its = clusterOf(node); its != kNone && !done.contains(node))
        if (smallest == kNone || clusters[its].ops.size() < clusters[smallest].ops.size())
          smallest = its;
    if (smallest == kNone)
      return;
    for (Operation *op : clusters[smallest].ops)
      owner.erase(op);
    clusters[smallest] = Open();
  }
}

std::vector<Cluster> ClusterFinder::run() {
  Operation *communication = nullptr;
  for (auto [index, op] : llvm::enumerate(block)) {
    position[&op] = index;
    if (!isa<dist::CommunicationOpInterface>(op))
      continue;
    if (communication)
      communicationBefore[&op] = communication;
    communication = &op;
  }
  for (Operation &op : block.without_terminator())
    place(&op);
  breakCycles();
  std::vector<Cluster> found;
  for (Open &open : clusters) {
    Cluster cluster{std::move(open.ops)};
    llvm::sort(cluster.ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    if (!cluster.ops.empty())
      found.push_back(std::move(cluster));
  }
  return found;
}

std::vector<Cluster>
cleave::kernels::findClusters(Block &block, llvm::function_ref<bool(Operation *)> hasFormula) {
  return ClusterFinder(block, hasFormula).run();
}

void cleave::kernels::trimResults(std::vector<Cluster> &clusters) {
  for (Cluster &cluster : clusters) {
    llvm::DenseSet<Operation *> inside(cluster.ops.begin(), cluster.ops.end());
    auto isInside = [&](Operation *op) { return inside.contains(op); };
    for (Operation *op : llvm::reverse(cluster.ops))
      if (isView(op) && llvm::none_of(op->getUsers(), isInside))
        inside.erase(op);
    llvm::erase_if(cluster.ops, [&](Operation *op) { return !isInside(op); });
  }
}

static void trimOperands(Cluster &cluster, const ClusterOptions &options) {
  llvm::DenseSet<Operation *> inside(cluster.ops.begin(), cluster.ops.end());
  auto isInside = [&](Operation *op) { return inside.contains(op); };
  unsigned weight = 0;
  for (Operation *op : cluster.ops) {
    weight += getWeight(op);
    if (!keepsOrder(op))
      continue;
    // Others that read what it views do so beside it: the kernel is to know that it is the same.
    Value viewed = op->getOperand(0);
    Operation *producer = viewed.getDefiningOp();
    if (!(producer && isInside(producer)) && llvm::count_if(viewed.getUsers(), isInside) == 1)
      inside.erase(op);
  }
  llvm::erase_if(cluster.ops, [&](Operation *op) { return !isInside(op); });
  if (weight < options.minOps)
    cluster.ops.clear();
}

void cleave::kernels::trimOperands(std::vector<Cluster> &clusters, const ClusterOptions &options) {
  for (Cluster &cluster : clusters)
    ::trimOperands(cluster, options);
  llvm::erase_if(clusters, [](const Cluster &cluster) { return cluster.ops.empty(); });
}
