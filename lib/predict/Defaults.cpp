//===- Defaults.cpp - reading what rows leave open ----------------------------===//

#include "lib/predict/Defaults.h"

using namespace cleave;
using namespace cleave::predict;
using support::JSONReader;

namespace {
struct Field {
  const char *name;
  double *value;
};
} // namespace

static llvm::Error readNumbers(JSONReader &reader, llvm::ArrayRef<Field> fields) {
  for (const Field &field : fields) {
    if (llvm::Error error = reader.number(field.name, *field.value))
      return error;
    if (!(*field.value >= 0))
      return makeError("{0}: expected 0 or more, found {1}", reader.path(field.name), *field.value);
  }
  return llvm::Error::success();
}

/// All numbers of a software, as files name them.
static std::vector<Field> fieldsOf(Software &s) {
  return {{"overlaps_gradients", &s.overlapsGradients},
          {"overlaps_tensor", &s.overlapsTensor},
          {"overlaps_experts", &s.overlapsExperts},
          {"fills_stages", &s.fillsStages},
          {"blocking_transfers", &s.blockingTransfers},
          {"transfers_in_parts", &s.transfersInParts},
          {"sequence_parallel", &s.sequenceParallel},
          {"fuses_pointwise", &s.fusesPointwise},
          {"attention_rate", &s.attentionRate},
          {"softmax_multiple", &s.softmaxMultiple},
          {"gathers_of_layer", &s.gathersOfLayer},
          {"gathers_again", &s.gathersAgain},
          {"copies_parts", &s.copiesParts},
          {"graphs", &s.graphs},
          {"graphs_attention", &s.graphsAttention},
          {"graphs_router", &s.graphsRouter},
          {"narrow_launches", &s.narrowLaunches},
          {"loops_experts", &s.loopsExperts},
          {"waits_experts", &s.waitsExperts},
          {"repeats_tokens", &s.repeatsTokens},
          {"router_kernels", &s.flexible.routerKernels},
          {"router_backward_kernels", &s.flexible.routerBackwardKernels},
          {"sort_kernels", &s.flexible.sortKernels},
          {"sort_backward_kernels", &s.flexible.sortBackwardKernels},
          {"repeated_router_kernels", &s.repeated.routerKernels},
          {"repeated_router_backward_kernels", &s.repeated.routerBackwardKernels},
          {"repeated_sort_kernels", &s.repeated.sortKernels},
          {"repeated_sort_backward_kernels", &s.repeated.sortBackwardKernels},
          {"recomputes_norms", &s.recomputesNorms},
          {"recomputes_activation", &s.recomputesActivation},
          {"recomputes_projections", &s.recomputesProjections},
          {"logit_bytes", &s.logitBytes},
          {"loss_bytes", &s.lossBytes},
          {"loss_backward_bytes", &s.lossBackwardBytes},
          {"loss_kernels", &s.lossKernels},
          {"loss_backward_kernels", &s.lossBackwardKernels},
          {"batch_kernels", &s.batchKernels},
          {"batch_kernels_after_wait", &s.batchKernelsAfterWait},
          {"accumulation_bytes", &s.accumulationBytes},
          {"drops_attention", &s.dropsAttention},
          {"gradient_bytes", &s.gradientBytes},
          {"gathers_narrow", &s.gathersNarrow},
          {"overlaps_gathers", &s.overlapsGathers},
          {"optimizer_bytes", &s.optimizerBytes},
          {"parameter_bytes", &s.parameterBytes},
          {"gradient_state_bytes", &s.gradientStateBytes},
          {"optimizer_state_bytes", &s.optimizerStateBytes},
          {"update_gradient_bytes", &s.updateGradientBytes},
          {"parallel_logit_bytes", &s.parallelLogitBytes},
          {"keeps_gathered", &s.keepsGathered},
          {"keeps_stage_outputs", &s.keepsStageOutputs},
          {"growing_segments", &s.growingSegments},
          {"tied_embeddings", &s.tiedEmbeddings},
          {"microbatches_as_ranks", &s.microbatchesAsRanks}};
}

static llvm::Error readFields(JSONReader &reader, Software &s) {
  llvm::Error error = readNumbers(reader, fieldsOf(s));
  if (!error && s.attentionRate == 0)
    return makeError("{0}: expected more than 0", reader.path("attention_rate"));
  return error;
}

static llvm::Error readSoftware(JSONReader &reader, Software &s) {
  if (llvm::Error error = reader.string("reason", s.reason, true))
    return error;
  return readFields(reader, s);
}

llvm::Expected<Sets> predict::readSets(JSONReader &reader) {
  Software scratch;
  if (llvm::Error error = readFields(reader, scratch))
    return error;
  Sets sets;
  for (const Field &field : fieldsOf(scratch))
    if (reader.has(field.name))
      sets.emplace_back(field.name, *field.value);
  return sets;
}

void predict::applySets(const Sets &sets, Software &software) {
  std::vector<Field> fields = fieldsOf(software);
  for (const auto &[name, value] : sets)
    *llvm::find_if(fields, [&](const Field &field) { return name == field.name; })->value = value;
}

