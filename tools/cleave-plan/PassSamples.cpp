// Stages of few layers, from which those of any length follow.
#include "tools/cleave-plan/Passes.h"

#include "lib/aten/OpCost.h"
#include "lib/backward/GradientRoles.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/pipeline/StageWork.h"
#include "lib/placement/Form.h"
#include "lib/plan/Bound.h"
#include "tools/cleave-plan/Commands.h"
#include "tools/cleave-plan/Run.h"

#include <set>

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

/// Fewer layers are as well carried out, and more take too long.
static constexpr int64_t minSampledLayers = 6, maxSampledLayers = 12;

/// Whether the layers are few runs of equal ones, and worth it.
bool PassRunner::hasStageSamples(unsigned program) const {
  const std::optional<Layers> &known = layers[program];
  if (!known || known->size() < minSampledLayers)
    return false;
  std::map<unsigned, int64_t> lengths;
  for (int64_t layer = 0; layer < known->size(); ++layer)
    if (int64_t &length = lengths[known->getClass(layer)];
        ++length > 1 && known->getClass(layer - 1) != known->getClass(layer))
      return false;
  int64_t sampled = 0;
  for (auto [kind, length] : lengths)
    sampled += std::min(length, int64_t(maxSampledRun));
  return sampled < known->size() && sampled <= maxSampledLayers;
}

/// Cuts of a program of few layers, by their first layers but for the first stage's, so that each
/// of these stages is in one of them.
static std::vector<std::vector<size_t>> listSampleCuts(ArrayRef<unsigned> kinds,
                                                       std::set<std::vector<unsigned>> missing) {
  std::vector<std::vector<size_t>> cuts;
  for (size_t before = 0; missing.size() != before;) {
    before = missing.size();
    std::vector<size_t> cut;
    for (size_t layer = 0; layer < kinds.size();) {
      if (layer > 0)
        cut.push_back(layer);
      size_t length = 1; // of the longest that is missing there
      for (const std::vector<unsigned> &stage : missing)
        if (stage.size() > length &&
            kinds.drop_front(layer).take_front(stage.size()) == ArrayRef(stage))
          length = stage.size();
      missing.erase(kinds.slice(layer, length).vec());
      layer += length;
    }
    if (missing.size() != before)
      cuts.push_back(std::move(cut));
  }
  return cuts;
}

llvm::DenseSet<Operation *> plan::findConstant(ArrayRef<train::ProgramFunctions> stages) {
  llvm::DenseSet<Operation *> found;
  for (const train::ProgramFunctions &stage : stages)
    for (func::FuncOp function : stage.getMicrobatchFunctions()) {
      llvm::DenseSet<Value> constant = listParameters(function);
      for (Operation &op : function.front().without_terminator())
        if (llvm::all_of(op.getOperands(), [&](Value value) { return constant.contains(value); })) {
          constant.insert(op.result_begin(), op.result_end());
          found.insert(&op);
        }
    }
  return found;
}

static void findRegathered(func::FuncOp function, llvm::DenseSet<Operation *> &found) {
  // By value that depends on parameters alone: these.
  llvm::DenseMap<Value, llvm::SmallDenseSet<Value, 2>> sources;
  for (Value parameter : listParameters(function))
    sources[parameter] = {parameter};
  llvm::DenseSet<Value> needed;
  std::vector<Operation *> others;
  for (Operation &op : function.front().without_terminator()) {
    llvm::SmallDenseSet<Value, 2> all;
    bool isConstant = llvm::all_of(op.getOperands(), [&](Value operand) {
      auto known = sources.find(operand);
      if (known != sources.end())
        all.insert(known->second.begin(), known->second.end());
      return known != sources.end();
    });
    if (isConstant) {
      for (Value result : op.getResults())
        sources[result] = all;
      continue;
    }
    others.push_back(&op);
    if (op.hasAttr(train::kRecomputedAttrName))
      continue;
    for (Value operand : op.getOperands())
      if (auto known = sources.find(operand); known != sources.end())
        needed.insert(known->second.begin(), known->second.end());
  }
  for (Operation *op : others) {
    auto isRegathered = [&](Value operand) {
      if (found.contains(operand.getDefiningOp()))
        return true;
      auto known = sources.find(operand);
      return known != sources.end() && llvm::any_of(known->second, [&](Value parameter) {
               return !needed.contains(parameter);
             });
    };
    if (op->hasAttr(train::kRecomputedAttrName) && llvm::any_of(op->getOperands(), isRegathered))
      found.insert(op);
  }
}

