// Plans carried out in this process.
#include "tools/cleave-plan/Passes.h"

#include "dialects/aten/Aten.h"
#include "lib/aten/OpCost.h"
#include "lib/pipeline/Completion.h"
#include "lib/pipeline/StageWork.h"
#include "lib/pipeline/Stages.h"
#include "lib/placement/Form.h"
#include "lib/plan/Bound.h"
#include "tools/cleave-plan/Commands.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

/// Programs in memory at a time.
static constexpr size_t maxPlaced = 16;

namespace {
/// The first error of what runs while it lives. Others, and remarks, are dropped.
class Diagnostics {
public:
  explicit Diagnostics(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          if (message.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
            message = diagnostic.str();
          return success();
        }) {}

  llvm::Error makeError(StringRef otherwise) const {
    return cleave::makeError(message.empty() ? otherwise : StringRef(message));
  }

private:
  std::string message;
  ScopedDiagnosticHandler handler;
};
} // namespace

static llvm::Error runPasses(ModuleOp module, ArrayRef<PassCall> passes) {
  // As cleave-opt does, which runs passes of functions on each of them.
  PassManager manager(module.getContext(), ModuleOp::getOperationName(),
                      OpPassManager::Nesting::Implicit);
  std::string problem, pipeline = makePipeline(passes);
  llvm::raw_string_ostream os(problem);
  if (failed(parsePassPipeline(pipeline, manager, os)))
    return makeError("{0}: {1}", pipeline, problem);
  // Once, after the last pass: a search runs many.
  manager.enableVerifier(false);
  Diagnostics diagnostics(module.getContext());
  if (failed(manager.run(module)) || failed(verify(module)))
    return diagnostics.makeError("a pass failed");
  return llvm::Error::success();
}

struct PassRunner::Samples {
  Kept kept;
  std::vector<int64_t> cuts;
  /// By class: the stages of one layer and of two.
  std::map<unsigned, unsigned> single, pair;
  std::vector<int64_t> first; // by stage
};

llvm::Error PassRunner::prepare() {
  for (auto [program, source] : llvm::enumerate(sources)) {
    auto found = Layers::find(source);
    layers.push_back(found ? std::optional(std::move(*found)) : std::nullopt);
    if (!found)
      llvm::consumeError(found.takeError());
    auto module = keep(unsigned(program), chooseSamples(unsigned(program)).kept);
    if (!module) {
      llvm::consumeError(module.takeError());
      layers.back() = std::nullopt;
      module = keep(unsigned(program), {});
    }
    // What all plans' passes leave out.
    if (llvm::Error error = runPasses(**module, listPlacing(Layout(), "")))
      return error;
    auto functions = train::getProgram(**module);
    if (failed(functions))
      return makeError("{0}: is not sound after --cse --canonicalize", source.facts.path);
    simulate::ProgramWork widths;
    for (const auto &[op, work] : listWork(functions->microbatch, /*isGlobal=*/true)) {
      bool isProduct = work.kind == cost::OpWork::Product;
      widths.flopsOfWidth[size_t(isProduct ? work.product.width : work.width)] +=
          cost::flopsOf(work);
    }
    if (llvm::Error error = simulate::checkWidth(cluster, widths))
      return error;
    auto work = describeLayers(**module, unsigned(program), Division::None);
    if (!work)
      return work.takeError();
    globals.push_back(std::move(*work));
  }
  return llvm::Error::success();
}

const LayerTimes &PassRunner::timeGlobal(unsigned program, int64_t parts) const {
  auto [entry, isNew] = globalTimes.try_emplace({program, parts});
  if (isNew)
    entry->second = timeLayers(program, globals[program], Layout(), parts);
  return entry->second;
}

double PassRunner::getShardedBytes(unsigned program, int64_t parts) const {
  double sum = 0;
  for (const auto &[shape, bytes] : sources[program].layerParameters)
    if (llvm::any_of(shape, [&](int64_t size) { return size % parts == 0; }))
      sum += bytes;
  return sum;
}

//===----------------------------------------------------------------------===//
// Programs with placements
//===----------------------------------------------------------------------===//