static llvm::Error readStrings(JSONReader &reader, llvm::StringRef name,
                               std::vector<std::string> &strings) {
  if (!reader.has(name))
    return llvm::Error::success();
  auto values = reader.array(name);
  if (!values)
    return values.takeError();
  for (const llvm::json::Value &value : **values) {
    std::optional<llvm::StringRef> text = value.getAsString();
    if (!text)
      return makeError("{0}: expected strings", reader.path(name));
    strings.push_back(text->str());
  }
  return llvm::Error::success();
}

/// Recipes have conditions, and under "sets" what a software has.
static llvm::Error readRecipe(JSONReader &item, Recipe &recipe) {
  if (llvm::Error error = readStrings(item, "models", recipe.models))
    return error;
  if (llvm::Error error = readStrings(item, "gpus", recipe.gpus))
    return error;
  if (llvm::Error error = readStrings(item, "precisions", recipe.precisions))
    return error;
  if (llvm::Error error = readStrings(item, "variants", recipe.variants))
    return error;
  if (llvm::Error error = readNumbers(item, {{"from", &recipe.from},
                                             {"until", &recipe.until},
                                             {"pp", &recipe.pipeline},
                                             {"ep", &recipe.expert}}))
    return error;
  auto sets = item.child("sets", true);
  if (!sets)
    return sets.takeError();
  JSONReader values(**sets, item.path("sets"));
  if (llvm::Error error = readSets(values).moveInto(recipe.sets))
    return error;
  if (llvm::Error error = values.finish())
    return error;
  return item.finish();
}

static llvm::Error readRecipes(JSONReader &reader, std::vector<Recipe> &recipes) {
  return reader.objects(
      "recipes", [&](const llvm::json::Object &object, const std::string &where) -> llvm::Error {
        JSONReader item(object, where);
        return readRecipe(item, recipes.emplace_back());
      });
}

static llvm::Error readLayouts(JSONReader &reader, std::vector<PublishedLayout> &layouts) {
  return reader.objects(
      "layouts", [&](const llvm::json::Object &object, const std::string &where) -> llvm::Error {
        JSONReader item(object, where);
        PublishedLayout &layout = layouts.emplace_back();
        if (llvm::Error error = readNumbers(item, {{"layers", &layout.layers},
                                                   {"hidden", &layout.hidden},
                                                   {"micro_batch", &layout.microBatch},
                                                   {"vpp", &layout.chunks}}))
          return error;
        return item.finish();
      });
}

static llvm::Error readSource(JSONReader &reader, Source &source) {
  if (llvm::Error error = reader.string("software", source.software, true))
    return error;
  if (llvm::Error error = reader.string("reason", source.reason, true))
    return error;
  if (reader.has("layouts"))
    if (llvm::Error error = readLayouts(reader, source.layouts))
      return error;
  if (reader.has("recipes"))
    if (llvm::Error error = readRecipes(reader, source.recipes))
      return error;
  return readNumbers(reader, {{"vocabulary", &source.vocabulary},
                              {"reports_reserved", &source.reportsReserved},
                              {"reports_layers", &source.reportsLayers}});
}

llvm::Error predict::readModel(JSONReader &reader, Model &m) {
  return readNumbers(reader, {{"head_dimension", &m.headDimension},
                              {"gated", &m.gated},
                              {"dense_layers", &m.denseLayers},
                              {"dense_ffn", &m.denseFfn},
                              {"shared_experts", &m.sharedExperts},
                              {"query_rank", &m.queryRank},
                              {"value_rank", &m.valueRank},
                              {"rotary_dimension", &m.rotaryDimension},
                              {"window", &m.window},
                              {"normalizes_heads", &m.normalizesHeads},
                              {"biases_experts", &m.biasesExperts},
                              {"clamps_activation", &m.clampsActivation},
                              {"predictions", &m.predictions}});
}

template <typename T>
static llvm::Error readEach(JSONReader &root, const char *field, llvm::StringMap<T> &items,
                            llvm::Error (*read)(JSONReader &, T &)) {
  auto object = root.child(field, true);
  if (!object)
    return object.takeError();
  for (const auto &entry : **object) {
    std::string where = root.path(field) + ": " + entry.first.str();
    const llvm::json::Object *item = entry.second.getAsObject();
    if (!item)
      return makeError("{0}: expected an object", where);
    JSONReader reader(*item, where);
    if (llvm::Error error = read(reader, items[entry.first.str()]))
      return error;
    if (llvm::Error error = reader.finish())
      return error;
  }
  return llvm::Error::success();
}

llvm::Expected<Defaults> Defaults::read(llvm::StringRef path) {
  auto value = support::readJSONFile(path);
  if (!value)
    return value.takeError();
  const llvm::json::Object *root = value->getAsObject();
  if (!root)
    return makeError("{0}: expected an object with \"software\", \"sources\" and \"models\"", path);
  JSONReader reader(*root, path.str());
  Defaults defaults;
  if (llvm::Error error = readEach(reader, "software", defaults.software, readSoftware))
    return error;
  if (llvm::Error error = readEach(reader, "sources", defaults.sources, readSource))
    return error;
  if (llvm::Error error = readEach(reader, "models", defaults.models, readModel))
    return error;
  if (llvm::Error error = reader.finish())
    return error;
  for (const auto &source : defaults.sources)
    if (!defaults.software.count(source.second.software))
      return makeError("{0}: sources: {1}: has no software named \"{2}\"", path, source.first(),
                       source.second.software);
  return defaults;
}