/// What `find` finds in each function of the stages' backwards.
static llvm::DenseSet<Operation *>
findInBackwards(ArrayRef<train::ProgramFunctions> stages,
                llvm::function_ref<void(func::FuncOp, llvm::DenseSet<Operation *> &)> find) {
  llvm::DenseSet<Operation *> found;
  for (const train::ProgramFunctions &stage : stages)
    for (func::FuncOp function : {stage.backward, stage.backwardInput, stage.backwardWeight})
      if (function)
        find(function, found);
  return found;
}

llvm::DenseSet<Operation *> plan::findRegathered(ArrayRef<train::ProgramFunctions> stages) {
  return findInBackwards(stages, [](func::FuncOp function, llvm::DenseSet<Operation *> &found) {
    ::findRegathered(function, found);
  });
}

static void findEarly(func::FuncOp function, llvm::DenseSet<Operation *> &found) {
  llvm::DenseSet<Value> given;
  for (BlockArgument argument : function.getArguments())
    if (train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
        role && role.getKind() == train::RoleKind::CrossingGradient)
      given.insert(argument);
  auto areGiven = [&](Operation &op) {
    return op.getNumOperands() > 0 &&
           llvm::all_of(op.getOperands(), [&](Value value) { return given.contains(value); });
  };
  for (Operation &op : function.front().without_terminator())
    if (areGiven(op))
      given.insert(op.result_begin(), op.result_end());
  // What becomes the gradient of a weight is where the weight is.
  llvm::DenseSet<Operation *> parts;
  for (Operation &op : llvm::reverse(function.front().without_terminator())) {
    if (!areGiven(op))
      continue;
    if (llvm::all_of(op.getUsers(), [&](Operation *user) {
          return isa<train::AccumulateOp>(user) || parts.contains(user);
        }))
      parts.insert(&op);
    else
      found.insert(&op);
  }
}

llvm::DenseSet<Operation *> plan::findEarly(ArrayRef<train::ProgramFunctions> stages) {
  return findInBackwards(stages, [](func::FuncOp function, llvm::DenseSet<Operation *> &found) {
    ::findEarly(function, found);
  });
}

/// What a layout that divides the batch may not run in each microbatch: ops that depend on
/// parameters alone, which may run once per step, those that --partition may build otherwise, those
/// that FSDP may not recompute, and those that other stages may run.
static llvm::DenseSet<Operation *> findUnsure(ArrayRef<train::ProgramFunctions> stages) {
  llvm::DenseSet<Operation *> unsure = findConstant(stages);
  llvm::DenseSet<Operation *> regathered = findRegathered(stages);
  unsure.insert(regathered.begin(), regathered.end());
  llvm::DenseSet<Operation *> early = findEarly(stages);
  unsure.insert(early.begin(), early.end());
  for (const train::ProgramFunctions &stage : stages)
    for (func::FuncOp function : stage.getMicrobatchFunctions())
      for (Operation &op : function.front().without_terminator())
        if (!placement::getForms(op.getName()).empty() &&
            aten::describeWork(&op).kind == cost::OpWork::Bytes)
          unsure.insert(&op);
  return unsure;
}

namespace {
/// What of a stage's functions depends on what the forward saves, and on what the backward
/// recomputes: all but what the forward passes on and what follows from gradients.
class FreeOps {
public:
  explicit FreeOps(ArrayRef<train::ProgramFunctions> stages) {
    for (const train::ProgramFunctions &stage : stages) {
      if (stage.forward)
        visitForward(stage.forward);
      for (func::FuncOp function :
           {stage.microbatch, stage.backward, stage.backwardInput, stage.backwardWeight})
        if (function)
          visitBackward(stage, function);
    }
  }

  bool contains(Operation *op) const { return free.contains(op); }
  bool isGradient(Operation *op) const { return gradients.contains(op); }

private:
  void visitForward(func::FuncOp function) {
    llvm::DenseSet<Value> needed;
    Operation *terminator = function.front().getTerminator();
    for (auto [index, result] : llvm::enumerate(terminator->getOperands())) {
      train::RoleAttr role = train::getResultRole(function, index);
      if (!role || role.getKind() != train::RoleKind::Saved)
        needed.insert(result);
    }
    for (Operation &op : llvm::reverse(function.front().without_terminator())) {
      if (llvm::any_of(op.getResults(), [&](Value result) { return needed.contains(result); }))
        needed.insert(op.operand_begin(), op.operand_end());
      else if (op.getNumResults() > 0)
        free.insert(&op);
    }
  }

