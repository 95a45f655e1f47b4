//===- ProgramSchedule.cpp - the schedule that a program carries --------------===//

#include "runtime/program/ProgramSchedule.h"
#include "lib/pipeline/Schedules.h"
#include "lib/pipeline/Stages.h"
#include "runtime/program/ActionFunctions.h"
#include "runtime/program/ProgramImpl.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::runtime;

/// The axis that a schedule without one of its own has.
static constexpr llvm::StringLiteral kDefaultAxis = "pp";

/// Puts the pipeline's axis on the mesh: the one with that name, or a new one before all others.
static LogicalResult placeOnMesh(pipeline::ScheduleOp op, ScheduleInfo &info,
                                 std::vector<MeshAxis> &mesh) {
  info.axis = op.getAxis().value_or(kDefaultAxis).str();
  for (MeshAxis &axis : mesh) {
    if (axis.name != info.axis)
      continue;
    if (axis.size != 0 && axis.size != info.ranks)
      return op.emitOpError("is for ") << info.ranks << " ranks, but axis \"" << axis.name
                                       << "\" of the mesh has " << axis.size;
    axis.size = info.ranks;
    return success();
  }
  if (op.getAxis())
    return op.emitOpError("is over axis \"") << info.axis << "\", which the mesh does not have";
  mesh.insert(mesh.begin(), {info.axis, info.ranks});
  return success();
}

static LogicalResult verify(pipeline::ScheduleOp op, const schedule::Schedule &program,
                            ArrayRef<train::ProgramFunctions> stages) {
  schedule::VerifyOptions options;
  options.models = {schedule::CommModel::gloo()};
  options.buckets = pipeline::getOncePerStep(stages).buckets;
  if (program.forwardOnly)
    options.buckets.clear();
  options.computeOnly = !op.hasTransfers();
  std::vector<schedule::Problem> problems = schedule::verify(program, options);
  pipeline::emitProblems(op, program, problems);
  return success(problems.empty());
}

LogicalResult cleave::runtime::readSchedule(Program::Impl &impl) {
  auto ops = llvm::to_vector(impl.module->getOps<pipeline::ScheduleOp>());
  if (ops.empty())
    return success();
  if (ops.size() > 1)
    return ops[1].emitOpError("is a second schedule; an executable program has at most one");
  pipeline::ScheduleOp op = ops.front();
  ArrayRef<train::ProgramFunctions> stages = impl.functions.stages;
  if (stages.empty())
    return op.emitOpError("is for a program with stages; run --outline-stages first");
  FailureOr<schedule::Schedule> program = pipeline::readSchedule(op);
  if (failed(program) || failed(pipeline::checkStages(stages, *program, op.getLoc())) ||
      failed(verify(op, *program, stages)))
    return failure();
  ProgramSchedule schedule;
  schedule.info.name = program->name;
  schedule.info.ranks = program->numRanks();
  schedule.info.microbatches = program->numMicrobatches;
  schedule.info.isForwardOnly = program->forwardOnly;
  schedule.hasTransfers = op.hasTransfers();
  if (failed(placeOnMesh(op, schedule.info, impl.mesh)))
    return failure();
  schedule.program = std::move(*program);
  impl.schedule = std::move(schedule);
  return readActionFunctions(op, impl.schedule->program, impl);
}
