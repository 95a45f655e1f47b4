//===- OutlineStages.cpp - a program as pipeline stages -----------------------===//

#include "passes/pipeline/Passes.h"

#include "dialects/train/Stages.h"
#include "lib/pipeline/StageFunctions.h"
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/P2P.h"
#include "lib/schedule/model/Transforms.h"
#include "lib/support/Bytes.h"
#include "passes/pipeline/Options.h"

#include "llvm/Support/FormatVariadic.h"

namespace cleave::pipeline {
#define GEN_PASS_DEF_OUTLINESTAGES
#include "passes/pipeline/Passes.h.inc"
} // namespace cleave::pipeline

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;

static int64_t countOps(func::FuncOp function) {
  return function ? std::distance(function.front().begin(), function.front().end()) - 1 : 0;
}

namespace {
struct OutlineStages : pipeline::impl::OutlineStagesBase<OutlineStages> {
  using OutlineStagesBase::OutlineStagesBase;

  void runOnOperation() override {
    FailureOr<StageRequest> request = readRequest();
    if (failed(request))
      return signalPassFailure();
    FailureOr<train::ProgramFunctions> program = train::getProgram(getOperation());
    if (failed(program) || failed(checkSupported(*program)))
      return signalPassFailure();
    FailureOr<backward::JointGraph> graph =
        backward::JointGraph::create(program->microbatch, /*mayLackBackward=*/true);
    if (failed(graph))
      return signalPassFailure();
    FailureOr<StageAssignment> assignment = StageAssignment::create(*graph, *request);
    if (failed(assignment))
      return signalPassFailure();
    if (markOnly)
      return mark(program->microbatch, *assignment);
    FailureOr<SavePolicy> saves = readPolicy(assignment->getNumStages());
    if (failed(saves))
      return signalPassFailure();
    FailureOr<OutlinedStages> outlined = buildStages(*program, *graph, *assignment, *saves);
    if (failed(outlined))
      return signalPassFailure();
    for (func::FuncOp function : {program->microbatch, program->update})
      if (function)
        function.erase();

    numStages += outlined->stages.size();
    for (const BoundaryTraffic &traffic : outlined->traffic)
      numCrossing += traffic.values + traffic.gradients;
    if (explain)
      print(*assignment, *outlined);
    if (failed(train::getProgram(getOperation(), train::ProgramForms::Staged)))
      signalPassFailure();
  }

private:
  FailureOr<StageRequest> readRequest() {
    ModuleOp module = getOperation();
    StageRequest request;
    constexpr int64_t kUnset = -1;
    bool isCounted = count != kUnset;
    if (isCounted && !at.empty())
      return module.emitError() << "expects either 'count' or 'at', found both options";
    if (!cluster.empty() && !isCounted && policy != backward::PartitionPolicy::Budget)
      return module.emitError() << "expects the option 'count' or policy=budget with 'cluster'";
    if (!balance.empty() && balance != "cost")
      return module.emitError() << "expects 'cost' for the option 'balance', found '" << balance
                                << "'";
    if (isCounted) {
      if (count < 1)
        return module.emitError() << "expects at least one stage, found count=" << int64_t(count);
      if (!(slack >= 0 && slack <= 10))
        return module.emitError() << "expects a slack from 0 to 10, found " << double(slack);
      request.kind = StageRequest::Kind::Cost;
      request.count = count;
      request.slack = slack;
      request.cluster = cluster;
    } else if (!balance.empty()) {
      return module.emitError() << "expects the option 'count' with 'balance'";
    } else if (!at.empty()) {
      request.kind = StageRequest::Kind::Modules;
      for (const std::string &name : at) {
        if (name.empty())
          return module.emitError()
                 << "expects module paths in the option 'at', found an empty one";
        request.modules.push_back(name);
      }
    }
    return request;
  }

  FailureOr<SavePolicy> readPolicy(unsigned numStages) {
    ModuleOp module = getOperation();
    SavePolicy result{policy, recompute, std::nullopt, splitsFsdp};
    if (policy != backward::PartitionPolicy::Budget) {
      if (!memory.empty() || offloads.hasValue() || lowered.hasValue() || schedule.hasValue() ||
          ranks.hasValue() || microbatches.hasValue() || topology.hasValue())
        return module.emitError("expects 'memory', 'offload', 'lowered', 'schedule', 'ranks', "
                                "'microbatches' and 'topology' with policy=budget only");
      return result;
    }
    std::optional<int64_t> bytes = support::parseBytes(memory);
    if (!bytes)
      return module.emitError("expects an amount of memory with policy=budget, such as "
                              "memory=80GiB; found '")
             << memory << "'";
    FailureOr<schedule::Schedule> program = buildSchedule(numStages);
    if (failed(program))
      return failure();
    StageBudget &budget = result.budget.emplace();
    budget.bytes = *bytes;
    budget.schedule = std::move(*program);
    budget.splitsBackward = splitsBackward(budget.schedule);
    budget.isLowered = lowered;
    budget.mayOffload = offloads;
    FailureOr<std::optional<cost::Cluster>> read =
        backward::readBudgetCluster(module, cluster, offloads);
    if (failed(read))
      return failure();
    budget.cluster = std::move(*read);
    if (recompute.hasValue())
      budget.level = recompute;
    return result;
  }

