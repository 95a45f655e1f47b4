//===- KeptTensors.cpp - memory of activations, tensor by tensor --------------===//

#include "lib/predict/KeptTensors.h"

#include <algorithm>
#include <map>

using namespace cleave;
using namespace cleave::predict;

namespace {
/// The tensors of a layer that its ops pass on. `Input`, a layer's, is the result of the last op of
/// the layer before.
enum class Name {
  Input,
  Normalized1,
  Heads,
  Scores,
  Probabilities,
  Mask,
  Dropped,
  Context,
  Projected,
  Mask1,
  Middle,
  Normalized2,
  Expanded,
  Activated,
  Contracted,
  Mask2,
  Logits
};

struct Tensor {
  int64_t layer;
  Name name;
  double bytes;
};

/// What an op's backward needs of the forward, what the op makes, and what of earlier ops it or
/// later ones take.
struct Uses {
  std::vector<Tensor> needed, results, operands;
};
} // namespace

static Uses usesOf(const Layout &layout, const PlannedOp &op) {
  double tokens = op.microBatch * double(layout.sequence);
  double x = 2 * tokens * double(layout.hidden);
  double pairs = 2 * op.microBatch * double(layout.heads) / op.tensor * double(layout.sequence) *
                 double(layout.sequence);
  double wide = 2 * tokens * double(layout.ffn) / op.tensor;
  bool drops = layout.software.dropsAttention > 0;
  auto make = [&](Name name, double bytes) { return Tensor{op.layer, name, bytes}; };
  Tensor input = make(Name::Input, x), next{op.layer + 1, Name::Input, x};
  Tensor normalized1 = make(Name::Normalized1, x), heads = make(Name::Heads, 3 * x / op.tensor),
         scores = make(Name::Scores, pairs), probabilities = make(Name::Probabilities, pairs),
         mask = make(Name::Mask, pairs / 2), context = make(Name::Context, x / op.tensor),
         projected = make(Name::Projected, x), mask1 = make(Name::Mask1, x / 2),
         middle = make(Name::Middle, x), normalized2 = make(Name::Normalized2, x),
         expanded = make(Name::Expanded, wide), activated = make(Name::Activated, wide),
         contracted = make(Name::Contracted, x), mask2 = make(Name::Mask2, x / 2);
  Tensor dropped = drops ? make(Name::Dropped, pairs) : probabilities;
  switch (op.kind) {
  case PlannedOp::Embedding:
    return {{}, {next}, {}};
  case PlannedOp::Norm:
    return {{input}, {normalized1}, {input}};
  case PlannedOp::Loss:
    return {{normalized1, make(Name::Logits, layout.software.logitBytes * tokens *
                                                 double(layout.vocabulary) / op.tensor)},
            {},
            {normalized1}};
  case PlannedOp::InLayer:
    break;
  }
  // The residual passes each op between a block's first and last.
  switch (op.block) {
  case Block::Norm1:
    return {{input}, {normalized1}, {input}};
  case Block::Projection:
    return {{normalized1}, {heads}, {normalized1, input}};
  case Block::Scores:
    return {{heads}, {scores}, {heads, input}};
  case Block::Softmax:
    return {{probabilities}, {probabilities}, {scores, heads, input}};
  case Block::AttentionDropout:
    if (!drops)
      return {{}, {probabilities}, {probabilities, heads, input}};
    return {{mask}, {dropped}, {probabilities, heads, input}};
  case Block::Context:
    return {{dropped, heads}, {context}, {dropped, heads, input}};
  case Block::Output:
    return {{context}, {projected}, {context, input}};
  case Block::Residual1:
    return {{mask1}, {middle}, {projected, input}};
  case Block::Norm2:
    return {{middle}, {normalized2}, {middle}};
  case Block::Expand:
    return {{normalized2}, {expanded}, {normalized2, middle}};
  case Block::Activation:
    return {{expanded}, {activated}, {expanded, middle}};
  case Block::Contract:
    return {{activated}, {contracted}, {activated, middle}};
  case Block::Residual2:
    return {{mask2}, {next}, {contracted, middle}};
  }
  return {};
}

KeptBytes predict::keptBytes(const Layout &layout, llvm::ArrayRef<PlannedOp> ops) {
  using Id = std::pair<int64_t, Name>;
  struct Kept {
    double bytes;
    size_t user; // the first that needs it: after its backward the tensor is free
  };
  std::map<Id, Kept> kept;
  auto keep = [&](const Tensor &tensor, size_t user) {
    auto [at, isNew] = kept.try_emplace({tensor.layer, tensor.name}, Kept{tensor.bytes, user});
    if (!isNew)
      at->second.user = std::min(at->second.user, user);
  };
  std::vector<Uses> uses;
  for (const PlannedOp &op : ops)
    uses.push_back(usesOf(layout, op));
  // Of an op that runs again: the first op of its run.
  std::vector<size_t> run(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    bool begins = i == 0 || !ops[i - 1].again ||
                  (ops[i].kind == PlannedOp::InLayer && ops[i].block == Block::Norm1);
    run[i] = begins ? i : run[i - 1];
    if (!ops[i].again)
      for (const Tensor &tensor : uses[i].needed)
        keep(tensor, i);
    if (i == 0 || (ops[i].again && run[i] == i))
      for (const Tensor &tensor : uses[i].operands)
        keep(tensor, i);
  }
  if (!ops.empty())
    for (const Tensor &tensor : uses.back().results)
      keep(tensor, ops.size() - 1);
  KeptBytes result;
  // Bytes that are free after the backward of an op.
  std::vector<double> freed(ops.size());
  for (const auto &[id, tensor] : kept) {
    result.saved += tensor.bytes;
    freed[tensor.user] += tensor.bytes;
  }
  result.most = result.saved;
  double live = result.saved;
  for (size_t end = ops.size(); end > 0;) {
    size_t begin = end - 1;
    if (ops[begin].again)
      begin = run[begin];
    // What a run that is recomputed makes, and frees op by op.
    std::map<Id, Kept> again;
    double work = 0;
    std::vector<double> done(end - begin);
    for (size_t i = begin; i < end && ops[i].again; ++i)
      for (const Tensor &tensor : uses[i].needed) {
        auto found = kept.find({tensor.layer, tensor.name});
        bool isThere = found != kept.end() && found->second.user <= i;
        if (isThere ||
            !again.try_emplace({tensor.layer, tensor.name}, Kept{tensor.bytes, i}).second)
          continue;
        work += tensor.bytes;
        done[i - begin] += tensor.bytes;
      }
    for (size_t i = end; i-- > begin;) {
      auto largest = [](const std::vector<Tensor> &tensors) {
        double bytes = 0;
        for (const Tensor &tensor : tensors)
          bytes = std::max(bytes, tensor.bytes);
        return bytes;
      };
      double gradients = largest(uses[i].results) + largest(uses[i].operands);
      result.most = std::max(result.most, live + work + gradients);
      work -= done[i - begin];
      live -= freed[i];
    }
    end = begin;
  }
  return result;
}
