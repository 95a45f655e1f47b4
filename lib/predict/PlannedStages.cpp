//===- PlannedStages.cpp - reading plans by op --------------------------------===//

#include "lib/predict/PlannedStages.h"
#include "lib/predict/KeptTensors.h"

#include <algorithm>

using namespace cleave;
using namespace cleave::predict;
using llvm::json::Array;
using llvm::json::Object;

/// A list of [value, run length] pairs of one stage, written out.
static std::vector<int64_t> expand(const Array *stages, size_t stage) {
  std::vector<int64_t> result;
  const Array *runs = stages && stage < stages->size() ? (*stages)[stage].getAsArray() : nullptr;
  if (!runs)
    return result;
  for (const llvm::json::Value &value : *runs) {
    const Array *run = value.getAsArray();
    if (!run || run->size() != 2)
      return {};
    int64_t times = (*run)[1].getAsInteger().value_or(0);
    if (times < 0 || times > 100000)
      return {};
    result.insert(result.end(), size_t(times), (*run)[0].getAsInteger().value_or(0));
  }
  return result;
}

static int64_t numberAt(const Array *array, size_t at) {
  if (!array || at >= array->size())
    return 0;
  return int64_t((*array)[at].getAsNumber().value_or(0));
}

static Groups groupsOf(int64_t tensor, int64_t data) {
  Groups groups = {};
  groups[size_t(Axis::Tensor)] = {tensor, 1};
  groups[size_t(Axis::Data)] = {data, tensor};
  return groups;
}

/// One op or layer of a stage.
static void add(StageTime &stage, const LayerClass &layer, const cost::Cluster &cluster,
                const Groups &groups, const Terms &terms, bool again) {
  PassTime forward = timeOf(cluster, groups, layer.forward, terms, false);
  stage.forward += forward;
  stage.backward += timeOf(cluster, groups, layer.backward, terms, false);
  if (again)
    stage.backward += forward;
  stage.savedBytes += again ? layer.inputBytes : layer.savedBytes;
  if (again)
    stage.workBytes = std::max(stage.workBytes, layer.savedBytes);
  stage.parameters += layer.parameters;
}

static llvm::Error addByOp(PlannedStages &result, const cost::Cluster &cluster, const Object &plan,
                           const Terms &terms) {
  Layout &layout = result.layout;
  size_t numStages = size_t(plan.getInteger("num_stages").value_or(0));
  const Array *tensors = plan.getArray("tp_per_op_rle"), *datas = plan.getArray("dp_per_op_rle"),
              *agains = plan.getArray("recompute_per_op_rle");
  size_t total = 3 + numBlocks * size_t(layout.layers), at = 0;
  for (size_t s = 0; s < numStages; ++s) {
    std::vector<int64_t> tensor = expand(tensors, s), data = expand(datas, s),
                         again = expand(agains, s);
    if (tensor.empty() || tensor.size() != data.size() || again.size() > tensor.size() ||
        at + tensor.size() > total)
      return makeError("extra: plan '{0}': stage {1}: expected degrees for its ops, {2} in all "
                       "stages together",
                       layout.plan, s, total);
    again.resize(tensor.size());
    StageTime &stage = result.stages.emplace_back();
    std::vector<PlannedOp> ops;
    for (size_t i = 0; i < tensor.size(); ++i, ++at) {
      if (tensor[i] < 1 || data[i] < 1)
        return makeError("extra: plan '{0}': stage {1}: expected degrees of 1 or more", layout.plan,
                         s);
      Shape shape{&layout, double(layout.microBatch) / double(data[i]), double(tensor[i])};
      LayerClass layer = at == 0           ? getEmbedding(shape)
                         : at + 1 == total ? getHead(shape)
                         : at + 2 == total ? LayerClass() // part of the head
                                           : getBlock(shape, Block((at - 1) % numBlocks));
      if (at == 0)
        result.embeddingBytes = layout.software.gradientBytes * layer.parameters;
      Groups groups = groupsOf(tensor[i], data[i]);
      add(stage, layer, cluster, groups, terms, again[i] != 0);
      PlannedOp &op = ops.emplace_back();
      op.kind = at == 0           ? PlannedOp::Embedding
                : at + 1 == total ? PlannedOp::Loss
                : at + 2 == total ? PlannedOp::Norm
                                  : PlannedOp::InLayer;
      // The last normalization's input is the result of the last layer.
      op.layer = at == 0 ? -1 : std::min(int64_t((at - 1) / numBlocks), layout.layers);
      op.block = Block((at + numBlocks - 1) % numBlocks);
      op.tensor = shape.tensor;
      op.microBatch = shape.microBatch;
      op.again = again[i] != 0;
      stage.tensor = std::max(stage.tensor, double(tensor[i]));
      stage.data = std::max(stage.data, double(data[i]));
      // Where degrees change, ranks gather what others have of the activation.
      if (i && (tensor[i] != tensor[i - 1] || data[i] != data[i - 1])) {
        double seconds = cost::timeOf(cluster, cost::Collective::AllGather,
                                      {std::max(tensor[i], tensor[i - 1]), 1},
                                      2 * shape.tokens() * double(data[i]) * double(layout.hidden));
        stage.forward.exposed[size_t(Axis::Tensor)] += seconds;
        stage.backward.exposed[size_t(Axis::Tensor)] += seconds;
      }
    }
    KeptBytes kept = keptBytes(layout, ops);
    stage.savedBytes = kept.saved;
    stage.workBytes = kept.most - kept.saved;
    stage.send = cost::sendTime(cluster, std::max<int64_t>(1, int64_t(stage.tensor * stage.data)),
                                2 * double(layout.microBatch) * double(layout.sequence) *
                                    double(layout.hidden) / stage.data);
  }
  if (at != total)
    return makeError("extra: plan '{0}': expected {1} ops in all stages together, found {2}",
                     layout.plan, total, at);
  return llvm::Error::success();
}

