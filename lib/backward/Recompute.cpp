//===- Recompute.cpp - what a backward may recompute -----------------------===//

#include "lib/backward/Recompute.h"
#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/sharding/ShardingRule.h"
#include "lib/memory/MemoryPlan.h"

using namespace mlir;
using namespace cleave::backward;
namespace aten = cleave::aten;
namespace dist = cleave::dist;
namespace memory = cleave::memory;
namespace sharding = cleave::sharding;
namespace train = cleave::train;

//===----------------------------------------------------------------------===//
// What an op costs
//===----------------------------------------------------------------------===//

/// Whether every element of the results takes one element of each operand: pointwise ops, copies
/// and conversions, but nothing that sums, contracts or normalizes.
static bool takesOneElementEach(const sharding::ShardingRule &rule) {
  for (const sharding::LinearGroup &group : rule.linear)
    if (group.moves && group.results.size() == rule.results.size())
      return true;
  for (auto [id, factor] : llvm::enumerate(rule.factors)) {
    if (factor.isWhole() && factor.size != 1)
      return false;
    for (const sharding::TensorFactors &result : rule.results)
      if (factor.size != 1 && !sharding::ShardingRule::contains(result, id))
        return false;
  }
  return true;
}

bool cleave::backward::isRecomputable(Operation *op, RecomputeLevel level) {
  // A host copy is there for as long as the microbatch.
  if (isa<dist::ReloadOp>(op))
    return true;
  // What is in flight (a future) belongs to the function that started it.
  auto isOther = [](Type type) { return !isa<RankedTensorType, NoneType>(type); };
  if (!isMemoryEffectFree(op) || llvm::any_of(op->getOperandTypes(), isOther) ||
      llvm::any_of(op->getResultTypes(), isOther))
    return false;
  if (level == RecomputeLevel::All)
    return true;
  if (llvm::all_of(op->getResults(), [](OpResult result) {
        return static_cast<bool>(memory::getViewSource(result));
      }))
    return true;
  if (!isa<aten::AtenOpInterface>(op))
    return (isa<dist::ConvertOp>(op) && level >= RecomputeLevel::Cheap) ||
           (isa<dist::AllGatherOp>(op) && level >= RecomputeLevel::Gathers);
  sharding::ShardingRule rule = sharding::getShardingRule(op);
  switch (rule.kind) {
  case sharding::OpKind::View:
  case sharding::OpKind::Factory:
    return !rule.isOpaque();
  case sharding::OpKind::Random:
    return false;
  case sharding::OpKind::Compute:
    return level >= RecomputeLevel::Cheap && !rule.isOpaque() && takesOneElementEach(rule);
  }
  return false;
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

Value RecomputeModel::getStorage(Value value) const {
  auto found = storage.find(value);
  return found == storage.end() ? value : found->second;
}

CheckpointChoice RecomputeModel::getPolicy(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op)
    return CheckpointChoice::None;
  CheckpointChoice policy = tags.lookup_or(op, CheckpointChoice::None);
  if (policy == CheckpointChoice::Recompute && boundaries.contains(value))
    return CheckpointChoice::Save;
  return policy;
}

LogicalResult RecomputeModel::readTags() {
  auto tagOf = [](Operation *op) {
    return op->getAttrOfType<train::CheckpointAttr>(train::kCheckpointAttrName);
  };
  for (Operation &op : graph.getFunction().front()) {
    train::CheckpointAttr tag = tagOf(&op);
    if (!tag || !graph.isForward(&op))
      continue;
    train::CheckpointPolicy policy = tag.getPolicy();
    if (policy == train::CheckpointPolicy::MustSave ||
        policy == train::CheckpointPolicy::PreferSave) {
      tags[&op] = CheckpointChoice::Save;
      continue;
    }
    if (!isMemoryEffectFree(&op)) {
      if (policy == train::CheckpointPolicy::MustRecompute)
        return op.emitError()
               << "cannot be recomputed as its checkpoint tag requires: it has side effects";
      continue;
    }
    tags[&op] = CheckpointChoice::Recompute;
    for (Value result : op.getResults())
      for (Operation *user : result.getUsers())
        if (train::CheckpointAttr other = tagOf(user);
            other && other.getGraph() != tag.getGraph() && graph.isForward(user))
          boundaries.insert(result);
  }
  return success();
}

void RecomputeModel::classify() {
  for (Operation &op : graph.getFunction().front().without_terminator()) {
    for (OpResult result : op.getResults())
      if (Value source = memory::getViewSource(result))
        storage[result] = getStorage(source);
    if (graph.isTangent(&op))
      continue;
    // What no result of the forward needs is computed once, wherever that is.
    if (!graph.isForward(&op) || cleave::backward::isRecomputable(&op, level))
      recomputable.insert(&op);
  }
}

/// Forbids to recompute the sums of a residual stream: what joins an early value with a late one,
/// and is itself the early value of a later join. Each such sum needs the one before it, so all of
/// them would be computed when the backward starts, and kept until it ends. Saving them costs the
/// same bytes and no time.
void RecomputeModel::keepSkips() {
  // How many ops that must not be recomputed lie before a value.
  llvm::DenseMap<Value, unsigned> depth;
  llvm::DenseSet<Operation *> joins;
  for (Operation &op : graph.getFunction().front().without_terminator()) {
    if (graph.isTangent(&op))
      continue;
    SmallVector<Value> made; // memory that is not an argument's
    unsigned deepest = 0;
    for (Value operand : op.getOperands())
      if (Value root = getStorage(operand); root.getDefiningOp()) {
        made.push_back(root);
        deepest = std::max(deepest, depth.lookup(root));
      }
    bool isBarrier = !recomputable.contains(&op) && !tags.contains(&op);
    for (Value result : op.getResults())
      depth[result] = deepest + isBarrier;
    if (isBarrier)
      continue;
    for (Value early : made) {
      if (depth.lookup(early) == deepest)
        continue;
      joins.insert(&op);
      Operation *producer = early.getDefiningOp();
      if (joins.contains(producer) && graph.isForward(producer) && !tags.contains(producer))
        recomputable.erase(producer);
    }
  }
}

FailureOr<RecomputeModel> RecomputeModel::create(const JointGraph &graph, RecomputeLevel level) {
  RecomputeModel model(graph, level);
  if (failed(model.readTags()))
    return failure();
  model.classify();
  if (level != RecomputeLevel::All)
    model.keepSkips();
  return model;
}