  void visitBackward(const train::ProgramFunctions &stage, func::FuncOp function) {
    llvm::DenseSet<Value> reached =
        backward::valuesFrom(function, backward::findTangents(stage, function));
    for (Operation &op : function.front().without_terminator()) {
      bool isBackward = function != stage.microbatch || op.hasAttr(train::kBackwardAttrName);
      if (llvm::any_of(op.getOperands(), [&](Value value) { return reached.contains(value); }))
        gradients.insert(&op);
      else if (isBackward && op.getNumResults() > 0)
        free.insert(&op);
    }
  }

  llvm::DenseSet<Operation *> free, gradients;
};
} // namespace

/// Bytes of a stage's input that its weight gradient takes, as it is.
static double countHeldInput(train::ProgramFunctions stage) {
  llvm::DenseSet<Value> inputs;
  double bytes = 0;
  for (unsigned index = 0; stage.forward && index < stage.forward.getNumResults(); ++index) {
    train::RoleAttr role = train::getResultRole(stage.forward, index);
    auto storage = dyn_cast<BlockArgument>(
        memory::getStorage(stage.forward.front().getTerminator()->getOperand(index)));
    if (!role || role.getKind() != train::RoleKind::Saved || !storage)
      continue;
    train::RoleAttr of = train::getArgumentRole(stage.forward, storage.getArgNumber());
    if (!of || of.getKind() != train::RoleKind::Crossing)
      continue;
    for (BlockArgument taken : stage.backwardWeight.getArguments())
      if (train::getArgumentRole(stage.backwardWeight, taken.getArgNumber()) == role &&
          inputs.insert(storage).second)
        bytes += double(memory::getByteSize(storage.getType()));
  }
  return bytes;
}

/// The placed samples of a layout after the pass that cuts them. It takes half of the time, and
/// stages with backwards in one piece and in halves are asked for after each other.
llvm::Expected<OwningOpRef<ModuleOp>> PassRunner::outline(const Layout &layout, ModuleOp global,
                                                          const PassCall &pass) {
  constexpr size_t most = 8;
  Layout key = getPlacedPart(layout);
  std::string text = makePipeline(pass);
  for (Outlined &each : outlined)
    if (each.layout == key && each.pass == text)
      return OwningOpRef<ModuleOp>(each.module->clone());
  OwningOpRef<ModuleOp> module(global.clone());
  if (llvm::Error error = runPasses(*module, pass))
    return std::move(error);
  outlined.push_front({key, text, OwningOpRef<ModuleOp>(module->clone())});
  if (outlined.size() > most)
    outlined.pop_back();
  return std::move(module);
}

/// Carries out a program with some layers of each run of equal ones, cut so that these stages are
/// among its own. `isLeast`: without what is unsure.
llvm::Expected<std::vector<PassRunner::SampledWork>>
PassRunner::measureSamples(const Shape &shape, bool isLeast, bool isForAny,
                           const std::set<std::vector<unsigned>> &missing) {
  const Source &source = sources[shape.layout.program];
  Kept kept = chooseSamples(shape.layout.program, /*hasPairs=*/true).kept;
  auto global = place(shape.layout, kept);
  if (!global)
    return global.takeError();
  std::vector<int64_t> numbers;
  std::vector<unsigned> kinds;
  for (int64_t layer = 0; layer < source.facts.layers; ++layer)
    if (kept[size_t(layer)]) {
      numbers.push_back(layer);
      kinds.push_back(layers[shape.layout.program]->getClass(layer));
    }
  std::vector<std::vector<int64_t>> cuts;
  for (const std::vector<size_t> &cut : listSampleCuts(kinds, missing)) {
    std::vector<int64_t> &firsts = cuts.emplace_back();
    for (size_t place : cut)
      firsts.push_back(numbers[place]);
  }
  std::vector<SampledWork> works;
  for (std::vector<int64_t> &each : cuts) {
    std::vector<PassCall> passes = listStaging({shape, ""}, source, cluster, each, isForAny);
    auto module = outline(shape.layout, *global, passes.front());
    if (!module)
      return module.takeError();
    if (llvm::Error error = runPasses(**module, llvm::ArrayRef(passes).drop_front()))
      return std::move(error);
    auto stages = listStages(**module, !each.empty());
    if (!stages)
      return stages.takeError();
    Diagnostics diagnostics((*module)->getContext());
    llvm::DenseSet<Operation *> unsure, constant;
    if (isLeast) {
      unsure = findUnsure(*stages);
      constant = findConstant(*stages);
    }
    auto isLeftOut = [&](Operation *op) { return unsure.contains(op); };
    auto isUnsaved = [&](Operation *op) { return constant.contains(op); };
    pipeline::MeasureOptions options;
    options.isLeftOut = isLeftOut;
    options.isUnsaved = isUnsaved;
    auto work = pipeline::measureStages(*stages, options);
    if (failed(work))
      return diagnostics.makeError("the stages cannot be measured");
    SampledWork &sampled = works.emplace_back(SampledWork{std::move(each), std::move(*work), {}});
    if (shape.recompute != Recompute::None)
      continue;
    FreeOps free(*stages);
    auto isFree = [&](Operation *op) { return free.contains(op) || unsure.contains(op); };
    auto isNoGradient = [&](Operation *op) { return !free.isGradient(op); };
    options.isLeftOut = isFree;
    options.isUnsaved = isNoGradient;
    auto any = pipeline::measureStages(*stages, options);
    if (failed(any))
      return diagnostics.makeError("the stages cannot be measured");
    for (auto [stage, work] : llvm::zip_equal(*stages, any->stages))
      if (stage.backwardWeight)
        work.heldBytes -= countHeldInput(stage);
    sampled.any = std::move(*any);
  }
  return works;
}

