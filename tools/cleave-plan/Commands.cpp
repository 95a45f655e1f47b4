// Plans as passes.
#include "tools/cleave-plan/Commands.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace cleave;
using namespace cleave::plan;

/// A path as the value of a pass's option, which ends at a space.
static std::string asValue(llvm::StringRef path) {
  return path.find_first_of(" \t'\"{}") == llvm::StringRef::npos ? path.str()
                                                                 : "{" + path.str() + "}";
}

bool plan::hasPlacements(const Layout &layout) {
  return layout.numParts() > 1;
}

/// Optimizer states along the first dimension that all axes divide, where there is one. Those of
/// experts lie as their parameter along `ep`, and are divided along another dimension.
static void addStateRules(const Layout &layout, const Source &source, llvm::json::Array &rules) {
  for (const ParameterGroup &group : source.parameters) {
    bool isOfExperts = group.isOfExperts && layout.experts > 1;
    const unsigned expertDim = isOfExperts ? group.expertDim(layout.experts) : 0;
    if (llvm::is_contained(group.shape, 0)) // MobileBERT's head, if its embedding is as wide
      continue;
    for (auto [dim, size] : llvm::enumerate(group.shape)) {
      if (isOfExperts ? dim == expertDim || layout.data == 1 || size % layout.data
                      : size % layout.numParts())
        continue;
      std::string shard = llvm::formatv("S({0})", dim);
      llvm::json::Object placement;
      if (layout.data > 1)
        placement["dp"] = shard;
      if (layout.experts > 1)
        placement["ep"] = isOfExperts ? llvm::formatv("S({0})", expertDim).str() : shard;
      if (layout.context > 1)
        placement["cp"] = shard;
      rules.push_back(llvm::json::Object{{"optimizer_states", group.pattern},
                                         {"placement", std::move(placement)}});
      break;
    }
  }
}

llvm::json::Object plan::makePlacements(const Layout &layout, const Source &source) {
  llvm::json::Array mesh, rules;
  auto addAxis = [&](llvm::StringRef name, int64_t size) {
    if (size > 1)
      mesh.push_back(llvm::json::Array{name, size});
  };
  // Parameters of which there are several copies, each in shards, lie along two axes.
  const bool isHybrid = layout.replicas > 1 && layout.numDataShards() > 1;
  const std::pair<llvm::StringRef, int64_t> data{isHybrid ? "dp_shard" : "dp",
                                                 isHybrid ? layout.numDataShards() : layout.data};
  // The ranks of the last axis are neighbours.
  if (isHybrid)
    addAxis("dp_replicate", layout.replicas);
  if (layout.dataInside)
    addAxis("tp", layout.tensor);
  else
    addAxis(data.first, data.second);
  addAxis("ep", layout.experts);
  addAxis("cp", layout.context);
  if (layout.dataInside)
    addAxis(data.first, data.second);
  else
    addAxis("tp", layout.tensor);
  const bool isSharded = layout.shardsParameters();
  if (layout.tensor > 1)
    llvm::append_range(rules, source.partial);
  if (layout.tensor > 1)
    for (const TensorRule &rule : source.rules) {
      bool isSequence = rule.style == "sequence";
      // A head with few classes, say, is whole on each rank.
      if ((isSequence && !layout.sequence) || rule.size % layout.tensor)
        continue;
      if (rule.style == "parameter") {
        rules.push_back(llvm::json::Object{
            {"parameters", rule.modules},
            {"placement", llvm::json::Object{{"tp", llvm::formatv("S({0})", rule.dim).str()}}}});
        continue;
      }
      llvm::json::Object entry{{"modules", rule.modules}, {"style", rule.style}, {"axis", "tp"}};
      if (isSequence)
        entry["dim"] = 1;
      rules.push_back(std::move(entry));
    }
  if (layout.experts > 1)
    for (const ExpertRule &rule : source.experts) {
      llvm::json::Object entry{{"modules", rule.modules}, {"style", "expert"}, {"axis", "ep"}};
      if (source.expertCapacity && rule.hasRows)
        entry["capacity"] = *source.expertCapacity;
      rules.push_back(std::move(entry));
    }
  if (layout.sharding == Sharding::Zero1)
    addStateRules(layout, source, rules);
  // The experts' axis divides the batch last: its ranks then have tokens that lie together.
  auto divideBatch = [&](llvm::StringRef axis, int64_t size, bool shards) {
    if (size > 1)
      rules.push_back(llvm::json::Object{{"style", shards ? "fsdp" : "data"}, {"axis", axis}});
  };
  if (isHybrid)
    rules.push_back(llvm::json::Object{
        {"style", "hsdp"}, {"axis", data.first}, {"replicate_axis", "dp_replicate"}});
  else
    divideBatch(data.first, data.second, isSharded && layout.replicas == 1);
  divideBatch("ep", layout.experts, isSharded);
  if (layout.context > 1)
    rules.push_back(
        llvm::json::Object{{"style", "context"}, {"axis", "cp"}, {"shard_parameters", isSharded}});
  return llvm::json::Object{{"mesh", std::move(mesh)}, {"rules", std::move(rules)}};
}

