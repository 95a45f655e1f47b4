//===- BuildSchedule.cpp - schedules by name or from files -----------------===//

#include "passes/pipeline/Passes.h"

#include "lib/pipeline/Completion.h"
#include "lib/pipeline/ForwardOnly.h"
#include "lib/pipeline/Schedules.h"
#include "lib/pipeline/SearchSchedule.h"
#include "lib/pipeline/Stages.h"
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/ParseError.h"
#include "lib/schedule/model/Text.h"
#include "lib/schedule/model/Transforms.h"
#include "passes/pipeline/Options.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MemoryBuffer.h"

namespace cleave::pipeline {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "passes/pipeline/Passes.h.inc"
} // namespace cleave::pipeline

using namespace mlir;
using namespace cleave;

namespace {
struct BuildSchedule : pipeline::impl::BuildScheduleBase<BuildSchedule> {
  using BuildScheduleBase::BuildScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<std::vector<train::ProgramFunctions>> stages = pipeline::getStages(module);
    if (failed(stages) || failed(checkOptions(module, *stages)))
      return signalPassFailure();
    FailureOr<schedule::Schedule> program = !file.empty()  ? read(module)
                                            : isSearched() ? search(module, *stages)
                                                           : build(module, *stages);
    if (failed(program) || failed(complete(module, *stages, *program)))
      return signalPassFailure();
    // A program that runs has one schedule: without a backward it needs nothing for one.
    bool isOnly = module.getOps<pipeline::ScheduleOp>().empty();
    if (program->forwardOnly && isOnly)
      pipeline::keepForwards(*stages);
    numActions += program->numActions();
    auto b = OpBuilder::atBlockEnd(module.getBody());
    // Where its actions are written, if they are.
    Location location =
        file.empty() ? module.getLoc() : Location(FileLineColLoc::get(&getContext(), file, 1, 1));
    auto made = pipeline::ScheduleOp::create(b, location, symbol, *program,
                                             program->hasP2P() ? pipeline::Transfers::Explicit
                                                               : pipeline::Transfers::Implied);
    if (!axis.empty())
      made.setAxis(axis);
  }

private:
  static constexpr StringLiteral kAuto = "auto", kCsvSuffix = ".csv";

  bool isSearched() const { return StringRef(schedule.getValue()) == kAuto; }

  LogicalResult checkOptions(ModuleOp module, ArrayRef<train::ProgramFunctions> stages) {
    if (symbol.empty())
      return module.emitError() << "expects a name for 'symbol', found none";
    if (Operation *other = SymbolTable::lookupSymbolIn(module, symbol))
      return other->emitError() << "has the name '" << symbol
                                << "', the name of the new schedule; choose another with 'symbol'";
    if (schedule.empty() == file.empty())
      return module.emitError() << "expects either 'schedule' or 'file', found "
                                << (file.empty() ? "neither" : "both");
    bool isGiven = ranks || microbatches || chunks || !topology.empty() || forwardOnly ||
                   mergeBackward || buckets || steps;
    if (!file.empty() && isGiven)
      return module.emitError()
             << "expects no options other than 'symbol', 'axis' and 'max-unsharded' "
                "with 'file', which determines the rest";
    bool searches = isSearched();
    if (!searches &&
        (!cluster.empty() || !profile.empty() || memoryLimit || effort != 1 || seed != 1))
      return module.emitError() << "expects 'cluster', 'profile', 'memory-limit', 'effort' and "
                                   "'seed' only with schedule=auto";
    if (searches && (stages.empty() || forwardOnly || chunks))
      return module.emitError() << "expects a program with stages, and neither 'forward-only' nor "
                                   "'chunks', for schedule=auto";
    if (searches && !cluster.empty() && !profile.empty())
      return module.emitError() << "expects either 'cluster' or 'profile', found both";
    if (searches && !(memoryLimit >= 0 && effort >= 0 && effort <= 1e6 && seed >= 0))
      return module.emitError()
             << "expects non-negative 'memory-limit', 'effort' (at most 1000000) and "
                "'seed'";
    if (!stages.empty() && (buckets || steps))
      return module.emitError() << "has stages, whose functions determine reductions and updates; "
                                   "'buckets' and 'steps' are for modules without stages";
    if (!file.empty())
      return success();
    if (failed(pipeline::expectCount(module, "ranks", ranks, 1, schedule::maxStages)) ||
        failed(pipeline::expectCount(module, "microbatches", microbatches, 1,
                                     schedule::maxMicrobatches)) ||
        failed(pipeline::expectCount(module, "chunks", chunks, 0, schedule::maxStages)) ||
        failed(pipeline::expectCount(module, "buckets", buckets, 0, schedule::maxBuckets)) ||
        failed(
            pipeline::expectCount(module, "max-unsharded", maxUnsharded, 0, schedule::maxStages)))
      return failure();
    return success();
  }

