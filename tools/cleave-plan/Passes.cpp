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
  Diagnostics diagnostics(module.getContext());
  if (failed(manager.run(module)))
    return diagnostics.makeError("a pass failed");
  return llvm::Error::success();
}

/// Of ops that no pass after placement leaves out or moves out of the microbatch: all but copies,
/// casts, and what depends on parameters alone. `isGlobal`: none that --partition may build
/// otherwise either.
static std::vector<cost::OpWork> listWork(func::FuncOp microbatch, bool isGlobal) {
  llvm::DenseSet<Value> constant;
  for (unsigned index = 0; index < microbatch.getNumArguments(); ++index) {
    train::RoleAttr role = train::getArgumentRole(microbatch, index);
    if (role && role.getKind() == train::RoleKind::Parameter)
      constant.insert(microbatch.getArgument(index));
  }
  std::vector<cost::OpWork> works;
  for (Operation &op : microbatch.front().without_terminator()) {
    if (llvm::all_of(op.getOperands(), [&](Value value) { return constant.contains(value); })) {
      constant.insert(op.result_begin(), op.result_end());
      continue;
    }
    if (!isa<aten::AtenDialect>(op.getDialect()) || mayBeLeftOut(&op))
      continue;
    cost::OpWork work = aten::describeWork(&op);
    if (work.kernels == 0 || op.hasTrait<aten::CopyLike>() ||
        (isGlobal && work.kind == cost::OpWork::Bytes &&
         !placement::getForms(op.getName()).empty()))
      continue;
    works.push_back(work);
  }
  return works;
}

llvm::Error PassRunner::prepare() {
  for (Source &source : sources) {
    // What all plans' passes leave out.
    OwningOpRef<ModuleOp> module = source.module->clone();
    if (llvm::Error error = runPasses(*module, listPlacing(Layout(), "")))
      return error;
    auto program = train::getProgram(*module);
    if (failed(program))
      return makeError("{0}: is not sound after --cse --canonicalize", source.facts.path);
    std::vector<CountedWork> &counted = works.emplace_back();
    simulate::ProgramWork widths;
    for (const cost::OpWork &work : listWork(program->microbatch, /*isGlobal=*/true)) {
      bool isProduct = work.kind == cost::OpWork::Product;
      widths.flopsOfWidth[size_t(isProduct ? work.product.width : work.width)] +=
          cost::flopsOf(work);
      auto found =
          llvm::find_if(counted, [&](const CountedWork &each) { return each.work == work; });
      if (found == counted.end())
        counted.push_back({work, 1});
      else
        ++found->count;
    }
    if (llvm::Error error = simulate::checkWidth(cluster, widths))
      return error;
  }
  return llvm::Error::success();
}

double PassRunner::getKernelSeconds(unsigned program, double parts) const {
  auto [entry, isNew] = kernelSeconds.try_emplace({program, parts}, 0);
  if (isNew)
    for (const CountedWork &each : works[program])
      entry->second += each.count * leastSeconds(cluster.device, each.work, parts);
  return entry->second;
}

/// The layout as far as placement depends on it.
static Layout getPlacedPart(Layout layout) {
  layout.pipeline = 1;
  if (layout.sharding == Sharding::FsdpOnce)
    layout.sharding = Sharding::Fsdp;
  return layout;
}

llvm::Expected<ModuleOp> PassRunner::place(const Layout &layout) {
  Layout key = getPlacedPart(layout);
  auto found = llvm::find_if(placed, [&](const Placed &each) { return each.layout == key; });
  if (found != placed.end()) {
    std::rotate(placed.begin(), found, std::next(found));
    return placed.front().module->get();
  }
  Source &source = sources[layout.program];
  auto module = std::make_shared<OwningOpRef<ModuleOp>>(source.module->clone());
  llvm::SmallString<128> path;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("cleave-plan", "json", path))
    return makeError("cannot write a temporary file: {0}", code.message());
  llvm::FileRemover remover(path);
  {
    std::error_code code;
    llvm::raw_fd_ostream os(path, code);
    os << llvm::json::Value(makePlacements(layout, source));
  }
  if (llvm::Error error = runPasses(module->get(), listPlacing(layout, path)))
    return std::move(error);
  ++numPartitioned;
  placed.push_front({key, std::move(module)});
  if (placed.size() > maxPlaced)
    placed.pop_back();
  return placed.front().module->get();
}

llvm::Expected<double> PassRunner::partition(const Layout &layout) {
  auto module = place(layout);
  if (!module)
    return module.takeError();
  Diagnostics diagnostics(module->getContext());
  auto program = train::getProgram(*module);
  if (failed(program))
    return diagnostics.makeError("the partitioned program is not sound");
  double seconds = 0;
  for (const cost::OpWork &work : listWork(program->microbatch, /*isGlobal=*/false))
    seconds += cost::timeOf(cluster, work, {}) + work.kernels * cluster.device.kernelSeconds;
  return seconds;
}

llvm::Expected<StagedProgram> PassRunner::stage(const Shape &shape) {
  auto global = place(shape.layout);
  if (!global)
    return global.takeError();
  const Source &source = sources[shape.layout.program];
  auto module = std::make_shared<OwningOpRef<ModuleOp>>(global->clone());
  if (llvm::Error error =
          runPasses(module->get(), listStaging(shape, source, space.listCuts(shape))))
    return std::move(error);
  Diagnostics diagnostics(global->getContext());
  auto stages = std::make_shared<std::vector<train::ProgramFunctions>>();
  bool isStaged = shape.numStages() > 1;
  if (isStaged) {
    auto found = pipeline::getStages(module->get());
    if (failed(found))
      return diagnostics.makeError("the stages are not sound");
    *stages = std::move(*found);
  } else {
    auto program = train::getProgram(module->get(), train::ProgramForms::Any);
    if (failed(program))
      return diagnostics.makeError("the program is not sound");
    stages->push_back(std::move(*program));
  }
  pipeline::MeasureOptions options;
  options.ranks = shape.layout.pipeline;
  auto work = pipeline::measureStages(*stages, options);
  if (failed(work))
    return diagnostics.makeError("the stages cannot be measured");
  StagedProgram program;
  program.work = std::move(*work);
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
