//===- Layout.cpp - reading a row of a table ----------------------------------===//

#include "lib/predict/Layout.h"

#include <utility>

using namespace cleave;
using namespace cleave::predict;

/// Beyond it a simulation takes more than seconds.
static constexpr int64_t maxPipelineRanks = 1024;

llvm::ArrayRef<llvm::StringRef> predict::requiredColumns() {
  static const llvm::StringRef columns[] = {
      "source",        "model",       "arch",         "layers",    "hidden",
      "ffn",           "heads",       "kv_heads",     "vocab",     "seq",
      "global_batch",  "micro_batch", "microbatches", "gpus",      "gpu_type",
      "gpus_per_node", "dp",          "tp",           "sp",        "pp",
      "vpp",           "cp",          "ep",           "fsdp_zero", "schedule",
      "recompute",     "precision",   "attention"};
  return columns;
}

namespace {
/// Reads the fields of one row; the first error stands.
class Reader {
public:
  Reader(const Row &row, Layout &layout) : row(row), layout(layout) {}

  int64_t integer(llvm::StringRef column, int64_t minimum,
                  std::optional<int64_t> otherwise = std::nullopt) {
    auto value = row.integer(column, minimum, otherwise);
    if (value)
      return *value;
    fail(value.takeError());
    return minimum;
  }
  void fail(llvm::Error other) {
    if (error)
      llvm::consumeError(std::move(other));
    else
      error = std::move(other);
  }
  llvm::Error take() { return std::move(error); }

  void readModel();
  void readParts();
  void takePublished(const Source &source);
  void readRecompute();
  void readPrecision();
  void check();

private:
  const Row &row;
  Layout &layout;
  llvm::Error error = llvm::Error::success();
};
} // namespace

void Reader::readModel() {
  layout.layers = integer("layers", 1);
  layout.hidden = integer("hidden", 1);
  layout.ffn = integer("ffn", 1);
  layout.heads = integer("heads", 1);
  layout.kvHeads = integer("kv_heads", 1, layout.heads);
  layout.sequence = integer("seq", 1);
  layout.globalBatch = integer("global_batch", 1);
  // Otherwise a head has no dimension.
  if (layout.headDimension() < 1)
    fail(makeError("heads: expected at most hidden = {0}, found {1}", layout.hidden, layout.heads));
  if (layout.heads % layout.kvHeads)
    fail(makeError("kv_heads: expected a divisor of heads = {0}, found {1}", layout.heads,
                   layout.kvHeads));
  layout.gpus = integer("gpus", 1);
  layout.gpusPerNode = integer("gpus_per_node", 1, 0);
  llvm::StringRef arch = row.get("arch");
  if (arch == "dense")
    return;
  // "moe128top8"
  llvm::StringRef rest = arch;
  auto [experts, chosen] = rest.split("top");
  if (!experts.consume_front("moe") || experts.getAsInteger(10, layout.experts) ||
      chosen.getAsInteger(10, layout.expertsPerToken) || layout.expertsPerToken < 1 ||
      layout.experts < layout.expertsPerToken)
    fail(makeError("arch: expected 'dense' or 'moe<EXPERTS>top<CHOSEN>', found '{0}'", arch));
}