/// The layout as far as the local program depends on it. Which ranks are neighbours changes only
/// how far those of a group are apart.
static Layout getPlacedPart(Layout layout) {
  layout.pipeline = 1;
  layout.dataInside = false;
  if (layout.sharding == Sharding::FsdpOnce)
    layout.sharding = Sharding::Fsdp;
  return layout;
}

/// The program without the layers that are not kept.
llvm::Expected<OwningOpRef<ModuleOp>> PassRunner::keep(unsigned program, const Kept &kept) const {
  if (kept.empty())
    return OwningOpRef<ModuleOp>(sources[program].module->clone());
  auto [entry, isNew] = shortened.try_emplace({program, kept});
  if (isNew) {
    auto module = layers[program]->keep(kept);
    if (!module) {
      shortened.erase(entry);
      return module.takeError();
    }
    entry->second = std::move(*module);
  }
  return OwningOpRef<ModuleOp>(entry->second->clone());
}

llvm::Expected<ModuleOp> PassRunner::place(const Layout &layout, const Kept &kept) {
  Layout key = getPlacedPart(layout);
  auto found = llvm::find_if(
      placed, [&](const Placed &each) { return each.layout == key && each.kept == kept; });
  if (found != placed.end()) {
    std::rotate(placed.begin(), found, std::next(found));
    return placed.front().module->get();
  }
  Source &source = sources[layout.program];
  auto shortened = keep(layout.program, kept);
  if (!shortened)
    return shortened.takeError();
  auto module = std::make_shared<OwningOpRef<ModuleOp>>(std::move(*shortened));
  llvm::SmallString<128> path;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("cleave-plan", "json", path))
    return makeError("cannot write a temporary file: {0}", code.message());
  llvm::FileRemover remover(path);
  {
    std::error_code code;
    llvm::raw_fd_ostream os(path, code);
    os << llvm::json::Value(makePlacements(key, source));
  }
  if (llvm::Error error = runPasses(module->get(), listPlacing(key, path)))
    return std::move(error);
  ++numPartitioned;
  numLayers += kept.empty() ? source.facts.layers : llvm::count(kept, true);
  placed.push_front({key, kept, std::move(module)});
  if (placed.size() > maxPlaced)
    placed.pop_back();
  return placed.front().module->get();
}

