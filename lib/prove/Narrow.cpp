//===- Narrow.cpp - where a wrong value comes from --------------------------===//
//
// An op that is not linear shows that its operands are wrong, and linear ones before it may have
// been given what is. Values of LOCAL are compared with those of GLOBAL from the same line, in
// whatever way they lie, back to ops whose operands are right. This only explains what was not
// proved.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Prover.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Whether both do the same, but for sizes.
static bool areAlike(Operation *there, Operation *here) {
  if (there->getNumResults() != here->getNumResults())
    return false;
  return llvm::all_of(there->getAttrs(), [&](NamedAttribute attribute) {
    mlir::Attribute other = here->getAttr(attribute.getName());
    return !other || !isa<IntegerAttr, FloatAttr>(other) || other == attribute.getValue();
  });
}

/// Ops from one line with one name are each other's counterparts if both programs have as many.
void Prover::matchOps() {
  using Key = std::pair<Location, StringAttr>;
  llvm::DenseMap<std::pair<void *, void *>,
                 std::pair<SmallVector<Operation *, 1>, SmallVector<Operation *, 1>>>
      ops;
  auto collect = [&](ModuleOp module, bool isLocal) {
    module.walk([&](Operation *op) {
      if (isa<func::FuncOp, ModuleOp>(op) || isa<UnknownLoc>(op->getLoc()))
        return;
      Key key(op->getLoc(), op->getName().getIdentifier());
      auto &found = ops[{const_cast<void *>(key.first.getAsOpaquePointer()),
                         const_cast<void *>(key.second.getAsOpaquePointer())}];
      (isLocal ? found.second : found.first).push_back(op);
    });
  };
  collect(global, false);
  collect(local, true);
  for (auto &[key, both] : ops)
    if (both.first.size() == both.second.size())
      for (auto [there, here] : llvm::zip(both.first, both.second))
        if (areAlike(there, here))
          counterparts[here] = there;
}

Prover::Likeness Prover::compareToCounterpart(mlir::Value value, std::string &relation) {
  auto result = dyn_cast<OpResult>(value);
  Operation *op = result ? counterparts.lookup(result.getOwner()) : nullptr;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!op || !type)
    return Likeness::NoCounterpart;
  mlir::Value other = op->getResult(result.getResultNumber());
  auto whole = dyn_cast<RankedTensorType>(other.getType());
  auto there = globalValues.find(other);
  if (!whole || whole.getRank() != type.getRank() || there == globalValues.end())
    return Likeness::NoCounterpart;
  Tensor expected = there->second;
  const Tensor &found = localValues[value];
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    if (type.getDimSize(dim) == whole.getDimSize(dim))
      continue;
    // The axis, or all of them, that cut the dimension so.
    std::optional<Tensor> part;
    for (const Axis &axis : axes)
      if (!part && type.getDimSize(dim) * axis.size == whole.getDimSize(dim))
        part = localEvaluator->shard(expected, dim, axis);
    if (!part)
      return Likeness::NoCounterpart;
    expected = std::move(*part);
  }
  auto isExpected = [&](const Tensor &value, Rational factor) {
    Tensor scaled = expected;
    scaled.meaning = terms.scale(std::move(scaled.meaning), factor);
    return areEqual(terms, value, scaled);
  };
  if (isExpected(found, Rational(1)))
    return Likeness::Alike;
  // First what is the same on all ranks: that is a term of a sum as well.
  for (const Axis &axis : axes)
    for (bool isLess : {false, true})
      if (axis.size > 1 &&
          isExpected(found, isLess ? Rational(1) / Rational(axis.size) : Rational(axis.size))) {
        relation = llvm::formatv("{0}{1} times the expected value", isLess ? "1/" : "", axis.size);
        return Likeness::Scaled;
      }
  for (const Axis &axis : axes) {
    Tensor total = found;
    total.meaning = terms.sum(std::move(total.meaning), axis.digits);
    if (axis.size > 1 && isExpected(total, Rational(1))) {
      relation = llvm::formatv("a rank's term of the sum over '{0}'", axis.name);
      return Likeness::Term;
    }
  }
  return Likeness::Unlike;
}

void Prover::narrow(Finding &finding) {
  if (counterparts.empty())
    matchOps();
  std::string own;
  // As far as values are wrong; what has no counterpart is passed through.
  for (unsigned steps = 0; steps < 64; ++steps) {
    Operation *next = nullptr;
    std::string term, scaled;
    SmallVector<mlir::Value> operands(finding.op->getOperands());
    llvm::SmallPtrSet<Operation *, 8> seen;
    for (unsigned i = 0; i < operands.size() && !next; ++i) {
      mlir::Value operand = operands[i];
      if (auto source = passed.find(operand); source != passed.end())
        operand = source->second;
      Operation *op = operand.getDefiningOp();
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      if (!op || !type || isa<IntegerType>(type.getElementType()) || !seen.insert(op).second)
        continue;
      std::string relation;
      switch (compareToCounterpart(operand, relation)) {
      case Likeness::Alike:
        break;
      case Likeness::Term:
        term = relation;
        break;
      case Likeness::Scaled:
      case Likeness::Unlike:
        next = op;
        scaled = relation;
        break;
      case Likeness::NoCounterpart:
        llvm::append_range(operands, op->getOperands());
        break;
      }
    }
    if (!next) {
      finding.operand = own.empty() ? term : own;
      return;
    }
    own = scaled;
    finding.op = next;
  }
}
