//===- ClassWalk.cpp - the functions of all classes, side by side -----------===//
//
// Each class evaluates its own function as far as ranks communicate. There all classes do, in one
// order, and what one of them gets is made of the values of all.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Random.h"
#include "lib/prove/Prover.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using dist::Reduction;

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

static bool isAlong(Operation *op, StringRef axis) {
  auto names = op->getAttrOfType<ArrayAttr>("axes");
  return names && llvm::any_of(names.getAsRange<StringAttr>(),
                               [&](StringAttr name) { return name == axis; });
}

/// Whether what a rank gets is made of what ranks of other classes have.
bool Prover::crossesClasses(Operation *op) {
  return !isa<dist::AxisIndexOp>(op) && isAlong(op, axes[classAxis].name);
}

void Prover::setOpaque(RankClass &of, Operation *op, const Twine &why) {
  unknowns[op] = why.str();
  for (OpResult result : op->getResults()) {
    localValues[result] = of.evaluator->opaque(result.getType());
    ownValues.insert(result);
  }
}

/// What a rank makes of what it has by itself, on the axis of the classes. False where its part is
/// of one size on all ranks, and so is what it is made of, as in any program.
bool Prover::convertInClass(RankClass &of, dist::ConvertOp op, bool isOwn) {
  std::optional<int64_t> dim = op.getSlicedDim();
  bool isPartial = op.getDestination().isPartial();
  mlir::Value from = op->getOperand(0), to = op->getResult(0);
  int64_t whole = dim ? tensorOf((isPartial ? to : from).getType()).getDimSize(*dim) : 0;
  if (!isOwn && whole % axes[classAxis].size == 0)
    return false;
  Tensor value = valueIn(of, from);
  std::optional<Tensor> made;
  if (!isPartial && dim)
    made = op.getSource().isSameOnAllRanks() ? takeChunk(of, std::move(value), *dim) : std::nullopt;
  else if (isPartial && dim)
    made = putInZeros(of, std::move(value), *dim, whole);
  else if (!isPartial)
    made = std::move(value);
  if (!made || !hasShape(*made, tensorOf(to.getType()).getShape(), terms.variables)) {
    setOpaque(of, op, "its ranks have parts of different sizes");
    return true;
  }
  localValues[to] = std::move(*made);
  if (!isPartial)
    ownValues.insert(to);
  return true;
}

void Prover::evaluateInClass(RankClass &of, Operation *op) {
  bool isOwn = llvm::any_of(op->getOperands(),
                            [&](mlir::Value operand) { return ownValues.contains(operand); });
  if (auto convert = dyn_cast<dist::ConvertOp>(op);
      convert && convert.getAxis() == axes[classAxis].name && convertInClass(of, convert, isOwn))
    return;
  if (isOwn && isa<aten::RandomOpInterface>(op))
    return setOpaque(of, op, "its ranks draw parts of different sizes");
  std::vector<Tensor> own;
  SmallVector<const Tensor *> operands;
  own.reserve(op->getNumOperands());
  for (mlir::Value operand : op->getOperands()) {
    own.push_back(isOwn ? valueIn(of, operand) : localValues[operand]);
    operands.push_back(&own.back());
  }
  std::string unknown;
  std::vector<Tensor> made =
      (isOwn ? *of.evaluator : *localEvaluator).evaluate(op, operands, unknown);
  if (!unknown.empty())
    unknowns[op] = unknown;
  if (isOwn && llvm::any_of(made, [](const Tensor &value) { return bool(value.rows); }))
    return setOpaque(of, op, "rows in an order of parts of different sizes");
  for (auto [result, value] : llvm::zip(op->getResults(), made)) {
    localValues[result] = std::move(value);
    if (isOwn)
      ownValues.insert(result);
  }
}

/// Parts of all classes, one after the other.
std::optional<Tensor> Prover::gatherClasses(ArrayRef<mlir::Value> values, unsigned dim,
                                            int64_t whole) {
  std::vector<Tensor> parts;
  SmallVector<int64_t> sizes;
  for (auto [each, value] : llvm::zip(classes, values)) {
    std::optional<dist::Chunk> chunk = chunkIn(each, whole);
    if (!chunk || tensorOf(value.getType()).getDimSize(dim) != chunk->size)
      return std::nullopt;
    Tensor part = withOwnDigits(terms, valueIn(each, value));
    Var place = terms.variables.make(each.count);
    Substitution digits;
    digits[each.digit] = Index::of(place);
    substitute(part.meaning, digits);
    if (each.count > 1)
      part.dims[dim].insert(part.dims[dim].begin(), place);
    coarsen(terms, part);
    parts.push_back(std::move(part));
    sizes.push_back(chunk->size * each.count);
  }
  return localEvaluator->putTogether(std::move(parts), sizes, dim);
}