static llvm::Error addByStage(PlannedStages &result, const cost::Cluster &cluster,
                              const Object &plan, const Terms &terms) {
  Layout &layout = result.layout;
  const Array *layers = plan.getArray("layers_per_stage");
  const Array *recomputed = plan.getArray("checkpointed_layers_per_stage");
  const Array *strategies = plan.getArray("stage_strategies");
  if (!layers || !recomputed || !strategies || layers->size() != strategies->size())
    return makeError("extra: plan '{0}': expected layers and strategies of each stage",
                     layout.plan);
  layout.microbatches = plan.getInteger("gradient_accumulation_steps").value_or(0);
  for (size_t s = 0; s < layers->size(); ++s) {
    const Array *strategy = (*strategies)[s].getAsArray();
    int64_t micro = numberAt(strategy, 0), data = numberAt(strategy, 1),
            tensor = numberAt(strategy, 2);
    if (micro < 1 || data < 1 || tensor < 1)
      return makeError("extra: plan '{0}': stage {1}: expected degrees of 1 or more", layout.plan,
                       s);
    layout.microBatch = micro;
    Shape shape{&layout, double(micro), double(tensor)};
    Groups groups = groupsOf(tensor, data);
    StageTime &stage = result.stages.emplace_back();
    stage.tensor = double(tensor);
    stage.data = double(data);
    LayerClass layer = getDenseLayer(shape, double(layout.ffn));
    int64_t count = numberAt(layers, s), again = numberAt(recomputed, s);
    for (int64_t i = 0; i < count; ++i)
      add(stage, layer, cluster, groups, terms, i < again);
    if (s == 0) {
      LayerClass embedding = getEmbedding(shape);
      result.embeddingBytes = layout.software.gradientBytes * embedding.parameters;
      add(stage, embedding, cluster, groups, terms, false);
    }
    if (s + 1 == layers->size())
      add(stage, getHead(shape), cluster, groups, terms, false);
    // The last of a strategy's numbers: which parts of the weights, gradients, optimizer state and
    // activations lie in the host's memory.
    auto onHost = [&](size_t at) {
      const llvm::json::Value *part = at < strategy->size() ? &(*strategy)[at] : nullptr;
      return std::clamp(part ? part->getAsNumber().value_or(0) : 0, 0.0, 1.0);
    };
    stage.weightsOnHost = onHost(6);
    stage.gradientsOnHost = onHost(7);
    stage.stateOnHost = onHost(8);
    stage.savedBytes *= 1 - onHost(9);
    layout.shardStage = numberAt(strategy, 3)   ? 3
                        : numberAt(strategy, 4) ? 2
                        : numberAt(strategy, 5) ? 1
                                                : 0;
    stage.send = cost::sendTime(cluster, tensor * data, 2 * shape.tokens() * double(layout.hidden));
  }
  return llvm::Error::success();
}

llvm::Expected<PlannedStages> predict::makePlannedStages(const Layout &layout,
                                                         const cost::Cluster &cluster,
                                                         const Object &plan, const Terms &terms) {
  PlannedStages result;
  result.layout = layout;
  result.layout.sequenceParallel = false;
  if (plan.get("stage_strategies")) {
    if (llvm::Error error = addByStage(result, cluster, plan, terms))
      return error;
  } else {
    int64_t micro = plan.getInteger("micro_batch").value_or(0);
    int64_t batch = plan.getInteger("global_batch").value_or(0);
    if (micro < 1 || batch < micro || batch % micro)
      return makeError("extra: plan '{0}': expected a micro_batch that divides global_batch",
                       layout.plan);
    result.layout.microBatch = micro;
    result.layout.microbatches = batch / micro;
    if (llvm::Error error = addByOp(result, cluster, plan, terms))
      return error;
  }
  if (result.stages.empty() || result.layout.microbatches < 1)
    return makeError("extra: plan '{0}': expected stages and microbatches, found none",
                     layout.plan);
  return result;
}
