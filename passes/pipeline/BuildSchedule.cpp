//===- BuildSchedule.cpp - schedules by name or from files -----------------===//

#include "passes/pipeline/Passes.h"

#include "lib/pipeline/Schedules.h"
#include "lib/pipeline/Stages.h"
#include "lib/schedule/Builder.h"
#include "lib/schedule/Text.h"
#include "lib/schedule/Transforms.h"
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
    FailureOr<std::vector<train::Program>> stages = pipeline::getStages(module);
    if (failed(stages) || failed(checkOptions(module, *stages)))
      return signalPassFailure();
    FailureOr<schedule::Program> program = file.empty() ? build(module, *stages) : read(module);
    if (failed(program))
      return signalPassFailure();
    if (file.empty() && failed(addOncePerStep(module, *stages, *program)))
      return signalPassFailure();
    if (!stages->empty() && failed(pipeline::checkStages(*stages, *program, module.getLoc())))
      return signalPassFailure();
    numActions += program->numActions();
    auto b = OpBuilder::atBlockEnd(module.getBody());
    pipeline::ScheduleOp made = pipeline::createSchedule(
        b, module.getLoc(), symbol, *program,
        program->hasP2P() ? pipeline::Transfers::Explicit : pipeline::Transfers::Implied);
    if (!axis.empty())
      made.setAxis(axis);
  }

  LogicalResult checkOptions(ModuleOp module, ArrayRef<train::Program> stages) {
    if (symbol.empty())
      return module.emitError() << "expects a name for 'symbol', found none";
    if (Operation *other = SymbolTable::lookupSymbolIn(module, symbol))
      return other->emitError() << "has the name '" << symbol
                                << "', which the schedule was to have; choose one with 'symbol'";
    if (schedule.empty() == file.empty())
      return module.emitError() << "expects either 'schedule', the name of one, or 'file', found "
                                << (file.empty() ? "neither" : "both");
    bool isGiven = ranks || microbatches || chunks || !topology.empty() || forwardOnly ||
                   mergeBackward || buckets || steps || maxUnsharded;
    if (!file.empty() && isGiven)
      return module.emitError() << "expects 'file' without other options than 'symbol': the file "
                                   "says what the schedule is";
    if (!stages.empty() && (buckets || steps))
      return module.emitError() << "has stages, whose functions say what is reduced and updated; "
                                   "'buckets' and 'steps' are for modules without";
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

  FailureOr<schedule::Program> build(ModuleOp module, ArrayRef<train::Program> stages) {
    schedule::BuildRequest request;
    request.ranks = ranks;
    request.microbatches = microbatches;
    request.forwardOnly = forwardOnly;
    if (chunks) {
      request.chunks = chunks;
    } else if (!stages.empty()) {
      // The program decides; a schedule that needs another number says so.
      if (stages.size() % request.ranks != 0)
        return func::FuncOp(stages.back().forward).emitError()
               << "is of the last of " << stages.size() << " stages, which " << request.ranks
               << " ranks cannot share alike; 'chunks' stages on each of them are needed";
      request.chunks = stages.size() / request.ranks;
    }
    if (!topology.empty()) {
      request.topology = schedule::parseTopologyStyle(topology);
      if (!request.topology || *request.topology == schedule::TopologyStyle::Custom)
        return module.emitError() << "expects loop or v for 'topology', found '" << topology << "'";
    }
    auto program = schedule::buildSchedule(schedule, request);
    if (!program)
      return module.emitError() << llvm::toString(program.takeError());
    return std::move(*program);
  }

  /// Errors are at the file's line and column.
  FailureOr<schedule::Program> read(ModuleOp module) {
    StringRef path = file;
    auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
    if (!buffer)
      return module.emitError() << "cannot read '" << path << "': " << buffer.getError().message();
    StringRef text = (*buffer)->getBuffer();
    auto program =
        path.ends_with(".csv") ? schedule::parseCsv(text, path) : schedule::parseText(text, path);
    if (program)
      return std::move(*program);
    std::string message = llvm::toString(program.takeError());
    StringRef rest = message;
    unsigned line = 0, column = 0;
    if (rest.consume_front(path) && rest.consume_front(":") && !rest.consumeInteger(10, line) &&
        rest.consume_front(":") && !rest.consumeInteger(10, column) && rest.consume_front(": "))
      return emitError(FileLineColLoc::get(&getContext(), path, line, column)) << rest;
    return module.emitError() << message;
  }

  LogicalResult addOncePerStep(ModuleOp module, ArrayRef<train::Program> stages,
                               schedule::Program &program) {
    if (mergeBackward)
      schedule::mergeBackward(program);
    pipeline::OncePerStep once = pipeline::getOncePerStep(stages);
    if (stages.empty() && buckets)
      once.buckets.assign(program.numStages(), buckets);
    once.buckets.resize(once.buckets.empty() ? 0 : program.numStages(), 0);
    if (forwardOnly && (buckets || steps))
      return module.emitError()
             << "expects 'buckets' and 'steps' for schedules with a backward only";
    unsigned whole = maxUnsharded ? static_cast<unsigned>(maxUnsharded) : once.unshard ? 3 : 0;
    if (whole)
      if (llvm::Error error = schedule::addUnshards(program, whole))
        return module.emitError() << llvm::toString(std::move(error));
    if (!once.buckets.empty() && !forwardOnly)
      schedule::addGradientReductions(program, once.buckets);
    bool isStaged = !stages.empty() && stages.size() == program.numStages();
    if (isStaged && !forwardOnly) {
      delayWaits(once, program);
      pipeline::addStageSums(stages, program);
    }
    if ((steps || once.update) && !forwardOnly)
      schedule::addOptimizerSteps(program);
    if (isStaged)
      dropIdle(stages, program);
    return success();
  }

  /// A reduce function that waits for its stage's buckets would hold up what the rank still
  /// computes: those run at the end of the list, in the order of their stages' reductions.
  static void delayWaits(const pipeline::OncePerStep &once, schedule::Program &program) {
    auto isWait = [&](schedule::Action action) {
      return action.kind == schedule::ActionKind::ReduceGrad && once.waits[action.stage] &&
             action.index + 1 == once.buckets[action.stage];
    };
    for (std::vector<schedule::Action> &list : program.ranks)
      llvm::stable_sort(
          list, [&](schedule::Action a, schedule::Action b) { return !isWait(a) && isWait(b); });
  }

  /// The library treats all stages alike; a stage without parameters has nothing to update or
  /// gather.
  static void dropIdle(ArrayRef<train::Program> stages, schedule::Program &program) {
    using schedule::ActionKind;
    for (std::vector<schedule::Action> &list : program.ranks)
      llvm::erase_if(list, [&](schedule::Action action) {
        if (action.kind == ActionKind::OptimizerStep)
          return !stages[action.stage].update;
        return !stages[action.stage].unshard &&
               (action.kind == ActionKind::Unshard || action.kind == ActionKind::Reshard);
      });
  }
};
} // namespace