  static bool splitsBackward(const schedule::Schedule &schedule) {
    return llvm::any_of(schedule.ranks, [](ArrayRef<schedule::Action> list) {
      return llvm::any_of(list, [](schedule::Action action) {
        return action.kind == schedule::ActionKind::BackwardInput;
      });
    });
  }

  /// That of the ranks whose memory it is, as --build-schedule and --insert-p2p make it.
  FailureOr<schedule::Schedule> buildSchedule(unsigned numStages) {
    ModuleOp module = getOperation();
    if (failed(expectCount(module, "ranks", ranks, 0, schedule::maxStages)) ||
        failed(expectCount(module, "microbatches", microbatches, 1, schedule::maxMicrobatches)))
      return failure();
    schedule::BuildRequest request;
    request.ranks = ranks ? unsigned(ranks) : numStages;
    request.microbatches = unsigned(microbatches);
    request.stages = numStages;
    if (!topology.empty()) {
      request.topology = schedule::parseTopologyStyle(topology);
      if (!request.topology)
        return module.emitError() << "expects loop or v for 'topology', found '" << topology << "'";
    }
    auto compute = schedule::buildSchedule(schedule, request);
    if (!compute)
      return module.emitError() << llvm::toString(compute.takeError());
    if (lowered && splitsBackward(*compute))
      return module.emitError() << "expects a schedule of whole backwards with policy=budget and "
                                   "lowered=true: the frames of halves are not planned; found '"
                                << compute->name << "'";
    if (splitsFsdp && compute->numRanks() > 1)
      if (llvm::Error error = schedule::addUnshards(*compute))
        return module.emitError() << llvm::toString(std::move(error));
    auto program = schedule::insertP2P(*compute);
    if (!program)
      return module.emitError() << llvm::toString(program.takeError());
    return std::move(*program);
  }

  /// Ops that every stage runs for itself get no mark.
  static void mark(func::FuncOp microbatch, const StageAssignment &assignment) {
    Builder builder(microbatch.getContext());
    for (Operation &op : microbatch.front().without_terminator()) {
      op.removeAttr(train::kStageAttrName);
      if (std::optional<unsigned> stage = assignment.getForwardStage(&op))
        op.setAttr(train::kStageAttrName, builder.getI64IntegerAttr(*stage));
    }
  }

  static LogicalResult checkSupported(const train::ProgramFunctions &program) {
    for (func::FuncOp function : {program.unshard, program.reduce})
      if (function)
        return function.emitError()
               << "belongs to the whole program; outline stages before --split-fsdp-collectives";
    func::FuncOp microbatch = program.microbatch;
    for (Type type : microbatch.getArgumentTypes())
      if (isa<train::BucketType>(type))
        return microbatch.emitError() << "gathers gradients in a bucket, " << type
                                      << ", which several stages may share; outline stages before "
                                         "--bucket-gradients";
    return success();
  }

  void print(const StageAssignment &assignment, const OutlinedStages &outlined) {
    double total = 0;
    for (double cost : assignment.getCosts())
      total += cost;
    for (auto [number, stage] : llvm::enumerate(outlined.stages)) {
      llvm::errs() << llvm::formatv(
          "stage {0}: {1} ops forward, {2} backward, {3:F1} % of the forward's cost\n", number,
          countOps(stage.forward), countOps(stage.backward),
          total > 0 ? 100 * assignment.getCosts()[number] / total : 0.0);
      if (number == outlined.traffic.size())
        continue;
      const BoundaryTraffic &traffic = outlined.traffic[number];
      llvm::errs() << llvm::formatv(
          "  to stage {0}: {1} values, {2} bytes; back: {3} gradients, {4} "
          "bytes{5}\n",
          number + 1, traffic.values, traffic.valueBytes, traffic.gradients, traffic.gradientBytes,
          traffic.pending ? llvm::formatv("; {0} of them pending sums", traffic.pending).str()
                          : "");
    }
    for (auto [rank, budget] : llvm::enumerate(outlined.ranks))
      llvm::errs() << llvm::formatv(
          "rank {0}: peak of a step {1} ({2} bytes), of it state {3}; recomputed of a microbatch "
          "{4} of traffic{5}\n",
          rank, memory::describeBytes(budget.peakBytes), budget.peakBytes,
          memory::describeBytes(budget.stateBytes), memory::describeBytes(budget.time),
          budget.hostBytes ? ", offloaded " + memory::describeBytes(budget.hostBytes) : "");
    train::ProgramFunctions whole;
    whole.stages = outlined.stages;
    for (const train::SharedParameter &parameter : train::listSharedParameters(whole)) {
      llvm::errs() << "stage " << parameter.updater << " updates " << parameter.name.getValue()
                   << " for stages ";
      llvm::interleaveComma(parameter.consumers, llvm::errs());
      llvm::errs() << " too\n";
    }
  }
};
} // namespace