void Reader::readParts() {
  llvm::StringRef plan = row.find("extra", "plan");
  layout.plan = plan.str();
  bool mixed = !plan.empty();
  layout.tensor = mixed ? 1 : integer("tp", 1);
  layout.pipeline = integer("pp", 1);
  layout.context = integer("cp", 1, 1);
  layout.expert = integer("ep", 1, 1);
  layout.data = mixed ? 1 : integer("dp", 1);
  layout.microBatch = integer("micro_batch", 1, 0);
  layout.microbatches = integer("microbatches", 1, 0);
  llvm::StringRef schedule = row.get("schedule");
  layout.interleaved = schedule.contains("interleaved");
  // Others order, and keep, what 1F1B does not.
  if (!schedule.empty() && schedule != "none" && !schedule.starts_with("1f1b") &&
      !layout.interleaved)
    fail(makeError("schedule: expected 1f1b, 1f1b-interleaved or none, found '{0}'", schedule));
  bool stated = !schedule.empty() && !schedule.contains("not stated") && !layout.interleaved;
  layout.chunks = integer("vpp", 1, layout.pipeline == 1 || stated ? 1 : 0);
  // "vpp" of a pipeline of one rank means nothing.
  if (layout.pipeline == 1)
    layout.chunks = 1;
  llvm::StringRef sharding = row.get("fsdp_zero");
  if (sharding.consume_front("fsdp")) {
    layout.shardStage = 3;
    layout.shardRanks = layout.data * layout.context;
    if (!sharding.empty() && sharding.getAsInteger(10, layout.shardRanks))
      fail(makeError("fsdp_zero: expected fsdp<RANKS>, found 'fsdp{0}'", sharding));
    else if (!sharding.empty() && (layout.shardRanks < 1 || layout.data % layout.shardRanks))
      fail(makeError("fsdp_zero: expected a divisor of dp = {0} ranks, found '{1}'", layout.data,
                     row.get("fsdp_zero")));
    // A degree in the table counts data-parallel ranks only.
    layout.shardRanks = std::max<int64_t>(layout.shardRanks * layout.context, 1);
  } else if (!sharding.empty()) {
    sharding.consume_front("zero");
    if (sharding.getAsInteger(10, layout.shardStage) || layout.shardStage < 0 ||
        layout.shardStage > 3)
      fail(makeError("fsdp_zero: expected 0, zero1, zero2, zero3 or fsdp<RANKS>, found '{0}'",
                     row.get("fsdp_zero")));
    layout.shardRanks = layout.shardStage ? layout.data * layout.context : 1;
  }
  llvm::StringRef sequence = row.get("sp");
  if (!sequence.empty() && sequence != "0" && sequence != "1")
    fail(makeError("sp: expected 0 or 1, found '{0}'", sequence));
  layout.sequenceParallel =
      layout.tensor > 1 &&
      (sequence.empty() ? layout.software.sequenceParallel > 0 : sequence != "0");
  layout.lowRankTuning = row.find("extra", "kind") == "LoRA";
  llvm::StringRef measured = row.find("extra", "ranks_logged");
  if (!measured.empty() &&
      (measured.getAsInteger(10, layout.measuredRanks) || layout.measuredRanks < 1))
    fail(makeError("extra: ranks_logged: expected a positive number, found '{0}'", measured));
  if (row.find("extra", "compile") == "0")
    layout.software.fusesPointwise = 0;
  // Products in parts, each with its part of the collective beside it.
  if (row.find("extra", "async_tp") == "1")
    layout.software.overlapsTensor = 0.8;
}

/// What the row leaves open and its source published elsewhere, where it goes with the row.
void Reader::takePublished(const Source &source) {
  for (const PublishedLayout &published : source.layouts) {
    if (double(layout.layers) != published.layers || double(layout.hidden) != published.hidden)
      continue;
    auto microBatch = int64_t(published.microBatch), chunks = int64_t(published.chunks);
    if (layout.microBatch == 0 && layout.microbatches == 0 && microBatch > 0 &&
        layout.globalBatch % layout.data == 0 &&
        layout.globalBatch / layout.data % microBatch == 0) {
      layout.microBatch = microBatch;
      layout.notes.push_back(
          llvm::formatv("micro_batch: {0}, which the source published", layout.microBatch));
    }
    if (layout.chunks == 0 && chunks > 0 && layout.layers / layout.pipeline % chunks == 0) {
      layout.chunks = chunks;
      layout.notes.push_back(llvm::formatv("vpp: {0}, which the source published", layout.chunks));
    }
  }
}

