//===- Defaults.h - what rows leave open: software and models -------*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_DEFAULTS_H
#define CLEAVE_LIB_PREDICT_DEFAULTS_H

#include "lib/support/JSONReader.h"

#include "llvm/ADT/StringMap.h"

namespace cleave::predict {

/// Small kernels of a router, with what sorts tokens by rank, and of what sorts them by expert and
/// back, forward and backward.
struct Dispatcher {
  double routerKernels, routerBackwardKernels, sortKernels, sortBackwardKernels;
};

/// How a training program runs what it computes: facts of a code base and release.
struct Software {
  /// Gradient reductions (and ZeRO's gathers) run during the backward (and the forward).
  double overlapsGradients = 0;
  /// The part of tensor-parallel collectives that runs beside the products around them.
  double overlapsTensor = 0;
  /// The same of the exchanges between experts, which run beside another microbatch's layers, but
  /// for those of the microbatches that a schedule begins and ends with.
  double overlapsExperts = 0;
  /// Each stage has as many layers as the first one, which also has the embedding; the last has
  /// what is left.
  double fillsStages = 0;
  /// Without a free stream: a rank waits for each transfer to its pipeline neighbour.
  double blockingTransfers = 0;
  /// Each of the tensor-parallel ranks sends a part of the activation to the next pipeline rank,
  /// and those there gather it.
  double transfersInParts = 0;
  /// Normalization and activation regions are sharded over the tensor-parallel ranks.
  double sequenceParallel = 0;
  /// Pointwise ops next to each other run as one kernel.
  double fusesPointwise = 1;
  /// The rate of its fused attention, as a part of what the device's best kernels reach.
  double attentionRate = 1;
  /// A kernel for masked softmax runs where the heads of a rank times the micro-batch are a
  /// multiple of this; 0: rows say which attention runs.
  double softmaxMultiple = 0;
  /// Messages in which a layer's sharded parameters are gathered: 1, or one a parameter.
  double gathersOfLayer = 1;
  /// They are gathered for a recomputed forward and once more for the backward.
  double gathersAgain = 0;
  /// Each rank's part of a gathered parameter, and of a gradient to be scattered, is copied by a
  /// kernel of its own.
  double copiesParts = 0;
  /// Steps are replayed as graphs: launches cost the host nothing. Or only what layers of experts
  /// do up to the experts is: their attention, and the router with what sorts tokens.
  double graphs = 0, graphsAttention = 0, graphsRouter = 0;
  /// What a launch of a product of fewer than 16 bits, or of what makes its operands so narrow,
  /// costs the host, where one of 16 bits costs 1.
  double narrowLaunches = 1;
  /// Products of experts on one rank are launched one by one, from a library's loop.
  double loopsExperts = 0;
  /// The host waits for the number of tokens that a rank's experts get.
  double waitsExperts = 0;
  /// Tokens are exchanged once for each of their experts, not once for all on a rank or a node.
  double repeatsTokens = 0;
  /// Counted by running Megatron-Core's router and dispatcher of all-to-all (August 2026), fused
  /// ops as one kernel each: where tokens are exchanged once for each expert; and the same router
  /// with what is read in HybridEP, which lays tokens in order and back by one kernel each.
  Dispatcher flexible = {13, 11, 2, 2}, repeated = {25, 11, 7, 9};
  /// The backward computes them once more, so that they need not be kept: norms; the experts'
  /// activation; the second products of low-rank projections.
  double recomputesNorms = 0, recomputesActivation = 0, recomputesProjections = 0;
  /// Bytes of a gradient when it is reduced.
  double gradientBytes = 2;
  /// Updated parameters that products take in 8 bits are gathered in 8 bits.
  double gathersNarrow = 0;
  /// The next step's first forward covers their gathering.
  double overlapsGathers = 0;
  /// Bytes that the update moves for each parameter: norms, clipping, master copies, moments.
  double optimizerBytes = 44;
  /// Bytes that stay allocated for a parameter: itself, its gradient, what ZeRO's first stage
  /// shards.
  double parameterBytes = 2, gradientStateBytes = 4, optimizerStateBytes = 12;
  /// Bytes of a gradient during the update, if it is converted for it; no activations stand then.
  double updateGradientBytes = 0;
  /// Bytes of each logit while the loss is computed: copies in several types, and gradients; and
  /// where tensor-parallel ranks have parts of the vocabulary, if they then differ.
  double logitBytes = 6, parallelLogitBytes = 0;
  /// What ranks with parts of a sequence gather stays for the backward, which otherwise gathers it
  /// again.
  double keepsGathered = 0;
  /// A stage's outputs stand until their backward, and each microbatch has a buffer for the
  /// gradient that the next stage sends.
  double keepsStageOutputs = 0;
  /// The allocator's segments grow in place, so that little of them lies idle.
  double growingSegments = 0;
  /// Bytes that the loss moves for each logit, forward and backward.
  double lossBytes = 24, lossBackwardBytes = 10;
  /// Kernels of the loss, up to what is reported of it; and of a microbatch's preparation on each
  /// stage: copies, broadcasts, masks, positions. Of these, the last so many are launched after the
  /// host has waited for the device, which idles meanwhile.
  double lossKernels = 8, lossBackwardKernels = 4, batchKernels = 0, batchKernelsAfterWait = 0;
  /// Bytes that adding a microbatch's gradient to the others moves for each parameter, where
  /// kernels of their own do it; 0: the products that make gradients add them.
  double accumulationBytes = 0;
  /// Attention's probabilities are dropped out: a pass, and two tensors more that are kept.
  double dropsAttention = 1;
  /// The input and the output embedding are one tensor.
  double tiedEmbeddings = 0;
  /// Microbatches where rows do not say: as many as pipeline ranks.
  double microbatchesAsRanks = 0;
  std::string reason;
};

/// What the runs of one model had that their table does not say.
struct PublishedLayout {
  double layers = 0, hidden = 0; // the model
  double microBatch = 0, chunks = 0;
};

/// Values of some of `Software`'s fields, by the names that files have for them.
using Sets = std::vector<std::pair<std::string, double>>;

/// Reads those that an object has; `Software` has no others.
llvm::Expected<Sets> readSets(support::JSONReader &reader);
void applySets(const Sets &sets, Software &software);

/// What the software's script for a model on a GPU sets, where it is not what all of them do. The
/// first one that a row fits counts.
struct Recipe {
  std::vector<std::string> models;     // rows' models begin with one of them
  std::vector<std::string> gpus;       // types; none: any
  std::vector<std::string> precisions; // as rows say; none: any
  std::vector<std::string> variants;   // `variant` in `extra`; none: any
  double from = 0, until = 0;          // releases (`container` in the column `extra`)
  double pipeline = 0, expert = 0;     // degrees; 0: any
  Sets sets;
};

/// What a source of rows leaves open.
struct Source {
  std::string software;
  double vocabulary = 0;      // 0: rows say
  double reportsReserved = 0; // its memory is what the allocator holds, not what tensors take
  double reportsLayers = 0;   // its memory is that of layers alone, by formulas
  std::vector<PublishedLayout> layouts;
  std::vector<Recipe> recipes;
  std::string reason;
};

/// Dimensions of a model that a row has no column for.
struct Model {
  double headDimension = 0; // 0: hidden / heads
  double gated = 0;         // three matrices in the feed-forward network
  double denseLayers = 0;   // without experts, ahead of the others
  double denseFfn = 0;
  double sharedExperts = 0;
  // Attention through low-rank projections; 0: none.
  double queryRank = 0, valueRank = 0, rotaryDimension = 0;
  double window = 0;          // every second layer attends to that many positions; 0: to all
  double normalizesHeads = 0; // queries and keys, a head at a time
  double biasesExperts = 0;   // a bias for each expert's second product
  double clampsActivation = 0;
  /// Further tokens that are predicted: each takes a layer, behind two norms and a product that
  /// joins it to the token's embedding, and the head once more (DeepSeek-V3's technical report,
  /// 2.2).
  double predictions = 0;
};

/// Reads the fields that an object has.
llvm::Error readModel(support::JSONReader &reader, Model &model);

struct Defaults {
  llvm::StringMap<Software> software;
  llvm::StringMap<Source> sources;
  llvm::StringMap<Model> models;

  /// Reads {"software": {NAME: {...}}, "sources": {...}, "models": {...}}.
  static llvm::Expected<Defaults> read(llvm::StringRef path);
};

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_DEFAULTS_H
