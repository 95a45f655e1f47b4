// Plans carried out in this process.
#include "tools/cleave-plan/Passes.h"

#include "dialects/aten/Aten.h"
#include "lib/aten/OpCost.h"
#include "lib/pipeline/Completion.h"
#include "lib/pipeline/StageWork.h"
#include "lib/pipeline/Stages.h"
#include "lib/placement/Form.h"
#include "lib/plan/Bound.h"
#include "lib/solve/Timer.h"
#include "tools/cleave-plan/Commands.h"
#include "tools/cleave-plan/Run.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

/// Layers of programs in memory at a time.
static constexpr int64_t maxPlacedLayers = 1500;

llvm::Error PassRunner::prepare() {
  for (auto [program, source] : llvm::enumerate(sources)) {
    auto found = Layers::find(source);
    layers.push_back(found ? std::optional(std::move(*found)) : std::nullopt);
    if (!found)
      llvm::consumeError(found.takeError());
    auto choose = [&] { return chooseSamples(unsigned(program), /*hasPairs=*/false); };
    auto module = keep(unsigned(program), choose().kept);
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
    auto work = describeLayers(**module, unsigned(program), choose(), Division::None);
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

Programs::ShardedBytes PassRunner::getShardedBytes(unsigned program, int64_t parts) const {
  auto sum = [&](const std::map<llvm::SmallVector<int64_t>, double> &parameters) {
    double sum = 0;
    for (const auto &[shape, bytes] : parameters)
      if (llvm::any_of(shape, [&](int64_t size) { return size % parts == 0; }))
        sum += bytes;
    return sum;
  };
  return {sum(sources[program].layerParameters), sum(sources[program].layerExperts)};
}

//===----------------------------------------------------------------------===//
// Programs with placements
//===----------------------------------------------------------------------===//

Layout plan::getPlacedPart(Layout layout) {
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

int64_t PassRunner::countLayers(unsigned program, const Kept &kept) const {
  return kept.empty() ? sources[program].facts.layers : llvm::count(kept, true);
}

llvm::Expected<ModuleOp> PassRunner::place(const Layout &layout, const Kept &kept) {
  Layout key = getPlacedPart(layout);
  auto found = llvm::find_if(
      placed, [&](const Placed &each) { return each.layout == key && each.kept == kept; });
  if (found != placed.end()) {
    std::rotate(placed.begin(), found, std::next(found));
    return placed.front().module->get();
  }
  for (const Refused &each : refused)
    if (each.layout == key && each.kept == kept)
      return makeError("{0}", each.reason);
  solve::Timer timer;
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
  if (llvm::Error error = runPasses(module->get(), listPlacing(key, path))) {
    refused.push_back({key, kept, llvm::toString(std::move(error))});
    return makeError("{0}", refused.back().reason);
  }
  ++numPartitioned;
  numLayers += countLayers(layout.program, kept);
  placeSeconds += timer.getSeconds();
  placed.push_front({key, kept, std::move(module)});
  numPlacedLayers += countLayers(layout.program, kept);
  for (; placed.size() > 1 && numPlacedLayers > maxPlacedLayers; placed.pop_back())
    numPlacedLayers -= countLayers(placed.back().layout.program, placed.back().kept);
  return placed.front().module->get();
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Where stages begin in a program with these kinds of layers, if they follow each other in it.
static std::optional<std::vector<size_t>> findParts(ArrayRef<unsigned> kinds,
                                                    ArrayRef<std::vector<unsigned>> stages) {
  std::vector<size_t> begins;
  size_t place = 0;
  for (const std::vector<unsigned> &stage : stages) {
    while (place + stage.size() <= kinds.size() &&
           kinds.slice(place, stage.size()) != ArrayRef(stage))
      ++place;
    if (place + stage.size() > kinds.size())
      return std::nullopt;
    begins.push_back(place);
    place += stage.size();
  }
  return begins;
}

std::vector<int64_t> PassRunner::listKept(unsigned program, const Kept &kept) const {
  std::vector<int64_t> numbers;
  for (int64_t layer = 0; layer < sources[program].facts.layers; ++layer)
    if (kept.empty() || kept[size_t(layer)])
      numbers.push_back(layer);
  return numbers;
}

/// A program that is placed as the layout says and has these stages among its layers, as far as
/// one is there and staging it takes less than placing another; otherwise one with the layers
/// `kept`.
PassRunner::Kept PassRunner::chooseKept(const Layout &layout, Kept kept,
                                        ArrayRef<std::vector<unsigned>> stages) const {
  // A layer takes so many times as long to place as to cut.
  constexpr int64_t placing = 5;
  int64_t most = (placing + 1) * countLayers(layout.program, kept);
  Layout key = getPlacedPart(layout);
  for (const Placed &each : placed) {
    int64_t count = countLayers(layout.program, each.kept);
    if (each.layout != key || count > most)
      continue;
    std::vector<unsigned> kinds;
    for (int64_t layer : listKept(layout.program, each.kept))
      kinds.push_back(layers[layout.program]->getClass(layer));
    if (!findParts(kinds, stages))
      continue;
    kept = each.kept;
    most = count - 1;
  }
  return kept;
}

PassRunner::Stages PassRunner::chooseStages(const Shape &shape, bool isWhole) const {
  Stages stages;
  std::vector<int64_t> cuts = space.listCuts(shape);
  const std::optional<Layers> &known = layers[shape.layout.program];
  if (isWhole || !known) {
    stages.cuts = cuts;
    for (unsigned stage = 0; stage <= cuts.size(); ++stage)
      stages.sameAs.push_back(stage);
    return stages;
  }
  Kept kept(size_t(known->size()), false);
  std::vector<std::vector<unsigned>> different;
  cuts.push_back(known->size());
  int64_t begin = 0;
  for (int64_t end : cuts) {
    std::vector<unsigned> classes;
    for (int64_t layer = begin; layer < end; ++layer)
      classes.push_back(known->getClass(layer));
    auto found = llvm::find(different, classes);
    stages.sameAs.push_back(unsigned(found - different.begin()));
    if (found == different.end()) {
      std::fill(kept.begin() + begin, kept.begin() + end, true);
      different.push_back(std::move(classes));
    }
    begin = end;
  }
  if (llvm::all_of(kept, [](bool kept) { return kept; }))
    kept.clear();
  stages.kept = chooseKept(shape.layout, std::move(kept), different);
  // Between these stages there may be layers that none has: stages by themselves.
  std::vector<int64_t> numbers = listKept(shape.layout.program, stages.kept);
  std::vector<unsigned> kinds, carried;
  for (int64_t layer : numbers)
    kinds.push_back(known->getClass(layer));
  size_t end = 0;
  auto begins = *findParts(kinds, different);
  for (auto [begin, stage] : llvm::zip_equal(begins, different)) {
    if (end > 0 && begin > end)
      stages.cuts.push_back(numbers[end]);
    if (begin > 0)
      stages.cuts.push_back(numbers[begin]);
    carried.push_back(unsigned(stages.cuts.size()));
    end = begin + stage.size();
  }
  if (end < numbers.size())
    stages.cuts.push_back(numbers[end]);
  for (unsigned &stage : stages.sameAs)
    stage = carried[stage];
  return stages;
}

void plan::reorderGroups(const Layout &layout, simulate::ProgramWork &work) {
  for (simulate::ProcessGroup &group : work.groups) {
    llvm::SmallVector<llvm::StringRef> axes;
    llvm::StringRef(group.axes).split(axes, ", ");
    // From the inside: neighbours along the batch, then along the products.
    group.ranks.stride = llvm::is_contained(axes, "dp") ? 1 : layout.data;
  }
}

llvm::Expected<StagedProgram> PassRunner::stage(const Shape &shape) {
  // A program does not depend on which ranks are neighbours.
  Shape key = shape;
  key.layout.dataInside = false;
  if (!staged || staged->first != key) {
    auto program = stage({key, ""}, chooseStages(key, /*isWhole=*/false));
    if (!program)
      return program.takeError();
    staged.emplace(key, std::move(*program));
  }
  StagedProgram program = staged->second;
  if (shape.layout.dataInside)
    reorderGroups(shape.layout, program.work);
  return program;
}

llvm::Expected<StagedProgram> PassRunner::stageWhole(const Plan &plan) {
  return stage(plan, chooseStages(plan.shape, /*isWhole=*/true));
}

double PassRunner::estimateWhole(unsigned program) const {
  double layer = placeSeconds / double(std::max<int64_t>(numLayers, 1)) +
                 stageSeconds / double(std::max<int64_t>(numStagedLayers, 1));
  return layer * double(sources[program].facts.layers);
}

llvm::Expected<std::vector<train::ProgramFunctions>> plan::listStages(ModuleOp module, bool isCut) {
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

llvm::Expected<StagedProgram> PassRunner::stage(const Plan &plan, const Stages &chosen) {
  const Shape &shape = plan.shape;
  auto global = place(shape.layout, chosen.kept);
  if (!global)
    return global.takeError();
  solve::Timer timer;
  const Source &source = sources[shape.layout.program];
  auto module = std::make_shared<OwningOpRef<ModuleOp>>(global->clone());
  if (llvm::Error error = runPasses(module->get(), listStaging(plan, source, cluster, chosen.cuts)))
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
  numStagedLayers += countLayers(shape.layout.program, chosen.kept);
  stageSeconds += timer.getSeconds();
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
