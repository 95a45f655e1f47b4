// What layers take at the least, from programs that have a few of them.
#include "tools/cleave-plan/Passes.h"

#include "lib/pipeline/StageWork.h"
#include "lib/pipeline/Stages.h"
#include "lib/plan/Bound.h"
#include "tools/cleave-plan/Run.h"

#include <numeric>

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

//===----------------------------------------------------------------------===//
// Which layers
//===----------------------------------------------------------------------===//

/// Without layers that may be left out there are none.
PassRunner::Samples PassRunner::chooseSamples(unsigned program, bool hasPairs) const {
  Samples samples;
  if (!layers[program])
    return samples;
  const Layers &known = *layers[program];
  samples.kept.assign(size_t(known.size()), false);
  samples.kept.front() = samples.kept.back() = true;
  auto add = [&](int64_t layer, int64_t count, std::map<unsigned, unsigned> &stages) {
    stages[known.getClass(layer)] = unsigned(samples.first.size());
    samples.first.push_back(layer);
    if (layer > 0)
      samples.cuts.push_back(layer);
    std::fill_n(samples.kept.begin() + layer, count, true);
  };
  bool hasRuns = hasStageSamples(program);
  for (int64_t layer = 0; layer < known.size(); ++layer) {
    unsigned kind = known.getClass(layer);
    if (!samples.single.count(kind)) {
      add(layer, 1, samples.single);
    } else if (hasPairs && !samples.pair.count(kind) && layer + 1 < known.size() &&
               known.getClass(layer + 1) == kind) {
      add(layer, 2, samples.pair);
      ++layer;
    } else if (hasPairs && hasRuns && !samples.pair.count(kind) && !samples.kept[size_t(layer)]) {
      samples.first.push_back(layer);
      samples.cuts.push_back(layer);
      samples.kept[size_t(layer)] = true;
    }
  }
  return samples;
}

/// What the layers of a program do that has those of the samples, one of each kind.
llvm::Expected<LayerWork> PassRunner::describeLayers(ModuleOp module, unsigned program,
                                                     const Samples &samples,
                                                     Division division) const {
  Diagnostics diagnostics(module.getContext());
  auto functions = train::getProgram(module);
  if (failed(functions))
    return diagnostics.makeError("the program is not sound");
  const Source &source = sources[program];
  std::vector<std::string> modules;
  std::vector<unsigned> chosen;
  unsigned place = 0;
  for (int64_t layer = 0; layer < source.facts.layers; ++layer) {
    if (!samples.kept.empty() && !samples.kept[size_t(layer)])
      continue;
    if (layer > 0)
      modules.push_back(source.layers + "." + std::to_string(layer));
    if (!layers[program])
      chosen.push_back(place);
    else if (unsigned kind = layers[program]->getClass(layer);
             samples.first[samples.single.at(kind)] == layer)
      chosen.push_back(place); // kinds are numbered in this order
    ++place;
  }
  auto work = LayerWork::create(functions->microbatch, division, modules, chosen);
  if (failed(work))
    return diagnostics.makeError("the program has no forward and backward");
  return std::move(*work);
}