  FailureOr<schedule::Schedule> build(ModuleOp module, ArrayRef<train::ProgramFunctions> stages) {
    schedule::BuildRequest request;
    request.ranks = ranks;
    request.microbatches = microbatches;
    request.forwardOnly = forwardOnly;
    if (chunks)
      request.chunks = chunks;
    else if (!stages.empty())
      request.stages =
          static_cast<unsigned>(stages.size()); // a schedule that needs another number says so
    if (failed(readTopology(module, request.topology)))
      return failure();
    auto program = schedule::buildSchedule(schedule, request);
    if (!program)
      return module.emitError() << llvm::toString(program.takeError());
    return std::move(*program);
  }

  LogicalResult readTopology(ModuleOp module, std::optional<schedule::TopologyStyle> &style) {
    if (topology.empty())
      return success();
    style = schedule::parseTopologyStyle(topology);
    if (!style)
      return module.emitError() << "expects loop or v for 'topology', found '" << topology << "'";
    return success();
  }

  FailureOr<schedule::Schedule> search(ModuleOp module, ArrayRef<train::ProgramFunctions> stages) {
    pipeline::SearchOptions options;
    options.ranks = ranks;
    options.microbatches = microbatches;
    if (failed(readTopology(module, options.topology)))
      return failure();
    options.cluster = cluster;
    options.profile = profile;
    if (memoryLimit > 0)
      options.memoryLimit = memoryLimit;
    options.effort = effort;
    options.seed = static_cast<uint64_t>(seed);
    return pipeline::searchSchedule(stages, options, module.getLoc());
  }

  /// Errors are at the file's line and column.
  FailureOr<schedule::Schedule> read(ModuleOp module) {
    StringRef path = file;
    auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
    if (!buffer)
      return module.emitError() << "cannot read '" << path << "': " << buffer.getError().message();
    StringRef text = (*buffer)->getBuffer();
    auto program = path.ends_with(kCsvSuffix) ? schedule::parseCsv(text, path)
                                              : schedule::parseText(text, path);
    if (program)
      return std::move(*program);
    llvm::handleAllErrors(program.takeError(), [&](const schedule::ParseError &error) {
      if (error.line() == 0)
        module.emitError() << path << ": " << error.text();
      else
        emitError(FileLineColLoc::get(&getContext(), path, error.line(), error.column()))
            << error.text();
    });
    return failure();
  }

  /// Adds what runs once per step, as far as a file does not have it already.
  LogicalResult complete(ModuleOp module, ArrayRef<train::ProgramFunctions> stages,
                         schedule::Schedule &program) {
    if (mergeBackward)
      schedule::mergeBackward(program);
    if (stages.empty())
      return addAskedFor(module, program);
    // Another number of stages cannot be completed: the error says so.
    if (stages.size() != program.numStages())
      return pipeline::checkStages(stages, program, module.getLoc());
    pipeline::CompletionOptions options;
    options.maxUnsharded = static_cast<unsigned>(maxUnsharded);
    options.dropsIdle = StringRef(file).ends_with(kCsvSuffix);
    return success(
        succeeded(pipeline::completeSchedule(stages, options, program, module.getLoc())) &&
        succeeded(pipeline::checkStages(stages, program, module.getLoc())));
  }

  /// Without stages, options say what runs once per step.
  LogicalResult addAskedFor(ModuleOp module, schedule::Schedule &program) {
    if (program.forwardOnly && (buckets || steps))
      return module.emitError() << "expects no 'buckets' or 'steps' for a forward-only schedule";
    if (maxUnsharded)
      if (llvm::Error error = schedule::addUnshards(program, static_cast<unsigned>(maxUnsharded)))
        return module.emitError() << llvm::toString(std::move(error));
    if (buckets)
      schedule::addGradientReductions(
          program, std::vector<unsigned>(program.numStages(), static_cast<unsigned>(buckets)));
    if (steps)
      schedule::addOptimizerSteps(program);
    return success();
  }
};
} // namespace
