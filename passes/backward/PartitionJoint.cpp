//===- PartitionJoint.cpp - a microbatch as forward and backward --------------===//

#include "passes/backward/Passes.h"

#include "lib/backward/Explain.h"
#include "lib/backward/PartBuilder.h"
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
    FailureOr<train::Program> program = train::getProgram(getOperation());
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
    llvm::DenseSet<Value> takenByBackward;
    program->backward = buildBackward(*graph, partition, names, takenByBackward);
    program->forward = buildForward(*graph, partition, names, takenByBackward);
    program->forward->moveBefore(program->backward);
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

  /// Whether a result in `indices` is the argument's new value.
  static bool isTiedToAny(func::FuncOp function, BlockArgument argument,
                          ArrayRef<unsigned> indices) {
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    return llvm::any_of(indices, [&](unsigned index) {
      return role.isTiedTo(train::getResultRole(function, index));
    });
  }

  /// The backward, and the arguments that it takes.
  func::FuncOp buildBackward(const JointGraph &graph, const Partition &partition,
                             ArrayRef<std::string> names, llvm::DenseSet<Value> &taken) {
    PartBuilder builder(graph.getFunction(), train::Phase::Backward);
    for (Operation *op : listBackwardOps(graph, partition))
      builder.addOp(op);
    for (unsigned index : graph.getBackwardResults())
      builder.addResult(index);
    builder.addArguments([&](BlockArgument argument, bool isUsed) {
      bool isTaken = (isUsed && !graph.isUpdatedBuffer(argument)) ||
                     isTiedToAny(graph.getFunction(), argument, graph.getBackwardResults());
      if (isTaken)
        taken.insert(argument);
      return isTaken;
    });
    for (auto [value, name] : llvm::zip_equal(partition.saved, names))
      builder.addSaved(value, name);
    return builder.build([&](Operation *original, Operation *clone) {
      if (!graph.isForward(original))
        return;
      clone->setAttr(train::kRecomputedAttrName, UnitAttr::get(&getContext()));
      ++numRecomputed;
    });
  }

  func::FuncOp buildForward(const JointGraph &graph, const Partition &partition,
                            ArrayRef<std::string> names,
                            const llvm::DenseSet<Value> &takenByBackward) {
    func::FuncOp function = graph.getFunction();
    PartBuilder builder(function, train::Phase::Forward);
    for (Operation *op : listForwardOps(graph, partition))
      builder.addOp(op);
    for (unsigned index : graph.getForwardResults())
      builder.addResult(index);
    for (auto [value, name] : llvm::zip_equal(partition.saved, names))
      builder.save(value, name);
    builder.addArguments([&](BlockArgument argument, bool isUsed) {
      // What nobody uses stays an argument of the program all the same.
      return isUsed || !takenByBackward.contains(argument) ||
             isTiedToAny(function, argument, graph.getForwardResults());
    });
    func::FuncOp forward = builder.build();
    if (Attribute draws = function->getAttr(train::kDrawsAttrName))
      forward->setAttr(train::kDrawsAttrName, draws);
    return forward;
  }
};
} // namespace
