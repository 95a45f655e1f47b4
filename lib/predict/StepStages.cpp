//===- StepStages.cpp - a step's stages from their layers --------------------===//

#include "lib/predict/Step.h"

#include "lib/predict/Transformer.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace cleave;
using namespace cleave::predict;
using cost::Collective;

/// What a recomputed forward does of this one, where its parameters are there.
static Pass withoutGathers(const Pass &pass) {
  Pass result;
  llvm::copy_if(pass, std::back_inserter(result),
                [](const LayerOp &op) { return op.axis != Axis::Data; });
  return result;
}

/// Time and memory of `count` layers, with the layout's recomputation.
StageTime Step::makeStage(const LayerClass &layer, double count) const {
  StageTime result;
  bool graphs = layout.software.graphs > 0;
  PassTime forward = timeOf(cluster, groups, layer.forward, terms, graphs);
  PassTime backward = timeOf(cluster, groups, layer.backward, terms, graphs);
  double saved = layer.savedBytes;
  if (layout.recompute == Recompute::Attention) {
    backward += timeOf(cluster, groups, layer.again, terms, graphs);
    saved = layer.savedWithoutAgain;
  } else if (layout.recompute == Recompute::Selective) {
    // Half of the products, and all that is memory-bound.
    Pass again;
    bool every = false;
    for (const LayerOp &op : layer.forward)
      if (op.kind == LayerOp::Bytes || (op.kind == LayerOp::Product && (every = !every)))
        again.push_back(op);
    backward += timeOf(cluster, groups, again, terms, graphs);
    saved = 0.45 * saved;
  } else if (layout.recomputedLayers > 0) {
    bool gathersAgain = layout.shardStage < 3 || layout.software.gathersAgain > 0;
    PassTime again = gathersAgain
                         ? forward
                         : timeOf(cluster, groups, withoutGathers(layer.forward), terms, graphs);
    backward += again.scaled(layout.recomputedLayers);
    saved = layout.recomputedLayers * layer.inputBytes + (1 - layout.recomputedLayers) * saved;
  }
  result.forward = forward.scaled(count);
  result.backward = backward.scaled(count);
  result.savedBytes = count * saved;
  if (layout.recomputedLayers > 0)
    result.workBytes = layer.savedBytes;
  result.parameters = count * layer.parameters;
  result.expertParameters = count * layer.expertParameters;
  return result;
}

StageTime &StageTime::operator+=(const StageTime &other) {
  forward += other.forward;
  backward += other.backward;
  savedBytes += other.savedBytes;
  workBytes = std::max(workBytes, other.workBytes);
  parameters += other.parameters;
  expertParameters += other.expertParameters;
  return *this;
}

/// Parameters that are sharded as a whole are gathered for each pass, and their gradients reduced.
void Step::shardParameters(LayerClass &layer) const {
  if (layout.shardStage < 3 || layout.shardRanks <= 1)
    return;
  const Software &software = layout.software;
  double messages = std::max(software.gathersOfLayer, 1.0);
  double parts = messages * double(groups[size_t(Axis::Data)].size);
  auto communicate = [&](Pass &pass, Collective collective, double bytes) {
    LayerOp op{LayerOp::Communication};
    op.axis = Axis::Data;
    op.overlap = software.overlapsGradients;
    op.collective = collective;
    op.bytes = bytes / messages;
    pass.insert(pass.end(), size_t(messages), op);
    if (software.copiesParts == 0)
      return;
    LayerOp copy{LayerOp::Bytes};
    copy.axis = Axis::Data;
    copy.bytes = 2 * bytes; // read and written
    copy.kernels = messages;
    copy.parts = parts;
    pass.push_back(copy);
  };
  communicate(layer.forward, Collective::AllGather, 2 * layer.parameters);
  communicate(layer.backward, Collective::AllGather, 2 * layer.parameters);
  communicate(layer.backward, Collective::ReduceScatter, software.gradientBytes * layer.parameters);
}

