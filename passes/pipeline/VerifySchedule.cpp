//===- VerifySchedule.cpp - the proof that a schedule runs -----------------===//

#include "passes/pipeline/Passes.h"

#include "lib/pipeline/Schedules.h"
#include "lib/pipeline/Stages.h"
#include "passes/pipeline/Options.h"

namespace cleave::pipeline {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "passes/pipeline/Passes.h.inc"
} // namespace cleave::pipeline

using namespace mlir;
using namespace cleave;

namespace {
struct VerifySchedule : pipeline::impl::VerifyScheduleBase<VerifySchedule> {
  using VerifyScheduleBase::VerifyScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    schedule::VerifyOptions options;
    FailureOr<std::vector<train::ProgramFunctions>> stages = pipeline::getStages(module);
    if (failed(stages) || failed(readOptions(*stages, options)))
      return signalPassFailure();
    auto ops = llvm::to_vector(module.getOps<pipeline::ScheduleOp>());
    if (ops.empty()) {
      module.emitError() << "has no pipeline.schedule; run --build-schedule first";
      return signalPassFailure();
    }
    for (pipeline::ScheduleOp op : ops)
      if (failed(check(op, *stages, options)))
        signalPassFailure();
    markAllAnalysesPreserved();
  }

  LogicalResult readOptions(ArrayRef<train::ProgramFunctions> stages,
                            schedule::VerifyOptions &options) {
    SmallVector<schedule::Matching> kinds;
    for (const std::string &name : matching) {
      if (name != "tag" && name != "nccl")
        return getOperation().emitError()
               << "expects tag or nccl for 'matching', found '" << name << "'";
      kinds.push_back(name == "tag" ? schedule::Matching::Tag : schedule::Matching::Fifo);
    }
    if (kinds.empty())
      kinds = {schedule::Matching::Tag, schedule::Matching::Fifo};
    for (schedule::Matching kind : kinds) {
      FailureOr<schedule::CommModel> model =
          pipeline::readModel(getOperation(), kind, streams, receiveSlots, sendSlots);
      if (failed(model))
        return failure();
      options.models.push_back(*model);
    }
    options.buckets = pipeline::getOncePerStep(stages).buckets;
    options.maxProblems = static_cast<size_t>(maxProblems);
    return pipeline::expectCount(getOperation(), "max-problems", maxProblems, 1, 1 << 20);
  }

  LogicalResult check(pipeline::ScheduleOp op, ArrayRef<train::ProgramFunctions> stages,
                      schedule::VerifyOptions options) {
    FailureOr<schedule::Schedule> program = pipeline::readSchedule(op);
    if (failed(program))
      return failure();
    if (!stages.empty() && failed(pipeline::checkStages(stages, *program, op.getLoc())))
      return failure();
    options.computeOnly = !op.hasTransfers();
    if (program->forwardOnly)
      options.buckets.clear();
    std::vector<schedule::Problem> problems = schedule::verify(*program, options);
    pipeline::emitProblems(op, *program, problems);
    return success(problems.empty());
  }
};
} // namespace
