// Classes of values, and which of them backwards need.
#include "tools/cleave-plan/RecomputeGraphs.h"

#include "dialects/aten/Aten.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/Storage.h"
#include "tools/cleave-plan/LayerWork.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

RecomputeGraphs::RecomputeGraphs(func::FuncOp microbatch, const backward::JointGraph &graph,
                                 const LayerMap &map, unsigned numLayers,
                                 const llvm::DenseMap<Operation *, AxisWork> &works)
    : microbatch(microbatch), graph(graph), map(map), numLayers(numLayers), works(works) {
  // What depends on parameters alone is there anyway, as arguments are.
  llvm::DenseSet<Value> constant = listParameters(microbatch);
  for (BlockArgument argument : microbatch.getArguments())
    if (constant.contains(argument)) {
      parameterOf[argument] = unsigned(parameters.size());
      parameters.push_back({argument, memory::getByteSize(argument.getType()), {}});
    }
  for (Operation &op : microbatch.front().without_terminator()) {
    auto layer = map.ops.find(&op);
    if (graph.isTangent(&op)) {
      if (layer != map.ops.end())
        need(op, layer->second);
    } else if (llvm::all_of(op.getOperands(),
                            [&](Value value) { return constant.contains(value); })) {
      constant.insert(op.result_begin(), op.result_end());
      followParameter(op);
    } else if (layer != map.ops.end()) {
      classify(op);
    }
  }
  findPassed();
}

std::optional<unsigned> RecomputeGraphs::getClass(Value value) const {
  auto found = numbers.find(value);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

static bool hasSameElements(Value a, Value b) {
  auto first = dyn_cast<ShapedType>(a.getType()), second = dyn_cast<ShapedType>(b.getType());
  return first && second && first.hasStaticShape() && second.hasStaticShape() &&
         first.getNumElements() == second.getNumElements();
}

/// What a layer casts of what it takes from another one, that one's value stands for.
bool RecomputeGraphs::isCopy(Operation &op) const {
  if (op.getNumOperands() != 1 || op.getNumResults() != 1 ||
      !hasSameElements(op.getOperand(0), op.getResult(0)))
    return false;
  std::optional<unsigned> from = getClass(op.getOperand(0));
  return !works.contains(&op) ||
         (op.hasTrait<aten::CopyLike>() && from && classes[*from].layer != map.ops.lookup(&op));
}

/// What an op of the backward takes.
void RecomputeGraphs::need(Operation &op, unsigned layer) {
  for (Value operand : op.getOperands()) {
    if (std::optional<unsigned> needed = getClass(operand))
      classes[*needed].neededBy.insert(layer);
    if (auto found = parameterOf.find(operand); found != parameterOf.end())
      parameters[found->second].neededBy.insert(layer);
  }
}

/// Of several parameters, or of a part of one, nothing is said.
void RecomputeGraphs::followParameter(Operation &op) {
  if (!isCopy(op))
    return;
  auto found = parameterOf.find(op.getOperand(0));
  if (found == parameterOf.end())
    return;
  const unsigned number = found->second;
  parameterOf[op.getResult(0)] = number;
  parameters[number].bytes =
      std::min(parameters[number].bytes, memory::getByteSize(op.getResult(0).getType()));
}

void RecomputeGraphs::classify(Operation &op) {
  const bool isCopy = this->isCopy(op);
  for (OpResult result : op.getResults()) {
    const int64_t bytes = memory::getByteSize(result.getType());
    std::optional<unsigned> shared = memory::getSharedOperand(&op, result.getResultNumber());
    if (!shared && !isCopy) {
      numbers[result] = unsigned(classes.size());
      classes.push_back({&op, map.ops.lookup(&op), bytes, {}, false});
    } else if (std::optional<unsigned> from = getClass(op.getOperand(shared.value_or(0)))) {
      numbers[result] = *from;
      // A view has the memory of what it is of.
      if (!shared)
        classes[*from].bytes = std::min(classes[*from].bytes, bytes);
    }
  }
}

/// Only where all layers pass on as much can any two of them follow each other.
void RecomputeGraphs::findPassed() {
  std::vector<int64_t> bytes(numLayers, 0);
  for (Class &each : classes) {
    each.isPassed =
        each.neededBy.contains(each.layer + 1) && llvm::all_of(each.neededBy, [&](unsigned layer) {
          return layer == each.layer || layer == each.layer + 1;
        });
    if (each.isPassed)
      bytes[each.layer] += each.bytes;
  }
  bytes.pop_back();
  if (!bytes.empty() && llvm::all_equal(bytes)) {
    passedBytes = bytes.front();
    return;
  }
  for (Class &each : classes)
    each.isPassed = false;
}

LayerRecomputation RecomputeGraphs::describe(unsigned layer) const {
  LayerRecomputation found;
  RecomputeGraph &network = found.graph;
  std::vector<unsigned> places(classes.size(), RecomputeGraph::none);
  llvm::DenseMap<Operation *, unsigned> ops;
  for (auto [number, each] : llvm::enumerate(classes)) {
    if (each.layer != layer)
      continue;
    places[number] = unsigned(network.values.size());
    auto [place, isNew] = ops.try_emplace(each.op, unsigned(network.ops.size()));
    if (isNew) {
      network.ops.emplace_back();
      auto work = works.find(each.op);
      // What the backward alone computes is computed once, wherever that is.
      const bool isAgain = work != works.end() && graph.isForward(each.op);
      found.works.push_back(isAgain ? std::optional<AxisWork>(work->second) : std::nullopt);
    }
    const bool isNeeded = each.neededBy.contains(layer) || each.isPassed;
    network.values.push_back({double(each.bytes), place->second, isNeeded});
  }
  for (auto [op, place] : ops)
    for (Value operand : op->getOperands())
      if (std::optional<unsigned> from = getClass(operand); from && classes[*from].layer == layer)
        network.ops[place].operands.push_back(places[*from]);
  // What several layers need, a stage gathers once for all of them.
  for (const Parameter &parameter : parameters)
    if (auto type = dyn_cast<ShapedType>(parameter.argument.getType());
        type && parameter.neededBy.size() == 1 && parameter.neededBy.contains(layer))
      found.parameters.push_back({llvm::to_vector(type.getShape()), parameter.bytes});
  return found;
}
