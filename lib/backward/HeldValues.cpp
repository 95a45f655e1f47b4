//===- HeldValues.cpp - what to keep from dI to dW ---------------------------===//

#include "lib/backward/HeldValues.h"

#include "lib/backward/Recompute.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/solve/MinCut.h"

using namespace mlir;
using namespace cleave;
using train::RoleKind;

namespace {
/// The network: source -> what must be computed by dI -> ... -> what dW needs -> sink. Every value
/// is two nodes with an edge of its bytes between them; a value on the source's side of the cut is
/// not needed, one that the cut goes through is held, one on the sink's side is recomputed.
class HeldValues {
public:
  HeldValues(const train::ProgramFunctions &program, func::FuncOp function,
             backward::SplitPlan &plan, bool recomputeCheap)
      : function(function), plan(plan), recomputeCheap(recomputeCheap) {
    if (func::FuncOp unshard = program.unshard)
      for (unsigned i = 0; i < unshard.getNumResults(); ++i)
        unsharded.insert(train::getResultRole(unshard, i).getName());
  }

  void choose() {
    findNeeds();
    llvm::SetVector<Value> reachable = needs;
    for (size_t i = 0; i < reachable.size(); ++i)
      if (isRecomputable(reachable[i]))
        for (Value operand : reachable[i].getDefiningOp()->getOperands())
          reachable.insert(operand);
    chooseUnit(reachable.getArrayRef());
    for (Value value : reachable)
      addValue(value);
    // Every path has a value that can be held, so there is a cut.
    llvm::BitVector sourceSide = network.findMinCut(sink, source)->sinkSide;
    for (Value value : reachable) {
      unsigned in = nodes.lookup(value);
      if (!sourceSide.test(in))
        plan.recomputed.insert(value);
      else if (!sourceSide.test(in + 1))
        held.insert(value);
    }
    dropUnused();
    measure();
  }

private:
  /// Values of dI, and arguments, that dW's ops and results use.
  void findNeeds() {
    auto need = [&](Value value) {
      if (!plan.weight.contains(value))
        needs.insert(value);
    };
    for (Operation &op : function.front().without_terminator())
      if (plan.weight.containsOp(&op))
        llvm::for_each(op.getOperands(), need);
    for (unsigned result : plan.weightResults)
      need(function.front().getTerminator()->getOperand(result));
  }

  bool isRecomputable(Value value) const {
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    return backward::isRecomputable(op, recomputeCheap ? backward::RecomputeLevel::Cheap
                                                       : backward::RecomputeLevel::Views);
  }

  /// Whether an argument is there in every microbatch, so that holding it costs nothing.
  bool isAlwaysThere(BlockArgument argument) const {
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    switch (role.getKind()) {
    case RoleKind::Parameter:
    case RoleKind::Constant:
    case RoleKind::Buffer:
    case RoleKind::Accumulator:
    case RoleKind::Seed:
    case RoleKind::RngSeed:
    case RoleKind::RngOffset:
      return true;
    default:
      return role.getKind() == RoleKind::Saved && unsharded.contains(role.getName());
    }
  }

  /// What holding `value` costs. A view costs its base; what dW needs and nothing else can give
  /// costs nothing more, whatever is chosen.
  int64_t costOf(Value value) const {
    Value base = memory::getStorage(value);
    if (auto argument = dyn_cast<BlockArgument>(base))
      if (isAlwaysThere(argument) || needs.contains(argument))
        return 0;
    return memory::getByteSize(base.getType());
  }

  /// Programs that only a plan asks about have values of many TiB: beside these, recomputed ops may
  /// have no weight.
  void chooseUnit(ArrayRef<Value> values) {
    double bytes = 0;
    for (Value value : values)
      bytes += double(costOf(value));
    unit = solve::Network::chooseScale(bytes, 1 << 20);
  }

  unsigned nodeOf(Value value) {
    auto [entry, isNew] = nodes.try_emplace(value, 0);
    if (isNew) {
      entry->second = network.addNode();
      network.addNode();
    }
    return entry->second;
  }

  /// The network is reversed: of several minimum cuts it finds the one that is nearest to its sink,
  /// and that shall be where dI starts, so that bases are held and not their views.
  void addEdge(unsigned from, unsigned to, int64_t capacity) {
    network.addEdge(to, from, capacity);
  }

  void addValue(Value value) {
    unsigned in = nodeOf(value);
    addEdge(in, in + 1, costOf(value) * unit);
    if (needs.contains(value))
      addEdge(in + 1, sink, solve::Network::kUnlimited);
    if (!isRecomputable(value)) {
      addEdge(source, in, solve::Network::kUnlimited);
      return;
    }
    // Computing again is work, if little: of two cuts of the same bytes the one with less of it.
    if (memory::getStorage(value) == value)
      addEdge(source, in, 1);
    for (Value operand : value.getDefiningOp()->getOperands())
      addEdge(nodeOf(operand) + 1, in, solve::Network::kUnlimited);
  }

  /// Keeps of the cut what dW really comes to use.
  void dropUnused() {
    llvm::DenseSet<Value> used;
    SmallVector<Value> worklist(needs.begin(), needs.end());
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (used.insert(value).second && plan.recomputed.contains(value))
        llvm::append_range(worklist, value.getDefiningOp()->getOperands());
    }
    for (Value argument : function.getArguments())
      if (held.contains(argument) && used.contains(argument))
        plan.held.insert(argument);
    for (Operation &op : function.front())
      for (Value result : op.getResults()) {
        if (held.contains(result) && used.contains(result))
          plan.held.insert(result);
        if (!used.contains(result))
          plan.recomputed.erase(result);
      }
  }

  void measure() {
    llvm::DenseSet<Value> counted;
    for (Value value : plan.held) {
      Value base = memory::getStorage(value);
      if (!counted.insert(base).second)
        continue;
      auto argument = dyn_cast<BlockArgument>(base);
      if (!argument)
        plan.memory.byProductBytes += memory::getByteSize(base.getType());
      else if (!isAlwaysThere(argument))
        plan.memory.savedBytes += memory::getByteSize(base.getType());
    }
  }

  func::FuncOp function;
  backward::SplitPlan &plan;
  bool recomputeCheap;
  llvm::DenseSet<StringAttr> unsharded; ///< saved values that live as long as the step
  llvm::SetVector<Value> needs;
  llvm::DenseSet<Value> held;
  llvm::DenseMap<Value, unsigned> nodes;
  solve::Network network;
  unsigned source = network.addNode(), sink = network.addNode();
  int64_t unit = 1; ///< of a byte, in units of the smallest cost: computing one op again
};
} // namespace

void backward::chooseHeldValues(const train::ProgramFunctions &program, func::FuncOp function,
                                SplitPlan &plan, bool recomputeCheap) {
  HeldValues(program, function, plan, recomputeCheap).choose();
}
