//===- PartitionJoint.cpp - a microbatch as forward and backward --------------===//

#include "passes/backward/Passes.h"

#include "lib/backward/Explain.h"
#include "lib/backward/MicrobatchParts.h"
#include "lib/memory/MemoryPlan.h"

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
    FailureOr<RecomputeModel> model = RecomputeModel::create(*graph, recompute);
    if (failed(model))
      return signalPassFailure();
    bool isReporting = explain || !json.empty();
    int64_t jointPeak =
        isReporting ? memory::planMemory(program->microbatch, /*emptyAccumulators=*/true).peakBytes
                    : 0;

    Partition partition = choosePartition(*graph, *model, policy);
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
    savedBytes = explanation.functions.front().heldBytes;
    if (explain)
      explanation.print(llvm::errs());
    if (!json.empty() && failed(explanation.writeJSON(json, getOperation())))
      signalPassFailure();
  }
};
} // namespace
