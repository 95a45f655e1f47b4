//===- Partition.cpp - what a forward saves for its backward -------------------===//

#include "lib/backward/Partition.h"
#include "dialects/dist/Dist.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/solve/MinCut.h"

using namespace mlir;
using namespace cleave::backward;
using cleave::solve::Network;
namespace memory = cleave::memory;

/// Calls `visit` for each operand of the backward's own ops, and each result of the backward, that
/// is not a tangent.
static void forEachNeed(const JointGraph &graph, function_ref<void(Value)> visit) {
  Block &body = graph.getFunction().front();
  for (Operation &op : body.without_terminator())
    if (graph.isTangent(&op))
      for (Value operand : op.getOperands())
        if (!graph.isTangent(operand))
          visit(operand);
  for (unsigned index : graph.getBackwardResults())
    if (Value value = body.getTerminator()->getOperand(index); !graph.isTangent(value))
      visit(value);
}

/// Saved values in the order of the function.
static Partition collect(const JointGraph &graph, const llvm::DenseSet<Value> &saved) {
  Partition partition;
  for (BlockArgument argument : graph.getFunction().getArguments())
    if (saved.contains(argument))
      partition.saved.push_back(argument);
  for (Operation &op : graph.getFunction().front())
    for (Value result : op.getResults())
      if (saved.contains(result))
        partition.saved.push_back(result);
  return partition;
}

//===----------------------------------------------------------------------===//
// Save all
//===----------------------------------------------------------------------===//

static Partition saveAll(const JointGraph &graph, const RecomputeModel &model) {
  llvm::DenseSet<Value> saved, seen;
  SmallVector<Value> worklist;
  auto need = [&](Value value) {
    if (seen.insert(value).second)
      worklist.push_back(value);
  };
  forEachNeed(graph, need);
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (graph.isFreeArgument(value))
      continue;
    Operation *op = value.getDefiningOp();
    bool isComputed =
        op && (!graph.isForward(op) || model.getPolicy(value) == CheckpointChoice::Recompute);
    if (!isComputed)
      saved.insert(value);
    else
      for (Value operand : op->getOperands())
        need(operand);
  }
  return collect(graph, saved);
}

//===----------------------------------------------------------------------===//
// Minimum cut
//===----------------------------------------------------------------------===//

namespace {
/// The network whose cuts are the lists of saved values that suffice: a value is an edge as wide as
/// its bytes, what it is computed from leads to it, and the backward's uses lead to the sink. What
/// must not be recomputed hangs on the source: it can only be had by a cut after it.
class SavedValueNetwork {
public:
  SavedValueNetwork(const JointGraph &graph, const RecomputeModel &model)
      : graph(graph), model(model), source(network.addNode()), sink(network.addNode()) {
    double bytes = 0;
    auto count = [&](Value value) { bytes += double(memory::getByteSize(value.getType())); };
    Block &block = graph.getFunction().front();
    llvm::for_each(block.getArguments(), count);
    for (Operation &op : block)
      llvm::for_each(op.getResults(), count);
    scale = Network::chooseScale(bytes, 1 << 14);
  }

  llvm::DenseSet<Value> solve() {
    SmallVector<Value> worklist;
    forEachNeed(graph, [&](Value value) {
      if (std::optional<Network::Node> node = nodeOf(value, worklist))
        network.addEdge(*node + 1, sink, Network::kUnlimited);
    });
    while (!worklist.empty())
      connect(worklist.pop_back_val(), worklist);
    std::optional<Network::Cut> cut = network.findMinCut(source, sink);
    llvm::DenseSet<Value> saved;
    for (auto [value, node] : nodes)
      if (cut && !cut->sinkSide.test(node) && cut->sinkSide.test(node + 1))
        saved.insert(value);
    return saved;
  }

private:
  /// The value's first node; the second follows it. None for arguments that the backward has.
  std::optional<Network::Node> nodeOf(Value value, SmallVectorImpl<Value> &worklist) {
    if (graph.isFreeArgument(value))
      return std::nullopt;
    auto [found, isNew] = nodes.try_emplace(value);
    if (isNew) {
      found->second = network.addNode();
      network.addNode();
      worklist.push_back(value);
    }
    return found->second;
  }

