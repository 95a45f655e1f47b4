//===- Lifetimes.cpp - which uses share a form, and how long it is held ------===//

#include "lib/placement/propagate/Lifetimes.h"
#include "lib/memory/MemoryPlan.h"

#include "dialects/train/Train.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement::propagate;

/// Whether it is a parameter, or made of nothing else.
bool Lifetimes::isOfParameter(const ValueNode &value) const {
  if (value.op == kNone) {
    train::RoleAttr role = graph.ports[value.port].role;
    return role && role.getKind() == train::RoleKind::Parameter;
  }
  const OpNode &op = graph.ops[value.op];
  return op.operands.size() == 1 && op.operands[0] != kNone &&
         isOfParameter(graph.values[graph.uses[op.operands[0]].value]);
}

bool Lifetimes::isView(unsigned op) const {
  Operation *operation = graph.ops[op].op;
  return operation->getNumResults() && memory::getViewSource(operation->getResult(0));
}

/// When the use, and what it makes a view of the value for, is over.
int64_t Lifetimes::reachOf(const Use &use) const {
  if (use.op == kNone) {
    func::FuncOp function = graph.ports[use.port].function;
    auto last = llvm::find_if(llvm::reverse(graph.ops), [&](const OpNode &node) {
      return node.op->getParentOp() == function.getOperation();
    });
    return last == graph.ops.rend() ? 0 : graph.ops.rend() - last;
  }
  int64_t time = use.op + 1;
  if (isView(use.op))
    for (unsigned result : graph.ops[use.op].results)
      if (result != kNone)
        time = std::max(time, end[result]);
  return time;
}

Lifetimes::Lifetimes(const Graph &graph, bool countsMemory)
    : shared(graph.values.size()), fixed(graph.values.size()), end(graph.values.size()),
      hasMemory(graph.values.size(), true), graph(graph) {
  std::vector<char> isArgument(graph.groups.size(), false);
  for (const Port &port : graph.ports)
    isArgument[port.group] |= !port.isResult;
  // What uses a value comes behind it.
  for (size_t number = graph.values.size(); number-- > 0;) {
    const ValueNode &value = graph.values[number];
    bool isOfParameter = this->isOfParameter(value);
    hasMemory[number] = value.op != kNone && !isView(value.op);
    SharedUses forward, backward;
    for (unsigned use : value.uses) {
      const Use &user = graph.uses[use];
      Operation *op = user.op != kNone ? graph.ops[user.op].op : nullptr;
      if (user.op == kNone && isArgument[graph.ports[user.port].group])
        hasMemory[number] = false;
      // The accumulator of a step's first microbatch is empty: nothing that could be redistributed.
      if (auto accumulate = dyn_cast_or_null<train::AccumulateOp>(op);
          accumulate && user.operand == accumulate.getAccumulatorMutable().getOperandNumber())
        fixed[number].push_back(use);
      else if (isOfParameter && op && op->hasAttr(train::kBackwardAttrName))
        backward.uses.push_back(use);
      else
        forward.uses.push_back(use);
    }
    int64_t made = value.op == kNone ? 0 : value.op + 1;
    end[number] = made;
    for (SharedUses &uses : {std::ref(forward), std::ref(backward)}) {
      if (uses.uses.empty())
        continue;
      uses.start = std::numeric_limits<int64_t>::max();
      bool hasView = false;
      for (unsigned use : uses.uses) {
        const Use &user = graph.uses[use];
        int64_t reach = reachOf(user);
        uses.start = std::min(uses.start, user.op == kNone ? reach : user.op);
        uses.end = std::max(uses.end, reach);
        hasView |= user.op != kNone && isView(user.op);
      }
      uses.isShared = uses.uses.size() > 1 || (countsMemory && (isOfParameter || hasView));
      end[number] = std::max(end[number], uses.isShared ? uses.start : uses.end);
      shared[number].push_back(uses);
    }
  }
}