std::vector<PassCall> plan::listPlacing(const Layout &layout, llvm::StringRef placements) {
  std::vector<PassCall> passes;
  // Rows in the order of positions, so that those of a part of the sequence are together.
  if (layout.context > 1)
    passes.push_back({"sequence-major", "batch-shards=" + std::to_string(layout.data)});
  if (hasPlacements(layout)) {
    passes.push_back({"annotate-placements", "plan=" + asValue(placements)});
    passes.push_back({"propagate-placements", ""});
    passes.push_back({"partition", ""});
  }
  passes.push_back({"cse", ""});
  passes.push_back({"canonicalize", ""});
  return passes;
}

/// What backwards recompute, as --partition-joint and --outline-stages take it.
static std::string describeRecompute(const Plan &plan, const cost::Cluster &cluster,
                                     int64_t microbatches) {
  switch (plan.shape.recompute) {
  case Recompute::None:
    return "policy=save-all";
  case Recompute::Cheap:
    return "recompute=cheap";
  case Recompute::Full:
    return "recompute=all";
  case Recompute::Budget:
    break;
  }
  std::string budget = llvm::formatv("policy=budget memory={0} microbatches={1} cluster={2}",
                                     plan.budget, microbatches, asValue(cluster.file));
  if (plan.shape.layout.pipeline > 1)
    budget += llvm::formatv(" schedule={0} ranks={1}", plan.schedule, plan.shape.layout.pipeline);
  if (plan.offloads)
    budget += " offload=true";
  return budget;
}

/// Mebibytes, as --overlap-communication has it by itself.
static constexpr double usualInFlight = 256;

/// Whether parameters are gathered in each microbatch, and layers communicate nothing else. Others'
/// communications, which kernels wait for, would come behind gathers that are ahead.
static bool gathersAhead(const Layout &layout, const Source &source) {
  return layout.sharding == Sharding::Fsdp && layout.tensor == 1 && layout.context == 1 &&
         source.facts.experts == 1;
}

double plan::getMaxInFlight(const Layout &layout, const Source &source) {
  if (!gathersAhead(layout, source) || source.layerParameters.empty())
    return usualInFlight;
  // Of small models all would be there at once, and what is saved or recomputed would decide
  // nothing: two layers are enough to be ahead.
  constexpr double spare = 1.1, mebibyte = 1 << 20, thousandths = 1000;
  double layers = 0;
  for (const auto &[shape, bytes] : source.layerParameters)
    layers += 2 * bytes / double(source.facts.layers);
  const double most = std::max(std::min(usualInFlight, layers / mebibyte),
                               spare * source.largestParameter / mebibyte);
  return std::ceil(thousandths * most) / thousandths;
}

/// Gathers of parameters start before gradients are scattered.
static std::string describeOverlap(const Layout &layout, const Source &source) {
  if (!gathersAhead(layout, source))
    return "";
  std::string options = "arguments-ahead=true";
  if (double most = getMaxInFlight(layout, source); most != usualInFlight)
    options += llvm::formatv(" max-in-flight-mb={0}", llvm::format("%.12g", most));
  return options;
}

std::vector<PassCall> plan::listStaging(const Plan &plan, const Source &source,
                                        const cost::Cluster &cluster, llvm::ArrayRef<int64_t> cuts,
                                        bool isForAny) {
  const Shape &shape = plan.shape;
  std::string options = describeRecompute(plan, cluster, source.facts.microbatches);
  std::vector<PassCall> passes;
  const PassCall splitFsdp{"split-fsdp-collectives", ""};
  const bool isFsdpOnce = shape.layout.sharding == Sharding::FsdpOnce;
  // Of what a budget is for, gathered parameters are there through the step.
  const bool isFirst = isFsdpOnce && (isForAny || shape.recompute == Recompute::Budget);
  if (cuts.empty()) {
    if (isFirst)
      passes.push_back(splitFsdp);
    passes.push_back({"partition-joint", options});
  } else {
    std::vector<std::string> modules;
    for (int64_t cut : cuts)
      modules.push_back(source.layers + "." + std::to_string(cut));
    if (isFirst)
      options += " split-fsdp-collectives=true";
    passes.push_back({"outline-stages", "at=" + llvm::join(modules, ",") + " " + options});
  }
  if (shape.splitsBackward)
    passes.push_back({"split-backward", ""});
  if (isFsdpOnce && !isFirst)
    passes.push_back(splitFsdp);
  passes.push_back({"bucket-gradients", ""});
  passes.push_back({"overlap-communication", describeOverlap(shape.layout, source)});
  return passes;
}

std::vector<PassCall> plan::listScheduling(const Plan &plan, int64_t microbatches) {
  if (plan.shape.layout.pipeline == 1)
    return {};
  return {{"build-schedule", llvm::formatv("schedule={0} ranks={1} microbatches={2}", plan.schedule,
                                           plan.shape.layout.pipeline, microbatches)},
          {"insert-p2p", ""},
          {"verify-schedule", ""}};
}

std::string plan::makePipeline(llvm::ArrayRef<PassCall> passes) {
  std::vector<std::string> texts;
  for (const PassCall &pass : passes) {
    std::string text = pass.name + (pass.options.empty() ? "" : "{" + pass.options + "}");
    bool isOfFunctions = pass.name == "overlap-communication" || pass.name == "sequence-major";
    texts.push_back(isOfFunctions ? "func.func(" + text + ")" : text);
  }
  return llvm::join(texts, ",");
}