  void connect(Value value, SmallVectorImpl<Value> &worklist) {
    Network::Node node = nodes.lookup(value);
    Operation *op = value.getDefiningOp();
    CheckpointChoice policy = model.getPolicy(value);
    bool isComputed = op && policy != CheckpointChoice::Save &&
                      (policy == CheckpointChoice::Recompute || model.isRecomputable(op));
    // A value that is not computed twice is cut where it has its own memory: views are free.
    // So is one that the host has.
    bool isView = model.getStorage(value) != value || isa_and_nonnull<cleave::dist::ReloadOp>(op);
    bool isSavable = !isComputed || (policy != CheckpointChoice::Recompute && !isView);
    network.addEdge(node, node + 1, isSavable ? getCapacity(value) : Network::kUnlimited);
    if (!isComputed)
      network.addEdge(source, node, Network::kUnlimited);
    else
      for (Value operand : op->getOperands())
        if (std::optional<Network::Node> from = nodeOf(operand, worklist))
          network.addEdge(*from + 1, node, Network::kUnlimited);
  }

  /// Bytes first; of equal bytes those that the forward computes anyway.
  int64_t getCapacity(Value value) const {
    bool isExtra = value.getDefiningOp() && !graph.isForward(value.getDefiningOp());
    return memory::getByteSize(value.getType()) * scale + isExtra;
  }

  const JointGraph &graph;
  const RecomputeModel &model;
  Network network;
  Network::Node source, sink;
  llvm::DenseMap<Value, Network::Node> nodes;
  int64_t scale = 1;
};
} // namespace

Partition cleave::backward::choosePartition(const JointGraph &graph, const RecomputeModel &model,
                                            PartitionPolicy policy) {
  if (policy == PartitionPolicy::SaveAll)
    return saveAll(graph, model);
  return collect(graph, SavedValueNetwork(graph, model).solve());
}

//===----------------------------------------------------------------------===//
// The two lists of ops
//===----------------------------------------------------------------------===//

SmallVector<Operation *> cleave::backward::listForwardOps(const JointGraph &graph,
                                                          const Partition &partition) {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Operation *> worklist;
  for (Value value : partition.saved)
    if (Operation *op = value.getDefiningOp(); op && needed.insert(op).second)
      worklist.push_back(op);
  while (!worklist.empty())
    for (Value operand : worklist.pop_back_val()->getOperands())
      if (Operation *op = operand.getDefiningOp(); op && needed.insert(op).second)
        worklist.push_back(op);
  SmallVector<Operation *> ops;
  for (Operation &op : graph.getFunction().front().without_terminator())
    if (graph.isForward(&op) || needed.contains(&op))
      ops.push_back(&op);
  return ops;
}

SmallVector<Operation *> cleave::backward::listBackwardOps(const JointGraph &graph,
                                                           const Partition &partition) {
  llvm::DenseSet<Value> saved(partition.saved.begin(), partition.saved.end());
  llvm::DenseSet<Operation *> listed;
  SmallVector<Operation *> ops;
  // What `roots` need and is not there yet, in the order of the forward: as late as possible, so
  // that little of it is live at the same time.
  auto compute = [&](ArrayRef<Value> roots) {
    SmallVector<Operation *> missing, worklist;
    auto need = [&](Value value) {
      Operation *op = value.getDefiningOp();
      if (op && !graph.isTangent(value) && !saved.contains(value) && listed.insert(op).second) {
        missing.push_back(op);
        worklist.push_back(op);
      }
    };
    llvm::for_each(roots, need);
    while (!worklist.empty())
      llvm::for_each(worklist.pop_back_val()->getOperands(), need);
    llvm::sort(missing,
               [&](Operation *a, Operation *b) { return graph.getOrder(a) < graph.getOrder(b); });
    llvm::append_range(ops, missing);
  };
  Block &body = graph.getFunction().front();
  for (Operation &op : body.without_terminator()) {
    if (!graph.isTangent(&op))
      continue;
    compute(llvm::to_vector(op.getOperands()));
    ops.push_back(&op);
  }
  SmallVector<Value> results;
  for (unsigned index : graph.getBackwardResults())
    results.push_back(body.getTerminator()->getOperand(index));
  compute(results);
  return ops;
}