/// What the layers of a program do that has those of the samples, one of each kind.
llvm::Expected<LayerWork> PassRunner::describeLayers(ModuleOp module, unsigned program,
                                                     Division division) const {
  Diagnostics diagnostics(module.getContext());
  auto functions = train::getProgram(module);
  if (failed(functions))
    return diagnostics.makeError("the program is not sound");
  const Source &source = sources[program];
  Samples samples = chooseSamples(program);
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

/// Without layers that may be left out there are none.
PassRunner::Samples PassRunner::chooseSamples(unsigned program) const {
  Samples samples;
  if (!layers[program])
    return samples;
  const Layers &known = *layers[program];
  samples.kept.assign(size_t(known.size()), false);
  auto add = [&](int64_t layer, int64_t count, std::map<unsigned, unsigned> &stages) {
    stages[known.getClass(layer)] = unsigned(samples.first.size());
    samples.first.push_back(layer);
    if (layer > 0)
      samples.cuts.push_back(layer);
    std::fill_n(samples.kept.begin() + layer, count, true);
  };
  for (int64_t layer = 0; layer < known.size(); ++layer) {
    unsigned kind = known.getClass(layer);
    if (!samples.single.count(kind)) {
      add(layer, 1, samples.single);
    } else if (!samples.pair.count(kind) && layer + 1 < known.size() &&
               known.getClass(layer + 1) == kind) {
      add(layer, 2, samples.pair);
      ++layer;
    }
  }
  return samples;
}

/// What each layer takes and keeps, where stages recompute. Where two layers are in a stage, one
/// more takes what both take more than one; what one by itself takes beyond that is shared.
void PassRunner::timeRecomputed(const Layout &layout, const Samples &samples, Recompute recompute,
                                LayerTimes::Recomputed &times) {
  auto global = place(layout, samples.kept);
  if (!global)
    return llvm::consumeError(global.takeError());
  Shape shape{layout};
  shape.recompute = recompute;
  OwningOpRef<ModuleOp> module(global->clone());
  std::vector<PassCall> passes = listStaging(shape, sources[layout.program], samples.cuts);
  if (llvm::Error error = runPasses(*module, llvm::ArrayRef(passes).take_front(1)))
    return llvm::consumeError(std::move(error));
  Diagnostics diagnostics(global->getContext());
  auto stages = pipeline::getStages(*module);
  if (failed(stages))
    return;
  auto work = pipeline::measureStages(*stages, {});
  if (failed(work))
    return;
  struct Sample {
    KernelTime backward;
    double saved = 0;
  };
  std::vector<Sample> found;
  for (auto [functions, stage] : llvm::zip_equal(*stages, work->stages)) {
    Sample &sample = found.emplace_back();
    sample.saved = stage.savedBytes;
    if (functions.backward)
      for (const auto &[op, work] :
           listWork(functions.backward, /*isGlobal=*/false, /*isCut=*/true))
        sample.backward += getTime(cluster, work);
  }
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
  const Layers &known = *layers[layout.program];
  for (int64_t layer = 0; layer < known.size(); ++layer) {
    const Sample &one = found[samples.single.at(known.getClass(layer))];
    times.backward.push_back({std::max(one.backward.device - shared.backward.device, 0.0),
                              std::max(one.backward.host - shared.backward.host, 0.0)});
    times.savedBytes.push_back(std::max(one.saved - shared.saved, 0.0));
  }
}

static bool isFsdp(const Layout &layout) {
  return layout.sharding == Sharding::Fsdp || layout.sharding == Sharding::FsdpOnce;
}

llvm::Expected<LayerTimes> PassRunner::partition(const Layout &layout) {
  Layout key = getPlacedPart(layout);
  key.sharding = Sharding::Replicated;
  auto known =
      llvm::find_if(partitioned, [&](const Partitioned &each) { return each.layout == key; });
  if (known == partitioned.end()) {
    Samples samples = chooseSamples(layout.program);
    auto module = place(key, samples.kept);
    if (!module)
      return module.takeError();
    auto work = describeLayers(*module, layout.program, Division::All);
    if (!work)
      return work.takeError();
    known = partitioned.insert(known, {key, std::move(*work), {}});
    if (layers[layout.program])
      for (Recompute recompute : {Recompute::None, Recompute::Cheap, Recompute::Full})
        timeRecomputed(key, samples, recompute, known->recomputed[size_t(recompute)]);
  }
  LayerTimes times = timeLayers(layout.program, known->work, layout, /*parts=*/1);
  // Where parameters lie changes what is kept and recomputed, and nothing else that is computed.
  if (!isFsdp(layout))
    times.recomputed = known->recomputed;
  return times;
}

std::optional<LayerTimes> PassRunner::timeUndivided(const Layout &layout) {
  Layout key = getPlacedPart(layout);
  key.sharding = Sharding::Replicated;
  key.data = 1;
  if (layout.data == 1 || key.numParts() == 1)
    return std::nullopt; // nothing that is not known of other programs
  auto known = llvm::find_if(undivided, [&](const auto &each) { return each.first == key; });
  if (known == undivided.end()) {
    std::optional<LayerWork> found;
    auto module = place(key, chooseSamples(layout.program).kept);
    auto work = module ? describeLayers(*module, layout.program, Division::ExceptBatch)
                       : llvm::Expected<LayerWork>(module.takeError());
    if (work)
      found = std::move(*work);
    else
      llvm::consumeError(work.takeError()); // which says nothing of programs with divided batches
    known = undivided.insert(known, {key, std::move(found)});
  }
  if (!known->second)
    return std::nullopt;
  return timeLayers(layout.program, *known->second, layout, layout.data);
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

PassRunner::Stages PassRunner::chooseStages(const Shape &shape, bool isWhole) const {
  Stages stages;
  std::vector<int64_t> cuts = space.listCuts(shape);
  const std::optional<Layers> &known = layers[shape.layout.program];
  if (isWhole || !known || cuts.empty()) {
    stages.cuts = cuts;
    for (unsigned stage = 0; stage <= cuts.size(); ++stage)
      stages.sameAs.push_back(stage);
    return stages;
  }
  stages.kept.assign(size_t(known->size()), false);
  std::map<std::vector<unsigned>, unsigned> numbers;
  cuts.push_back(known->size());
  int64_t begin = 0;
  for (int64_t end : cuts) {
    std::vector<unsigned> classes;
    for (int64_t layer = begin; layer < end; ++layer)
      classes.push_back(known->getClass(layer));
    auto [number, isNew] = numbers.try_emplace(classes, numbers.size());
    stages.sameAs.push_back(number->second);
    if (isNew) {
      std::fill(stages.kept.begin() + begin, stages.kept.begin() + end, true);
      if (begin > 0)
        stages.cuts.push_back(begin);
    }
    begin = end;
  }
  if (llvm::all_of(stages.kept, [](bool kept) { return kept; }))
    stages.kept.clear();
  return stages;
}

/// The distances of groups on a mesh whose axes lie the other way round.
static void reorderGroups(const Layout &layout, simulate::ProgramWork &work) {
  for (simulate::ProcessGroup &group : work.groups) {
    llvm::SmallVector<llvm::StringRef> axes;
    llvm::StringRef(group.axes).split(axes, ", ");
    // From the inside: neighbours along the batch, then along the products.
    group.ranks.stride = llvm::is_contained(axes, "dp") ? 1 : layout.data;
  }
}

llvm::Expected<StagedProgram> PassRunner::stage(const Shape &shape) {
  return stage(shape, chooseStages(shape, /*isWhole=*/false));
}

llvm::Expected<StagedProgram> PassRunner::stageWhole(const Shape &shape) {
  return stage(shape, chooseStages(shape, /*isWhole=*/true));
}

/// The stages of a layout's microbatch, once they are cut; one of a program that is not.
static llvm::Expected<std::vector<train::ProgramFunctions>> listStages(ModuleOp module,
                                                                       bool isCut) {
  Diagnostics diagnostics(module.getContext());
  if (isCut) {
    auto stages = pipeline::getStages(module);
    if (failed(stages))
      return diagnostics.makeError("the stages are not sound");
    return std::move(*stages);
  }
  auto program = train::getProgram(module, train::ProgramForms::Any);
  if (failed(program))
    return diagnostics.makeError("the program is not sound");
  return std::vector<train::ProgramFunctions>{std::move(*program)};
}

/// Carries out stages that begin with these layers.
llvm::Error PassRunner::sampleStages(const Shape &shape, const Kept &kept, ArrayRef<int64_t> cuts,
                                     StageSamples &samples) {
  auto global = place(shape.layout, kept);
  if (!global)
    return global.takeError();
  const Source &source = sources[shape.layout.program];
  OwningOpRef<ModuleOp> module(global->clone());
  if (llvm::Error error = runPasses(*module, listStaging(shape, source, cuts)))
    return error;
  auto stages = listStages(*module, !cuts.empty());
  if (!stages)
    return stages.takeError();
  Diagnostics diagnostics(module->getContext());
  auto work = pipeline::measureStages(*stages, {});
  if (failed(work))
    return diagnostics.makeError("the stages cannot be measured");
  if (shape.layout.dataInside)
    reorderGroups(shape.layout, *work);
  int64_t begin = 0, layers = source.facts.layers;
  SmallVector<int64_t> ends(cuts);
  ends.push_back(layers);
  for (auto [end, stage] : llvm::zip_equal(ends, describeStages(cluster, *work))) {
    int64_t count = 0; // of its layers, those that are there and are equal to others
    for (int64_t layer = std::max<int64_t>(begin, 1); layer < std::min(end, layers - 1); ++layer)
      count += int64_t(kept[size_t(layer)]);
    samples.add(begin == 0, count, end == layers, stage);
    begin = end;
  }
  return llvm::Error::success();
}

const StageSamples *PassRunner::sampleStages(const Shape &shape) {
  Shape key;
  key.layout = shape.layout;
  key.layout.pipeline = 1;
  // FSDP is another program, of which --partition-joint keeps and recomputes other values. How
  // often parameters are gathered, and where optimizer states lie, changes nothing else.
  key.layout.sharding = isFsdp(shape.layout) ? Sharding::FsdpOnce : Sharding::Replicated;
  key.recompute = shape.recompute;
  key.splitsBackward = shape.splitsBackward;
  key.chunks = shape.numStages() > 1 ? 2 : 1;
  for (const Sampled &known : sampled)
    if (known.shape == key)
      return known.samples.get();
  sampled.push_back({key, nullptr});
  const std::optional<Layers> &known = layers[key.layout.program];
  int64_t last = known ? known->size() - 1 : 0;
  for (int64_t layer = 1; layer < last; ++layer)
    if (known->getClass(layer) != known->getClass(1))
      return nullptr;
  if (last < 5)
    return nullptr; // as well carried out
  Kept kept(size_t(known->size()), false);
  for (int64_t layer : {int64_t(0), int64_t(1), int64_t(2), int64_t(3), last})
    kept[size_t(layer)] = true;
  // Those that are cut: first|3|last, first|1|2|last, first+1|2+last, first+2|1+last.
  std::vector<std::vector<int64_t>> cuts = {{1, last}, {1, 2, last}, {2}, {3}};
  if (key.chunks == 1)
    cuts = {{}, {1, last}, {1, 2, last}};
  auto samples = std::make_unique<StageSamples>(known->size());
  for (const std::vector<int64_t> &each : cuts)
    if (llvm::Error error = sampleStages(key, kept, each, *samples)) {
      llvm::consumeError(std::move(error)); // such plans are refused, or looked at one by one
      return nullptr;
    }
  sampled.back().samples = std::move(samples);
  return sampled.back().samples.get();
}

llvm::Expected<StagedProgram> PassRunner::stage(const Shape &shape, const Stages &chosen) {
  auto global = place(shape.layout, chosen.kept);
  if (!global)
    return global.takeError();
  const Source &source = sources[shape.layout.program];
  auto module = std::make_shared<OwningOpRef<ModuleOp>>(global->clone());
  if (llvm::Error error = runPasses(module->get(), listStaging(shape, source, chosen.cuts)))
    return std::move(error);
  auto carried = listStages(module->get(), shape.numStages() > 1);
  if (!carried)
    return carried.takeError();
  Diagnostics diagnostics(global->getContext());
  pipeline::MeasureOptions options;
  options.ranks = shape.layout.pipeline;
  auto work = pipeline::measureStages(*carried, options);
  if (failed(work))
    return diagnostics.makeError("the stages cannot be measured");
  if (shape.layout.dataInside)
    reorderGroups(shape.layout, *work);
  StagedProgram program;
  program.work = std::move(*work);
  auto stages = std::make_shared<std::vector<train::ProgramFunctions>>();
  std::vector<simulate::StageWork> works = std::move(program.work.stages);
  std::vector<std::optional<unsigned>> firsts(works.size());
  program.work.stages.clear();
  for (auto [stage, number] : llvm::enumerate(chosen.sameAs)) {
    stages->push_back((*carried)[number]);
    simulate::StageWork each = works[number];
    // Of those that take as long the first in the order of stages.
    unsigned like = each.likeStage.value_or(number);
    each.likeStage = firsts[like];
    if (!firsts[like])
      firsts[like] = unsigned(stage);
    program.work.stages.push_back(std::move(each));
  }
  program.complete = [module, stages](schedule::Schedule &schedule) -> llvm::Error {
    Diagnostics diagnostics(module->get().getContext());
    Location location = module->get().getLoc();
    if (failed(pipeline::completeSchedule(*stages, {}, schedule, location)) ||
        failed(pipeline::checkStages(*stages, schedule, location)))
      return diagnostics.makeError("the schedule does not fit the stages");
    return llvm::Error::success();
  };
  return program;
}