/// What all ranks along the op's axes have, joined as it says, with the dimension of which each
/// then takes its part.
std::optional<Tensor> Prover::joinClasses(ArrayRef<Operation *> ops, unsigned result,
                                          std::optional<int64_t> &scattered) {
  Operation *first = ops.front();
  SmallVector<mlir::Value> operands;
  for (Operation *op : ops)
    operands.push_back(op->getOperand(result));
  SmallVector<Axis> along;
  auto names = first->getAttrOfType<ArrayAttr>("axes");
  for (auto name : names.getAsRange<StringAttr>())
    if (const Axis *axis = localEvaluator->findAxis(name))
      along.push_back(*axis);
  if (along.size() != names.size())
    return std::nullopt;
  bool isOne = along.size() == 1;
  auto gather = [&](int64_t dim) {
    int64_t whole = 0;
    for (auto [each, operand] : llvm::zip(classes, operands))
      whole += each.count * tensorOf(operand.getType()).getDimSize(dim);
    return isOne ? gatherClasses(operands, dim, whole) : std::nullopt;
  };
  if (auto op = dyn_cast<dist::AllGatherOp>(first))
    return gather(op.getDim());
  if (auto op = dyn_cast<dist::AllToAllOp>(first)) {
    scattered = op.getSplit();
    return op.getSplit() != op.getConcat() ? gather(op.getConcat()) : std::nullopt;
  }
  auto reduction = first->getAttrOfType<dist::ReductionAttr>("reduction");
  if (!reduction || !isa<dist::AllReduceOp, dist::ReduceScatterOp>(first) ||
      (reduction.getKind() != Reduction::Sum && reduction.getKind() != Reduction::Avg))
    return std::nullopt;
  if (auto op = dyn_cast<dist::ReduceScatterOp>(first)) {
    scattered = op.getDim();
    if (!isOne)
      return std::nullopt;
  }
  std::optional<Tensor> value = valueByPlace(operands);
  return value ? localEvaluator->reduce(*value, reduction, along) : std::nullopt;
}

void Prover::crossClasses(ArrayRef<Operation *> ops) {
  Operation *first = ops.front();
  bool isSame = true, isAlike = true;
  for (unsigned i = 0; i < first->getNumOperands(); ++i) {
    SmallVector<mlir::Value> operands;
    for (Operation *op : ops)
      operands.push_back(op->getOperand(i));
    isSame &= isSameInAll(operands);
  }
  for (unsigned i = 0; i < first->getNumResults(); ++i)
    for (Operation *op : ops)
      isAlike &= op->getResult(i).getType() == first->getResult(i).getType();
  if (isSame && isAlike) {
    evaluateInClass(classes[0], first);
    for (Operation *op : ArrayRef(ops).drop_front())
      for (auto [from, to] : llvm::zip(first->getResults(), op->getResults())) {
        // Not at once: the map may grow.
        Tensor value = localValues[from];
        localValues[to] = std::move(value);
      }
    return;
  }
  for (unsigned i = 0; i < first->getNumResults(); ++i) {
    std::optional<int64_t> scattered;
    std::optional<Tensor> joined = joinClasses(ops, i, scattered);
    for (auto [each, op] : llvm::zip(classes, ops)) {
      std::optional<Tensor> value = joined;
      bool isOwn = scattered.has_value();
      if (value && scattered)
        value = takeChunk(each, std::move(*value), *scattered);
      RankedTensorType type = tensorOf(op->getResult(i).getType());
      if (!value || !hasShape(*value, type.getShape(), terms.variables)) {
        unknowns[op] = "parts of different sizes are not understood here";
        value = each.evaluator->opaque(type);
        isOwn = true;
      }
      value->meaning = terms.normalize(std::move(value->meaning));
      coarsen(terms, *value);
      localValues[op->getResult(i)] = std::move(*value);
      if (isOwn)
        ownValues.insert(op->getResult(i));
    }
  }
}