/// Makes of each op what one of `parts` more ranks does at the least: kernels become some that move
/// bytes for as long. Of how many kernels are launched, and what is there while they run, nothing
/// is said.
void PassRunner::divideWork(simulate::ProgramWork &work, int64_t parts) const {
  KernelTimer timer(cluster, parts);
  for (simulate::StageWork &stage : work.stages) {
    for (simulate::FunctionWork *function :
         {&stage.forward, &stage.backward, &stage.input, &stage.weight})
      for (simulate::OpWork &op : *function) {
        if (op.awaits >= 0)
          continue;
        if (op.kind == cost::OpWork::Communication) {
          divideCommunication(op, cluster, work.groups[op.group].ranks, parts);
          continue;
        }
        op.bytes = timer.time(op).device / cost::timeOfBytes(cluster.device, 1);
        op.kind = cost::OpWork::Bytes;
        op.kernels = 0;
      }
    for (double simulate::StageWork::*bytes :
         {&simulate::StageWork::savedBytes, &simulate::StageWork::heldBytes,
          &simulate::StageWork::forwardBytes, &simulate::StageWork::backwardBytes})
      stage.*bytes /= double(parts);
    stage.microbatchBytes = 0;
  }
}

/// Samples of these stages on ranks as the layout has them; `parts`: at the least, on so many times
/// as many as those of the program.
StageSamples PassRunner::describeSamples(const Layout &layout, std::vector<SampledWork> works,
                                         std::optional<int64_t> parts, bool isAny) const {
  Kept kept = chooseSamples(layout.program, /*hasPairs=*/true).kept;
  auto count = int64_t(kept.size());
  std::vector<unsigned> kinds;
  for (int64_t layer = 0; layer < count; ++layer)
    kinds.push_back(layers[layout.program]->getClass(layer));
  StageSamples samples(kinds, layout.sharding);
  // What ring attention exchanges takes turns with what is gathered, not alike in each layer; nor
  // does what is gathered of experts wait alike, since it may take longer than all kernels.
  bool isApart = layout.sharding == Sharding::Fsdp &&
                 (layout.context > 1 || space.programs[layout.program].experts > 1);
  constexpr double mebibyte = 1 << 20;
  const double inFlight = mebibyte * getMaxInFlight(layout, sources[layout.program]);
  for (auto &[cuts, work, any] : works) {
    for (simulate::ProgramWork *each : {&work, any ? &*any : nullptr}) {
      if (each && layout.dataInside)
        reorderGroups(layout, *each);
      if (each && parts)
        divideWork(*each, *parts);
    }
    int64_t begin = 0;
    std::vector<int64_t> ends = cuts;
    ends.push_back(count);
    // As sampleGathering() has it: of one stage with all layers sums alone follow.
    const bool waits = !isApart && (layout.sharding != Sharding::Fsdp || !cuts.empty());
    for (auto [end, stage] :
         llvm::zip_equal(ends, isAny     ? describeAny(cluster, work, *any, waits, !parts)
                               : isApart ? describeStreams(cluster, work)
                                         : describeStages(cluster, work))) {
      std::vector<unsigned> there;
      for (int64_t layer = begin; layer < end; ++layer)
        if (kept[size_t(layer)])
          there.push_back(kinds[size_t(layer)]);
      // What is in flight when most is there depends on how many layers there are.
      if (layout.sharding == Sharding::Fsdp)
        stage.microbatchBytes = std::max(stage.microbatchBytes - inFlight, 0.0);
      samples.add(there, stage);
      begin = end;
    }
  }
  return samples;
}