void Reader::readRecompute() {
  llvm::StringRef text = row.get("recompute");
  double part = 0;
  if (text.empty()) {
    layout.recompute = Recompute::Unknown;
  } else if (text == "full") {
    layout.recompute = Recompute::Full;
    layout.recomputedLayers = 1;
  } else if (text == "none") {
    layout.recompute = Recompute::None;
  } else if (text == "selective") {
    layout.recompute = Recompute::Attention;
  } else if (text == "selective-op") {
    layout.recompute = Recompute::Selective;
  } else if (text.ends_with(" layers")) {
    auto [some, all] = text.drop_back(7).split('/');
    double total = 0;
    if (some.getAsDouble(part) || all.getAsDouble(total) || !(total >= part && total > 0))
      fail(makeError("recompute: expected N/LAYERS layers, found '{0}'", text));
    layout.recompute = Recompute::Full;
    layout.recomputedLayers = part / total;
  } else if (text.consume_front("per-op ") && !text.getAsDouble(part)) {
    layout.recompute = Recompute::Full;
    layout.recomputedLayers = part;
  } else {
    fail(makeError("recompute: expected full, none, selective, selective-op, N/LAYERS layers or "
                   "per-op PART, found '{0}'",
                   row.get("recompute")));
  }
}

void Reader::readPrecision() {
  llvm::StringRef precision = row.get("precision");
  if (precision.contains('|')) {
    layout.notes.push_back(("precision '" + precision + "': the first of the two").str());
    precision = precision.split('|').first;
  }
  // "fp8-rowwise": what is behind the type says how it is scaled.
  llvm::StringRef type = precision.split('-').first;
  if (type == "nvfp4")
    layout.width = cost::Width::Bits4;
  else if (type == "fp8" || type == "mxfp8")
    layout.width = cost::Width::Bits8;
  else if (precision != "fp16" && precision != "bf16")
    fail(makeError("precision: expected fp16, bf16, fp8, mxfp8 or nvfp4, found '{0}'", precision));
  llvm::StringRef attention = row.get("attention");
  if (attention.split('(').first == "flash") // "flash(sdpa)"
    layout.attention = AttentionKind::Flash;
  else if (attention == "unfused")
    layout.attention = AttentionKind::Unfused;
  else if (attention == "fused-softmax")
    layout.attention = AttentionKind::FusedSoftmax;
  else
    fail(makeError("attention: expected flash, fused-softmax or unfused, found '{0}'", attention));
}

void Reader::check() {
  if (error || !layout.plan.empty())
    return;
  double product = double(layout.data) * double(layout.tensor) * double(layout.pipeline) *
                   double(layout.context);
  if (product != double(layout.gpus))
    return fail(
        makeError("gpus: expected dp x tp x pp x cp = {0:F0}, found {1}", product, layout.gpus));
  if (layout.sequence % layout.context)
    return fail(makeError("cp: expected a divisor of seq = {0}, found {1}", layout.sequence,
                          layout.context));
  if (layout.experts &&
      (layout.experts % layout.expert || layout.gpus / layout.pipeline % layout.expert))
    return fail(makeError("ep: expected a divisor of {0} experts and of dp x tp x cp = {1}, found "
                          "{2}",
                          layout.experts, layout.gpus / layout.pipeline, layout.expert));
  if (layout.globalBatch % layout.data)
    return fail(makeError("global_batch: expected a multiple of dp = {0}, found {1}", layout.data,
                          layout.globalBatch));
  int64_t share = layout.globalBatch / layout.data;
  if (layout.microBatch == 0 && layout.microbatches == 0 && layout.software.microbatchesAsRanks) {
    layout.microbatches = std::min(layout.pipeline, share);
    layout.notes.push_back("micro_batch: as many microbatches as pipeline ranks");
  }
  if (layout.microBatch == 0 && layout.microbatches && share % layout.microbatches == 0)
    layout.microBatch = share / layout.microbatches;
  if (layout.microBatch) {
    if (share % layout.microBatch)
      return fail(makeError("micro_batch: expected a divisor of global_batch / dp = {0}, found {1}",
                            share, layout.microBatch));
    int64_t stated = std::exchange(layout.microbatches, share / layout.microBatch);
    if (stated && stated != layout.microbatches)
      return fail(makeError("microbatches: expected global_batch / dp / micro_batch = {0}, found "
                            "{1}",
                            layout.microbatches, stated));
  } else if (layout.microbatches) {
    return fail(makeError("microbatches: expected a divisor of global_batch / dp = {0}, found {1}",
                          share, layout.microbatches));
  }
  if (layout.heads % layout.tensor)
    return fail(
        makeError("tp: expected a divisor of heads = {0}, found {1}", layout.heads, layout.tensor));
  // The embedding and the loss may have stages of their own.
  int64_t stages = layout.pipeline * std::max<int64_t>(layout.chunks, 1);
  if (layout.pipeline > maxPipelineRanks || stages > 4 * maxPipelineRanks)
    return fail(makeError("pp: expected at most {0} pipeline ranks and {1} stages, found {2} and "
                          "{3}",
                          maxPipelineRanks, 4 * maxPipelineRanks, layout.pipeline, stages));
  if (layout.layers < stages && layout.layers + 2 != stages)
    return fail(makeError("pp: expected at most {0} stages, one for each layer, found {1}",
                          layout.layers, stages));
}

