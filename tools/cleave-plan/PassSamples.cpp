// Stages of few layers, from which those of any length follow.
#include "tools/cleave-plan/Passes.h"

#include "lib/aten/OpCost.h"
#include "lib/pipeline/StageWork.h"
#include "lib/placement/Form.h"
#include "lib/plan/Bound.h"
#include "tools/cleave-plan/Commands.h"
#include "tools/cleave-plan/Run.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

/// Fewer layers are as well carried out.
static constexpr int64_t minSampledLayers = 6;

/// Whether all layers but the first and the last are equal, and worth it.
bool PassRunner::hasStageSamples(unsigned program) const {
  const std::optional<Layers> &known = layers[program];
  if (!known || known->size() < minSampledLayers)
    return false;
  for (int64_t layer = 1; layer < known->size() - 1; ++layer)
    if (known->getClass(layer) != known->getClass(1))
      return false;
  return true;
}

/// What a layout that divides the batch may not run in each microbatch: ops that depend on
/// parameters alone, which may run once per step, and those that --partition may build otherwise.
static llvm::DenseSet<Operation *> findUnsure(ArrayRef<train::ProgramFunctions> stages) {
  llvm::DenseSet<Operation *> unsure;
  for (const train::ProgramFunctions &stage : stages)
    for (func::FuncOp function : stage.getMicrobatchFunctions()) {
      llvm::DenseSet<Value> constant = listParameters(function);
      for (Operation &op : function.front().without_terminator()) {
        bool isConstant =
            llvm::all_of(op.getOperands(), [&](Value value) { return constant.contains(value); });
        if (isConstant)
          constant.insert(op.result_begin(), op.result_end());
        bool hasForms = !placement::getForms(op.getName()).empty() &&
                        aten::describeWork(&op).kind == cost::OpWork::Bytes;
        if (isConstant || hasForms)
          unsure.insert(&op);
      }
    }
  return unsure;
}

/// Carries out the program with three equal layers beside the first and the last, once for each
/// cut. `isLeast`: without what is unsure.
llvm::Expected<std::vector<PassRunner::SampledWork>> PassRunner::measureSamples(const Shape &shape,
                                                                                bool isLeast) {
  const Source &source = sources[shape.layout.program];
  auto global = place(shape.layout, chooseSamples(shape.layout.program, /*hasPairs=*/true).kept);
  if (!global)
    return global.takeError();
  int64_t last = source.facts.layers - 1;
  // By layers: first|1|2|last, first+1|1|1+last.
  std::vector<std::vector<int64_t>> cuts = {{1, 2, last}, {2, 3}};
  if (shape.chunks == 1)
    cuts = {{}, {1, 2, last}};
  std::vector<SampledWork> works;
  for (std::vector<int64_t> &each : cuts) {
    OwningOpRef<ModuleOp> module(global->clone());
    if (llvm::Error error = runPasses(*module, listStaging(shape, source, each)))
      return std::move(error);
    auto stages = listStages(*module, !each.empty());
    if (!stages)
      return stages.takeError();
    Diagnostics diagnostics(module->getContext());
    llvm::DenseSet<Operation *> unsure;
    if (isLeast)
      unsure = findUnsure(*stages);
    auto isLeftOut = [&](Operation *op) { return unsure.contains(op); };
    pipeline::MeasureOptions options;
    options.isLeftOut = isLeftOut;
    auto work = pipeline::measureStages(*stages, options);
    if (failed(work))
      return diagnostics.makeError("the stages cannot be measured");
    works.push_back({std::move(each), std::move(*work)});
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
          // Bytes that are sent are rounded down to whole numbers.
          op.bytes = std::max(op.bytes / double(parts) - 2, 0.0);
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

/// Samples of these stages on ranks as the layout has them, `parts` times as many as those of the
/// program.
StageSamples PassRunner::describeSamples(const Layout &layout, std::vector<SampledWork> works,
                                         int64_t parts) const {
  Kept kept = chooseSamples(layout.program, /*hasPairs=*/true).kept;
  auto layers = int64_t(kept.size());
  StageSamples samples(layers, isFsdp(layout));
  for (auto &[cuts, work] : works) {
    if (layout.dataInside)
      reorderGroups(layout, work);
    if (parts > 1)
      divideWork(work, parts);
    int64_t begin = 0;
    std::vector<int64_t> ends = cuts;
    ends.push_back(layers);
    for (auto [end, stage] : llvm::zip_equal(ends, describeStages(cluster, work))) {
      int64_t count = 0; // of its layers, those that are there and are equal to others
      for (int64_t layer = std::max<int64_t>(begin, 1); layer < std::min(end, layers - 1); ++layer)
        count += int64_t(kept[size_t(layer)]);
      samples.add(begin == 0, count, end == layers, stage);
      begin = end;
    }
  }
  return samples;
}

/// Samples of a shape's stages from the program of a layout that differs in how the batch is
/// divided. Null where a pass refuses.
const StageSamples *PassRunner::sample(const Shape &shape, const Layout &from, bool isLeast) {
  if (!hasStageSamples(from.program))
    return nullptr;
  Shape key;
  key.layout = from;
  key.layout.pipeline = 1;
  key.layout.dataInside = false;
  key.recompute = shape.recompute;
  key.splitsBackward = shape.splitsBackward;
  key.chunks = shape.numStages() > 1 ? 2 : 1;
  auto known = llvm::find_if(
      sampled, [&](const auto &each) { return each.shape == key && each.isLeast == isLeast; });
  if (known == sampled.end()) {
    known = sampled.insert(known, {key, isLeast, {}, {}});
    if (auto works = measureSamples(key, isLeast))
      known->works = std::move(*works);
    else
      llvm::consumeError(works.takeError()); // such plans are refused, or looked at one by one
  }
  if (known->works.empty())
    return nullptr;
  Layout like = key.layout;
  like.data = shape.layout.data;
  like.dataInside = shape.layout.dataInside;
  for (const auto &[layout, samples] : known->samples)
    if (layout == like)
      return &samples;
  known->samples.emplace_back(like,
                              describeSamples(like, known->works, shape.layout.data / from.data));
  return &known->samples.back().second;
}

const StageSamples *PassRunner::sampleStages(const Shape &shape) {
  Layout from = shape.layout;
  // FSDP is another program, of which --partition-joint keeps and recomputes other values. How
  // often parameters are gathered, and where optimizer states lie, changes nothing else.
  from.sharding = isFsdp(from) ? Sharding::FsdpOnce : Sharding::Replicated;
  return sample(shape, from, /*isLeast=*/false);
}

const StageSamples *PassRunner::sampleUndivided(const Shape &shape) {
  Layout from = shape.layout;
  // Of one example a rank copies may be none that are some of several.
  if (from.data == 1 || from.data == sources[from.program].facts.batch)
    return sampleStages(shape);
  from.sharding = Sharding::Replicated;
  from.data = 1;
  return sample(shape, from, /*isLeast=*/true);
}