/// What each layer takes, from what those of each kind do.
LayerTimes PassRunner::timeLayers(unsigned program, const LayerWork &work, const Layout &layout,
                                  int64_t parts) const {
  LayerWork::Times some = work.time(cluster, layout, parts);
  LayerTimes all;
  all.shared = some.shared;
  if (some.forward.empty())
    return all;
  for (int64_t layer = 0; layer < sources[program].facts.layers; ++layer) {
    size_t kind = layers[program] ? layers[program]->getClass(layer) : size_t(layer);
    all.forward.push_back(some.forward[kind]);
    all.backward.push_back(some.backward[kind]);
    all.either.push_back(some.either[kind]);
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Recomputation
//===----------------------------------------------------------------------===//

/// What stages of one layer and of two compute in their backward, and keep. None where a pass
/// refuses.
std::optional<PassRunner::RecomputedWork>
PassRunner::recompute(const Layout &layout, Recompute recompute, Division division) {
  if (!layers[layout.program])
    return std::nullopt;
  Samples samples = chooseSamples(layout.program, /*hasPairs=*/true);
  auto global = place(layout, samples.kept);
  if (!global) {
    llvm::consumeError(global.takeError());
    return std::nullopt;
  }
  Shape shape{layout};
  shape.recompute = recompute;
  OwningOpRef<ModuleOp> module(global->clone());
  std::vector<PassCall> passes =
      listStaging({shape, ""}, sources[layout.program], cluster, samples.cuts);
  if (llvm::Error error = runPasses(*module, llvm::ArrayRef(passes).take_front(1))) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  Diagnostics diagnostics(global->getContext());
  auto stages = pipeline::getStages(*module);
  if (failed(stages))
    return std::nullopt;
  llvm::DenseSet<Operation *> constant, regathered, early;
  if (division != Division::All) {
    constant = findConstant(*stages);
    regathered = findRegathered(*stages);
    early = findEarly(*stages);
  }
  auto isUnsaved = [&](Operation *op) { return constant.contains(op); };
  pipeline::MeasureOptions options;
  options.isUnsaved = isUnsaved;
  auto work = pipeline::measureStages(*stages, options);
  if (failed(work))
    return std::nullopt;
  RecomputedWork found;
  for (auto [functions, stage] : llvm::zip_equal(*stages, work->stages)) {
    std::vector<cost::OpWork> &backward = found.backward.emplace_back();
    found.saved.push_back(stage.savedBytes);
    if (functions.backward)
      for (const auto &[op, work] :
           listWork(functions.backward, /*isGlobal=*/division != Division::All, /*isCut=*/true))
        if (!regathered.contains(op) && !early.contains(op))
          backward.push_back(work);
  }
  return found;
}

/// By layer, where `parts` more ranks divide each op and what is kept. Where two layers are in a
/// stage, one more takes what both take more than one; what one by itself takes beyond that is
/// shared. What ranks of a batch keep of a loss does not follow from the whole batch: unless it is
/// the layout's own work, the least of all kinds counts for each layer.
LayerTimes::Recomputed PassRunner::timeRecomputed(unsigned program, const RecomputedWork &work,
                                                  int64_t parts, bool isOwn) const {
  struct Sample {
    KernelTime backward;
    double saved = 0;
  };
  std::vector<Sample> found;
  KernelTimer timer(cluster, parts);
  for (auto [ops, saved] : llvm::zip_equal(work.backward, work.saved)) {
    Sample &sample = found.emplace_back();
    sample.saved = saved / double(parts);
    for (const cost::OpWork &op : ops)
      sample.backward += timer.time(op);
  }
  Samples samples = chooseSamples(program, /*hasPairs=*/true);
  // The part that a stage has once, at the most.
  Sample shared;
  auto spare = [](const Sample &one, const Sample &two) {
    return Sample{{std::max(2 * one.backward.device - two.backward.device, 0.0),
                   std::max(2 * one.backward.host - two.backward.host, 0.0)},
                  std::max(2 * one.saved - two.saved, 0.0)};
  };
  for (auto [kind, pair] : samples.pair) {
    Sample once = spare(found[samples.single.at(kind)], found[pair]);
    shared.backward.device = std::max(shared.backward.device, once.backward.device);
    shared.backward.host = std::max(shared.backward.host, once.backward.host);
    shared.saved = std::max(shared.saved, once.saved);
  }
  Sample least = found.front();
  for (auto [kind, stage] : samples.single) {
    least.backward.device = std::min(least.backward.device, found[stage].backward.device);
    least.backward.host = std::min(least.backward.host, found[stage].backward.host);
    least.saved = std::min(least.saved, found[stage].saved);
  }
  LayerTimes::Recomputed times;
  const Layers &known = *layers[program];
  for (int64_t layer = 0; layer < known.size(); ++layer) {
    const Sample &one = isOwn ? found[samples.single.at(known.getClass(layer))] : least;
    times.backward.push_back({std::max(one.backward.device - shared.backward.device, 0.0),
                              std::max(one.backward.host - shared.backward.host, 0.0)});
    times.savedBytes.push_back(std::max(one.saved - shared.saved, 0.0));
  }
  return times;
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// Where parameters lie changes what is kept and recomputed, and nothing else that is computed.
static Layout withoutSharding(const Layout &layout) {
  Layout replicated = getPlacedPart(layout);
  replicated.sharding = Sharding::Replicated;
  replicated.replicas = 1;
  return replicated;
}

std::vector<PassRunner::Partitioned>::iterator PassRunner::findPartitioned(const Layout &layout) {
  Layout key = layout.shardsParameters() ? getPlacedPart(layout) : withoutSharding(layout);
  return llvm::find_if(partitioned, [&](const auto &each) { return each.layout == key; });
}

llvm::Expected<LayerTimes> PassRunner::partition(const Layout &layout) {
  Layout replicated = withoutSharding(layout);
  auto known = findPartitioned(layout);
  if (known == partitioned.end()) {
    Samples samples = chooseSamples(layout.program, /*hasPairs=*/true);
    auto module = place(replicated, samples.kept);
    if (!module)
      return module.takeError();
    auto work = describeLayers(*module, layout.program, samples, Division::All);
    if (!work)
      return work.takeError();
    const Layout key = layout.shardsParameters() ? getPlacedPart(layout) : replicated;
    known = partitioned.insert(known, {key, std::move(*work), {}, {}});
    if (!hasStageSamples(layout.program))
      for (Recompute each : allRecomputes)
        if (auto found = recompute(key, each, Division::All))
          known->recomputed[size_t(each)] =
              timeRecomputed(layout.program, *found, /*parts=*/1, /*isOwn=*/true);
  }
  LayerTimes times = timeLayers(layout.program, known->work, layout, /*parts=*/1);
  times.recomputed = known->recomputed;
  return times;
}

std::pair<Layout, int64_t> PassRunner::getUndivided(const Layout &layout) const {
  Layout whole = getPlacedPart(layout);
  whole.sharding = Sharding::Replicated;
  whole.replicas = 1;
  if (!isLikeUndivided(layout))
    return {whole, 1};
  whole.data = 1;
  const ProgramFacts &facts = space.programs[layout.program];
  int64_t times = 1;
  // How experts exchange rows may depend on how many there are.
  if (layers[layout.program] && facts.experts == 1)
    for (auto [program, other] : llvm::enumerate(space.programs))
      if (layers[program] && other.batch > times * facts.batch && other.batch % facts.batch == 0 &&
          other.tokens == facts.tokens &&
          layers[program]->listClasses() == layers[layout.program]->listClasses()) {
        whole.program = unsigned(program);
        times = other.batch / facts.batch;
      }
  return {whole, times * layout.data};
}

PassRunner::Undivided &PassRunner::findUndivided(const Layout &key) {
  auto known = llvm::find_if(undivided, [&](const auto &each) { return each.layout == key; });
  return known == undivided.end() ? undivided.emplace_back(Undivided{key, {}, {}, {}}) : *known;
}

bool PassRunner::exchangesAlike(const Layout &layout) const {
  // Where there is room for all rows, whether tokens are gathered depends on the number of ranks.
  // What rows bring along for their scores, and those of experts that are modules for their order,
  // replicas exchange in another way.
  const Source &source = sources[layout.program];
  return layout.data == 1 || layout.experts == 1 ||
         llvm::none_of(source.experts, [&](const ExpertRule &rule) {
           return rule.hasRows && (rule.areModules || rule.weighsRows || !source.expertCapacity);
         });
}

bool PassRunner::isLikeUndivided(const Layout &layout) const {
  // Of one example a rank copies may be none that are some of several; and examples that are merged
  // with a divided dimension, such as heads, have to be gathered, while one is merged as it is.
  return exchangesAlike(layout) &&
         layout.data * layout.experts != sources[layout.program].facts.batch;
}

/// By the program of `from`, of which `parts` times as many ranks divide each op.
std::optional<LayerTimes> PassRunner::timeDivided(const Layout &layout, const Layout &from,
                                                  int64_t parts) {
  Undivided &known = findUndivided(from);
  if (!known.work) {
    known.work.emplace();
    // With neighbours that are equal the program serves samples of stages, too.
    unsigned program = known.layout.program;
    Samples samples = chooseSamples(program, hasStageSamples(program));
    auto module = place(known.layout, samples.kept);
    auto work = module ? describeLayers(*module, program, samples, Division::ExceptBatch)
                       : llvm::Expected<LayerWork>(module.takeError());
    if (work)
      *known.work = std::move(*work);
    else
      llvm::consumeError(work.takeError()); // which says nothing of programs with divided batches
  }
  if (!*known.work)
    return std::nullopt;
  return timeLayers(layout.program, **known.work, layout, parts);
}

std::optional<LayerTimes> PassRunner::timeUndivided(const Layout &layout) {
  if (!exchangesAlike(layout))
    return std::nullopt;
  auto [from, parts] = getUndivided(layout);
  return timeDivided(layout, from, parts);
}

std::optional<LayerTimes> PassRunner::timeUnshared(const Layout &layout) {
  if (layout.experts == 1 || layout.tensor == 1 || !isLikeUndivided(layout))
    return std::nullopt;
  auto [from, parts] = getUndivided(layout);
  from.experts = 1;
  return timeDivided(layout, from, parts * layout.experts);
}

/// FSDP keeps and recomputes as much between the first layer and the last, and gathers beside.
LayerTimes::Recomputed PassRunner::recomputeUndivided(const Layout &layout, Recompute recompute) {
  if (!exchangesAlike(layout) || !globals[layout.program].areLayersSettled())
    return {};
  auto [from, parts] = getUndivided(layout);
  Undivided &known = findUndivided(from);
  std::optional<std::optional<RecomputedWork>> &work = known.recomputed[size_t(recompute)];
  if (!work)
    work = this->recompute(known.layout, recompute, Division::ExceptBatch);
  if (!*work)
    return {};
  return timeRecomputed(layout.program, **work, parts,
                        /*isOwn=*/parts == 1 && known.layout.data == 1);
}

/// What ranks of a batch keep of a loss does not follow from the whole batch: of the layers that
/// have more than their own, the first and the last, the least of all kinds counts.
static std::vector<std::shared_ptr<const RecomputeCurve>>
spreadCurves(std::vector<RecomputeCurve> kinds, llvm::ArrayRef<unsigned> classes, bool isDivided) {
  std::vector<const RecomputeCurve *> all;
  for (const RecomputeCurve &kind : kinds)
    all.push_back(&kind);
  auto least = std::make_shared<const RecomputeCurve>(RecomputeCurve::leastOf(all));
  std::vector<std::shared_ptr<const RecomputeCurve>> curves, layers;
  for (RecomputeCurve &kind : kinds)
    curves.push_back(std::make_shared<const RecomputeCurve>(std::move(kind)));
  for (unsigned kind : classes)
    layers.push_back(curves[kind]);
  if (isDivided)
    layers.front() = layers.back() = least;
  return layers;
}

LayerCurves PassRunner::drawCurves(const Layout &layout, const LayerWork &work,
                                   int64_t parts) const {
  std::vector<unsigned> classes(size_t(space.programs[layout.program].layers));
  std::iota(classes.begin(), classes.end(), 0);
  if (layers[layout.program])
    classes = layers[layout.program]->listClasses();
  auto draw = [&](bool isStream) -> LayerCurves::List {
    std::vector<RecomputeCurve> kinds = work.drawCurves(cluster, layout, parts, isStream);
    if (kinds.empty())
      return {};
    return spreadCurves(std::move(kinds), classes, parts > 1);
  };
  return {draw(/*isStream=*/false), draw(/*isStream=*/true), work.getPassedBytes() / double(parts)};
}

const LayerCurves &PassRunner::drawCurves(const Layout &layout, const LayerWork &work,
                                          int64_t parts,
                                          std::map<CurveKey, LayerCurves> &known) const {
  const int64_t stride = layout.dataInside ? layout.data : 1;
  const int64_t shards = layout.sharding == Sharding::Fsdp ? layout.numShards() : 1;
  auto [found, isNew] = known.try_emplace({parts, stride, shards});
  if (isNew)
    found->second = drawCurves(layout, work, parts);
  return found->second;
}

LayerCurves PassRunner::drawCurves(const Layout &layout) {
  if (auto own = findPartitioned(layout); own != partitioned.end())
    return drawCurves(layout, own->work, /*parts=*/1, own->curves);
  if (!globals[layout.program].areLayersSettled() || !timeUndivided(layout))
    return {};
  auto [from, parts] = getUndivided(layout);
  Undivided &known = findUndivided(from);
  return drawCurves(layout, **known.work, parts, known.curves);
}
