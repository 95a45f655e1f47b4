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

/// Programs in memory at a time.
static constexpr size_t maxPlaced = 16;

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
  if (placed.size() > maxPlaced)
    placed.pop_back();
  return placed.front().module->get();
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

void plan::reorderGroups(const Layout &layout, simulate::ProgramWork &work) {
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

llvm::Expected<StagedProgram> PassRunner::stage(const Shape &shape, const Stages &chosen) {
  auto global = place(shape.layout, chosen.kept);
  if (!global)
    return global.takeError();
  solve::Timer timer;
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
