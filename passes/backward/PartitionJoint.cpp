//===- PartitionJoint.cpp - a microbatch as forward and backward --------------===//

#include "passes/backward/Passes.h"

#include "lib/backward/Budget.h"
#include "lib/backward/Explain.h"
#include "lib/backward/MicrobatchParts.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/support/Bytes.h"

#include "mlir/IR/Builders.h"

namespace cleave::backward {
#define GEN_PASS_DEF_PARTITIONJOINT
#include "passes/backward/Passes.h.inc"
} // namespace cleave::backward

using namespace mlir;
using namespace cleave;
using namespace cleave::backward;

namespace {
struct PartitionJoint : backward::impl::PartitionJointBase<PartitionJoint> {
  using PartitionJointBase::PartitionJointBase;

  void runOnOperation() override {
    FailureOr<train::ProgramFunctions> program = train::getProgram(getOperation());
    if (failed(program))
      return signalPassFailure();
    FailureOr<JointGraph> graph = JointGraph::create(program->microbatch);
    if (failed(graph))
      return signalPassFailure();
    bool isReporting = explain || !json.empty();
    int64_t jointPeak =
        isReporting
            ? cleave::memory::planMemory(program->microbatch, /*emptyAccumulators=*/true).peakBytes
            : 0;

    std::optional<BudgetReport> budget;
    FailureOr<Partition> chosen = choose(*program, *graph, budget);
    if (failed(chosen))
      return signalPassFailure();
    Partition partition = std::move(*chosen);
    SmallVector<std::string> names;
    SavedNames saved(*program);
    for (Value value : partition.saved)
      names.push_back(saved.makeName(value));
    func::FuncOp microbatch = program->microbatch;
    MicrobatchParts parts = buildParts(*graph, partition, names);
    program->forward = parts.forward;
    program->backward = parts.backward;
    numRecomputed += parts.numRecomputed;
    program->microbatch = nullptr;
    microbatch.erase();

    numSaved = partition.saved.size();
    if (!isReporting)
      return;
    Explanation explanation = explainProgram(*program);
    explanation.jointPeakBytes = jointPeak;
    explanation.budget = std::move(budget);
    savedBytes = explanation.functions.front().heldBytes;
    if (explain)
      explanation.print(llvm::errs());
    if (!json.empty() && failed(explanation.writeJSON(json, getOperation())))
      signalPassFailure();
  }

private:
  FailureOr<Partition> choose(const train::ProgramFunctions &program, const JointGraph &graph,
                              std::optional<BudgetReport> &report) {
    ModuleOp module = getOperation();
    if (policy != PartitionPolicy::Budget) {
      if (!memory.empty() || microbatches.hasValue() || lowered.hasValue() || offloads.hasValue() ||
          !cluster.empty() || !graphFile.empty())
        return module.emitError("expects 'memory', 'microbatches', 'lowered', 'offload', "
                                "'cluster' and 'graph' with policy=budget only");
      FailureOr<RecomputeModel> model = RecomputeModel::create(graph, recompute);
      if (failed(model))
        return failure();
      return choosePartition(graph, *model, policy);
    }
    BudgetRequest request;
    std::optional<int64_t> bytes = support::parseBytes(memory);
    if (!bytes)
      return module.emitError("expects an amount of memory with policy=budget, such as "
                              "memory=80GiB; found '")
             << memory << "'";
    if (microbatches < 1)
      return module.emitError("expects at least one microbatch per step, found microbatches=")
             << int64_t(microbatches);
    request.bytes = *bytes;
    request.microbatches = microbatches;
    request.isLowered = lowered;
    request.mayOffload = offloads;
    FailureOr<std::optional<cost::Cluster>> read = readBudgetCluster(module, cluster, offloads);
    if (failed(read))
      return failure();
    request.cluster = std::move(*read);
    request.graphFile = graphFile;
    if (recompute.hasValue())
      request.level = recompute;
    FailureOr<BudgetedPartition> chosen = choosePartition(program, graph, request);
    if (failed(chosen))
      return failure();
    report = std::move(chosen->report);
    return std::move(chosen->partition);
  }
};
} // namespace
