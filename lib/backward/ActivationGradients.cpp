//===- ActivationGradients.cpp - the chain of gradients of activations -------===//

#include "lib/backward/ActivationGradients.h"

#include "dialects/aten/Aten.h"
#include "lib/backward/OutputMask.h"

using namespace mlir;
using namespace cleave;

static constexpr int kNone = -1;
static constexpr int kSeveral = -2;

/// Whether the end of a parameter's gradient goes on after this op: it moves, converts, sums or
/// combines elements. The rest is what a weight gradient is made by.
static bool isInEnd(Operation *op) {
  auto aten = dyn_cast<aten::AtenOpInterface>(op);
  if (!aten)
    return true; // train.accumulate, and communication of gradients
  return !backward::getOutputMask(op) && op->getNumResults() == 1 && !aten.mixesElements();
}

backward::ActivationGradients::ActivationGradients(func::FuncOp function,
                                                   const GradientResults &results,
                                                   ArrayRef<Value> tangents)
    : function(function), gradients(valuesFrom(function, tangents)) {
  findReach(results);
  Operation *terminator = function.front().getTerminator();
  for (unsigned result : results.parameters)
    walkEnd(terminator->getOperand(result));
}

void backward::ActivationGradients::findReach(const GradientResults &results) {
  auto join = [](int a, int b) {
    if (a == kNone || b == kNone)
      return a == kNone ? b : a;
    return a == b ? a : kSeveral;
  };
  auto reachOf = [&](Value value) {
    auto found = reach.find(value);
    return found == reach.end() ? kNone : found->second;
  };
  Operation *terminator = function.front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    int one = llvm::is_contained(results.parameters, i) ? int(i) : kSeveral;
    reach[value] = join(reachOf(value), one);
  }
  for (Operation &op : llvm::reverse(function.front().without_terminator())) {
    int all = kNone;
    for (Value result : op.getResults())
      all = join(all, reachOf(result));
    for (Value operand : op.getOperands())
      reach[operand] = join(reachOf(operand), all);
  }
}

void backward::ActivationGradients::walkEnd(Value gradient) {
  // With each value: whether it is after the op that makes the parameter's gradient.
  SmallVector<std::pair<Value, bool>> worklist{{gradient, false}};
  while (!worklist.empty()) {
    auto [value, isBehind] = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !gradients.contains(value))
      continue;
    if (reach.lookup(value) < 0) {
      entering.insert(value);
      continue;
    }
    auto aten = dyn_cast<aten::AtenOpInterface>(op);
    Value viewed = aten ? aten.getViewedOperand(cast<OpResult>(value).getResultNumber()) : Value();
    if (isBehind && !viewed) {
      entering.insert(value);
      continue;
    }
    if (!ends.insert(value).second)
      continue;
    if (viewed) {
      worklist.emplace_back(viewed, isBehind);
      continue;
    }
    for (Value operand : op->getOperands())
      worklist.emplace_back(operand, !isInEnd(op));
  }
}

llvm::SetVector<Value> backward::ActivationGradients::all() const {
  llvm::SetVector<Value> ordered;
  for (Operation &op : const_cast<func::FuncOp &>(function).front())
    for (Value result : op.getResults())
      if (entering.contains(result) && !ends.contains(result))
        ordered.insert(result);
  return ordered;
}

/// The module path that the exporter has put around an op's file and line; empty if none is.
static StringRef moduleOf(Operation *op) {
  auto name = dyn_cast<NameLoc>(op->getLoc());
  return name ? name.getName().getValue() : StringRef();
}

llvm::SetVector<Value> backward::ActivationGradients::leaving(ArrayRef<StringRef> modules) const {
  auto isNamed = [&](StringRef path) {
    return llvm::any_of(modules, [&](StringRef module) {
      StringRef rest = path;
      return rest.consume_front(module) && (rest.empty() || rest.starts_with("."));
    });
  };
  // Gradients flow from later modules to earlier ones: up to the named modules, through them, past
  // them. Sums of gradients that autograd makes stand in no module and are as far as what they sum.
  enum Progress { UpTo, Through, Past };
  llvm::DenseMap<Operation *, Progress> progress;
  llvm::SetVector<Value> values;
  for (Operation &op : const_cast<func::FuncOp &>(function).front().without_terminator()) {
    Progress furthest = UpTo;
    for (Value operand : op.getOperands())
      if (gradients.contains(operand) && operand.getDefiningOp())
        furthest = std::max(furthest, progress.lookup(operand.getDefiningOp()));
    StringRef module = moduleOf(&op);
    if (!module.empty())
      furthest = isNamed(module) ? Through : furthest == UpTo ? UpTo : Past;
    progress[&op] = furthest;
    if (furthest != Past)
      continue;
    for (Value operand : op.getOperands())
      if (gradients.contains(operand) && !ends.contains(operand) && operand.getDefiningOp() &&
          progress.lookup(operand.getDefiningOp()) == Through)
        values.insert(operand);
  }
  return values;
}

SmallVector<StringRef> backward::ActivationGradients::modules() const {
  llvm::SetVector<StringRef> names;
  for (Operation &op : const_cast<func::FuncOp &>(function).front())
    if (StringRef module = moduleOf(&op);
        !module.empty() && llvm::any_of(op.getResults(), [&](Value v) {
          return gradients.contains(v) && !ends.contains(v);
        }))
      names.insert(module);
  return names.takeVector();
}