/// Samples of a shape's stages from the program of a layout that differs in how the batch is
/// divided: among `parts` times as many ranks. Null where a pass refuses.
const StageSamples *PassRunner::sample(const Shape &shape, const Layout &from, bool isLeast,
                                       int64_t parts, bool isAny) {
  if (!hasStageSamples(from.program))
    return nullptr;
  Shape key;
  key.layout = from;
  key.layout.pipeline = 1;
  key.layout.dataInside = false;
  key.recompute = isAny ? Recompute::None : shape.recompute;
  key.splitsBackward = shape.splitsBackward;
  key.chunks = shape.numStages() > 1 ? 2 : 1;
  const bool isForAny = isAny && key.layout.sharding == Sharding::FsdpOnce;
  auto known = llvm::find_if(sampled, [&](const auto &each) {
    return each.shape == key && each.isLeast == isLeast && each.isForAny == isForAny;
  });
  if (known == sampled.end())
    known = sampled.insert(known, {key, isLeast, isForAny, {}, {}, {}, false});
  std::set<std::vector<unsigned>> missing;
  std::vector<int64_t> ends = space.listCuts(shape);
  ends.push_back(layers[from.program]->size());
  std::vector<unsigned> kinds = layers[from.program]->listClasses();
  int64_t begin = 0;
  for (int64_t end : ends) {
    for (std::vector<unsigned> &stage : StageSamples::listNeeded(kinds, begin, end))
      if (known->stages.insert(stage).second)
        missing.insert(std::move(stage));
    begin = end;
  }
  if (!missing.empty() && !known->isRefused) {
    auto works = measureSamples(key, isLeast, isForAny, missing);
    known->samples.clear();
    if (works)
      llvm::append_range(known->works, std::move(*works));
    else
      llvm::consumeError(works.takeError()); // such plans are refused, or looked at one by one
    known->isRefused = !works;
  }
  if (known->isRefused)
    return nullptr;
  Layout like = key.layout;
  like.program = shape.layout.program;
  like.data = shape.layout.data;
  like.dataInside = shape.layout.dataInside;
  for (const Sampled::Described &each : known->samples)
    if (each.layout == like && each.isAny == isAny)
      return &each.samples;
  auto samples =
      describeSamples(like, known->works, isLeast ? std::optional(parts) : std::nullopt, isAny);
  known->samples.push_back({like, isAny, std::move(samples)});
  return &known->samples.back().samples;
}

const StageSamples *PassRunner::sampleStages(const Shape &shape) {
  Layout from = shape.layout;
  // FSDP is another program, of which --partition-joint keeps and recomputes other values. How
  // often parameters are gathered, and where optimizer states lie, changes nothing else.
  from.sharding = from.shardsParameters() ? Sharding::FsdpOnce : Sharding::Replicated;
  return sample(shape, from, /*isLeast=*/false, /*parts=*/1);
}

const StageSamples *PassRunner::sampleGathering(const Shape &shape) {
  // What a layer between others waits for in a stage by itself says nothing of all layers in one.
  if (shape.layout.sharding != Sharding::Fsdp || shape.numStages() == 1)
    return nullptr;
  return sample(shape, shape.layout, /*isLeast=*/false, /*parts=*/1);
}

const StageSamples *PassRunner::sampleUndivided(const Shape &shape, bool isAny) {
  auto [from, parts] = getUndivided(shape.layout);
  if (!exchangesAlike(shape.layout) || (parts == 1 && from.data == 1))
    return isAny ? sampleAny(shape) : sampleStages(shape);
  return sample(shape, from, /*isLeast=*/true, parts, isAny);
}

const StageSamples *PassRunner::sampleUndivided(const Shape &shape) {
  return sampleUndivided(shape, /*isAny=*/false);
}

const StageSamples *PassRunner::sampleAny(const Shape &shape) {
  return sample(shape, shape.layout, /*isLeast=*/false, /*parts=*/1, /*isAny=*/true);
}

const StageSamples *PassRunner::sampleAnyUndivided(const Shape &shape) {
  return sampleUndivided(shape, /*isAny=*/true);
}