/// The first two numbers of "26.04.01".
static llvm::StringRef getRelease(llvm::StringRef text) {
  size_t first = text.find('.');
  return first == llvm::StringRef::npos ? text : text.take_front(text.find('.', first + 1));
}

/// Whether the row is a run of the recipe's script.
static bool fits(const Recipe &recipe, const Row &row, double release) {
  auto isOneOf = [](llvm::ArrayRef<std::string> values, llvm::StringRef value) {
    return values.empty() || llvm::is_contained(values, value);
  };
  auto has = [&](llvm::StringRef column, double expected) {
    double value = 1;
    llvm::StringRef text = row.get(column);
    return expected == 0 || (!text.empty() && !text.getAsDouble(value) && value == expected);
  };
  llvm::StringRef model = row.get("model");
  bool isModel = recipe.models.empty() || llvm::any_of(recipe.models, [&](llvm::StringRef name) {
                   return model.starts_with(name);
                 });
  return isModel && isOneOf(recipe.gpus, row.get("gpu_type")) &&
         isOneOf(recipe.precisions, row.get("precision")) &&
         isOneOf(recipe.variants, row.find("extra", "variant")) && release >= recipe.from &&
         (recipe.until == 0 || release <= recipe.until) && has("pp", recipe.pipeline) &&
         has("ep", recipe.expert);
}

llvm::Expected<Layout> predict::readLayout(const Row &row, const Defaults &defaults) {
  Layout layout;
  layout.source = row.get("source").str();
  layout.model = row.get("model").str();
  layout.gpuType = row.get("gpu_type").str();
  auto source = defaults.sources.find(layout.source);
  if (source == defaults.sources.end())
    return makeError("source: expected one that the file of defaults has, found '{0}'",
                     layout.source);
  double release = 0;
  bool hasRelease = !getRelease(row.find("extra", "container")).getAsDouble(release);
  layout.software = defaults.software.find(source->second.software)->second;
  auto recipe = llvm::find_if(source->second.recipes, [&](const Recipe &each) {
    return hasRelease && fits(each, row, release);
  });
  if (recipe != source->second.recipes.end())
    applySets(recipe->sets, layout.software);
  layout.reportsReserved = source->second.reportsReserved > 0;
  layout.reportsLayers = source->second.reportsLayers > 0;
  // "NAME (variant)": the variant, if it is described, otherwise the model.
  auto model = defaults.models.find(layout.model);
  if (model == defaults.models.end())
    model = defaults.models.find(llvm::StringRef(layout.model).split(" (").first);
  if (model != defaults.models.end())
    layout.dimensions = model->second;
  Reader reader(row, layout);
  reader.readModel();
  std::optional<int64_t> vocabulary;
  if (source->second.vocabulary > 0)
    vocabulary = int64_t(source->second.vocabulary);
  layout.vocabulary = reader.integer("vocab", 1, vocabulary);
  reader.readParts();
  reader.takePublished(source->second);
  reader.readRecompute();
  reader.readPrecision();
  reader.check();
  if (llvm::Error error = reader.take())
    return error;
  if (row.get("vocab").empty())
    layout.notes.push_back("vocab: " + std::to_string(layout.vocabulary) + " assumed");
  return layout;
}