void Prover::walkClasses() {
  std::vector<llvm::StringMap<mlir::Value>> returned(classes.size());
  for (unsigned number = 0; number < localParts.size(); ++number) {
    std::vector<Block::iterator> next;
    for (auto [each, passedOn] : llvm::zip(classes, returned)) {
      func::FuncOp function = each.parts[number].function;
      next.push_back(function.front().begin());
      for (BlockArgument argument : function.getArguments()) {
        train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
        if (!passesOn(role))
          continue;
        mlir::Value source = passedOn.lookup(nameOf(role));
        localValues[argument] =
            source ? localValues[source] : each.evaluator->opaque(argument.getType());
        if (!source || ownValues.contains(source))
          ownValues.insert(argument);
        if (source)
          passed[argument] = source;
      }
    }
    while (true) {
      SmallVector<Operation *> ops;
      for (auto [each, op] : llvm::zip(classes, next)) {
        for (; !op->hasTrait<OpTrait::IsTerminator>() && !crossesClasses(&*op); ++op) {
          if (terms.isLate())
            return;
          evaluateInClass(each, &*op);
        }
        ops.push_back(&*op++);
      }
      // Else ranks would wait for each other.
      for (Operation *op : ops)
        if (op->getName() != ops[0]->getName() ||
            op->getPropertiesAsAttribute() != ops[0]->getPropertiesAsAttribute() ||
            op->getNumOperands() != ops[0]->getNumOperands())
          return outOfScope("ranks with parts of different sizes communicate in different orders");
      if (ops[0]->hasTrait<OpTrait::IsTerminator>()) {
        returnFromClasses(number, ops, returned);
        break;
      }
      crossClasses(ops);
    }
  }
}

void Prover::returnFromClasses(unsigned number, ArrayRef<Operation *> ends,
                               std::vector<llvm::StringMap<mlir::Value>> &returned) {
  Part part = localParts[number];
  for (unsigned i = 0; i < ends[0]->getNumOperands(); ++i) {
    train::RoleAttr role = train::getResultRole(part.function, i);
    for (auto [end, passedOn] : llvm::zip(ends, returned))
      if (passesOn(role))
        passedOn[nameOf(role)] = end->getOperand(i);
    if (passesOn(role))
      continue;
    if (isStageSum(role))
      return outOfScope("ranks with parts of different sizes make terms of stage sums");
    Result result{part, i, ends[0]->getOperand(i), role, resultPlacement(part.function, i)};
    for (const RankClass &each : classes)
      if (resultPlacement(each.parts[number].function, i) != result.placement)
        return outOfScope("'" + nameOf(role) +
                          "' lies in one way on some ranks and in another on " + "others");
    for (Operation *end : ends)
      result.byClass.push_back(end->getOperand(i));
    results.push_back(std::move(result));
  }
}

/// Whether a result that the functions of all classes return is right on the ranks of each.
bool Prover::isRightInClasses(const Result &result, Finding &finding) {
  std::optional<dist::AxisPlacement> on =
      result.placement ? result.placement.get(axes[classAxis].name) : std::nullopt;
  bool isCut = on && !on->isSameOnAllRanks() && !on->isShard();
  if (isCut || isSameInAll(result.byClass)) {
    std::optional<Tensor> value = valueByPlace(result.byClass);
    if (!value)
      return false;
    std::optional<Tensor> wanted = expect(result, *value, finding.relation, &finding.isNew);
    if (wanted && areEqual(terms, *value, *wanted))
      return true;
    if (wanted)
      explain(*value, *wanted, result, finding);
    if (wanted || isCut)
      return false;
  }
  for (auto [each, returned] : llvm::zip(classes, result.byClass)) {
    Tensor value = valueIn(each, returned);
    std::optional<Tensor> wanted = expect(result, value, finding.relation, &finding.isNew, &each);
    if (wanted && areEqual(terms, value, *wanted))
      continue;
    finding.function =
        cast<func::FuncOp>(mlir::Value(returned).getParentRegion()->getParentOp()).getName().str();
    if (wanted)
      explain(value, *wanted, result, finding);
    return false;
  }
  return true;
}