void Step::makeStages() {
  int64_t tensor = layout.tensor, context = layout.context, data = layout.data;
  groups[size_t(Axis::Tensor)] = {tensor, 1};
  groups[size_t(Axis::Context)] = {context, tensor};
  groups[size_t(Axis::Expert)] = {layout.expert, 1};
  groups[size_t(Axis::Data)] = {data * context, tensor};
  double near = cluster.levels.size() > 1 ? double(cluster.levels[0].size) : 0;
  Shape shape{&layout, double(layout.microBatch), double(tensor), near};
  size_t count = size_t(layout.pipeline * layout.chunks);
  stages.assign(count, StageTime());

  int64_t dense = layout.experts ? std::min(int64_t(layout.dimensions.denseLayers), layout.layers)
                                 : layout.layers;
  double denseFfn = layout.experts ? layout.dimensions.denseFfn : double(layout.ffn);
  StageTime denseTime, expertTime;
  if (dense > 0) {
    LayerClass layer = getDenseLayer(shape, denseFfn);
    shardParameters(layer);
    denseTime = makeStage(layer, 1);
  }
  if (layout.experts) {
    LayerClass layer = getExpertLayer(shape);
    shardParameters(layer);
    expertTime = makeStage(layer, 1);
  }
  // Where that comes out even, the embedding and the head count as layers; otherwise stages without
  // them get what is left over.
  int64_t next = 0;
  bool asLayers = layout.layers % int64_t(count) && (layout.layers + 2) % int64_t(count) == 0;
  int64_t total = layout.layers + (asLayers ? 2 : 0);
  int64_t full = (layout.layers + int64_t(count)) / int64_t(count); // with the embedding as a layer
  int64_t each = total / int64_t(count), left = total % int64_t(count);
  for (size_t s = 0; s < count; ++s) {
    bool extra = int64_t(s) >= 1 && int64_t(s) <= left;
    int64_t layers = each + extra - (asLayers && (s == 0 || s + 1 == count));
    if (layout.software.fillsStages > 0)
      layers = std::min(full, layout.layers - next);
    for (int64_t i = 0; i < layers; ++i, ++next)
      stages[s] += next < dense ? denseTime : expertTime;
  }
  if (!hasEnds)
    return;
  // Embedding and head are never recomputed.
  LayerClass embedding = getEmbedding(shape), head = getHead(shape);
  embeddingBytes = layout.software.gradientBytes * embedding.parameters;
  shardParameters(embedding);
  shardParameters(head);
  Step plain(*this);
  plain.layout.recompute = Recompute::None;
  plain.layout.recomputedLayers = 0;
  stages.front() += plain.makeStage(embedding, 1);
  StageTime batch = plain.makeStage(getBatch(shape), 1);
  for (StageTime &stage : stages)
    stage += batch;
  StageTime last = plain.makeStage(head, 1);
  if (layout.software.tiedEmbeddings > 0 && layout.pipeline == 1)
    last.parameters -= embedding.parameters;
  stages.back() += last;
  last.parameters = 0; // each further prediction has the same head
  for (double i = 0; i < layout.dimensions.predictions; ++i) {
    LayerClass join = getJoin(shape);
    shardParameters(join);
    stages.back() += plain.makeStage(join, 1);
    stages.back() += layout.experts ? expertTime : denseTime;
    stages.back() += last;
  }
  // Tensor-parallel ranks have the same activations: each may send a part, which they gather.
  double whole = 2 * shape.tokens() * double(layout.hidden);
  bool inParts = layout.software.transfersInParts > 0 && !layout.sequenceParallel;
  double bytes = whole / (inParts || layout.sequenceParallel ? double(tensor) : 1);
  double gather =
      inParts ? cost::timeOf(cluster, Collective::AllGather, groups[size_t(Axis::Tensor)], whole)
              : 0;
  // A blocking transfer is a send, a receive, a wait and a synchronization of the host.
  bool blocking = layout.software.blockingTransfers > 0 && terms.launches;
  double host = blocking ? 4 * cluster.device.hostSeconds : 0;
  for (StageTime &stage : stages) {
    stage.boundaryBytes = bytes;
    stage.send = layout.pipeline > 1
                     ? cost::sendTime(cluster, layout.gpus / layout.pipeline, bytes) + gather + host
                     : 0;
  }
}
