//===- Counterparts.cpp - ops of LOCAL that GLOBAL has, too -----------------===//

#include "lib/prove/Counterparts.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Whether an attribute says how large something is, which parts have of other values.
static bool isSize(NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name.starts_with("dim") || name == "correction" || name == "reduction")
    return false;
  return isa<IntegerAttr, DenseI64ArrayAttr>(attribute.getValue()) &&
         !isa<BoolAttr>(attribute.getValue());
}

/// Whether it is communication, which stands for what it takes.
static bool passesValues(Operation *op) {
  return op->getName().getDialectNamespace() == "dist" && op->getNumOperands() > 0;
}

/// Whether the numbers of an op of LOCAL are those of GLOBAL's, or divided by numbers of ranks, as
/// where what all have is added up.
static bool isDividedByRanks(Operation *a, Operation *b, ArrayRef<Axis> axes) {
  for (NamedAttribute attribute : a->getAttrs()) {
    auto one = dyn_cast<FloatAttr>(attribute.getValue());
    auto other = one ? b->getAttrOfType<FloatAttr>(attribute.getName()) : FloatAttr();
    if (!one)
      continue;
    double ratio = other ? other.getValueAsDouble() / one.getValueAsDouble() : 0;
    if (a->getName().stripDialect().starts_with("div"))
      ratio = 1 / ratio;
    for (const Axis &axis : axes)
      if (!axis.isOpen() && axis.size > 1 && ratio >= double(axis.size))
        ratio /= double(axis.size);
    if (ratio != 1)
      return false;
  }
  return true;
}

std::string Counterparts::spell(Operation *op, ArrayRef<unsigned> operands, Detail detail) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << unsigned(detail) << op->getName();
  for (unsigned operand : operands)
    os << ' ' << operand;
  for (NamedAttribute attribute : op->getAttrs()) {
    // Those of other dialects mark ops: that one belongs to the backward, say.
    if (attribute.getName().getValue().contains('.') ||
        (detail != Detail::All && isSize(attribute)) ||
        (detail == Detail::NoNumbers && isa<FloatAttr>(attribute.getValue())))
      continue;
    os << ", " << attribute.getName().getValue() << '=' << attribute.getValue();
  }
  return text;
}

mlir::Value Counterparts::sourceOf(mlir::Value value) const {
  auto source = passed.find(value);
  return source == passed.end() ? value : source->second;
}

unsigned Counterparts::numberOfOperand(Operation *op, unsigned operand) const {
  return numbers.lookup(sourceOf(op->getOperand(operand)));
}

unsigned Counterparts::findIn(Operation *op, ArrayRef<unsigned> operands, Detail detail) const {
  auto found = known.find(spell(op, operands, detail));
  return found == known.end() ? 0 : found->second.front();
}

/// The same for ops of LOCAL, one after the other: of several parts of a value the first one stands
/// for the first.
unsigned Counterparts::findInOrder(Operation *op, ArrayRef<unsigned> operands) {
  if (llvm::is_contained(operands, 0u))
    return 0;
  std::string exact = spell(op, operands, Detail::All),
              loose = spell(op, operands, Detail::NoSizes);
  SmallVector<std::string, 1> &before = taken[loose];
  size_t place = llvm::find(before, exact) - before.begin();
  if (place == before.size())
    before.push_back(exact);
  if (auto found = known.find(exact); found != known.end())
    return found->second.front();
  auto found = known.find(loose);
  if (found == known.end())
    return 0;
  return found->second[std::min(place, found->second.size() - 1)];
}

unsigned Counterparts::find(Operation *op, ArrayRef<unsigned> operands) const {
  if (llvm::is_contained(operands, 0u))
    return 0;
  if (unsigned found = findIn(op, operands, Detail::All))
    return found;
  if (unsigned found = findIn(op, operands, Detail::NoSizes))
    return found;
  return 0;
}

void Counterparts::addArguments(Part part, bool isGlobal) {
  for (BlockArgument argument : part.function.getArguments()) {
    unsigned number = argument.getArgNumber();
    std::string name = nameOf(part, train::getArgumentRole(part.function, number), number);
    if (part.kind == Part::Plain)
      name = (name + " of " + part.function.getName()).str();
    SmallVector<unsigned, 1> &of = known[name];
    if (of.empty() && isGlobal)
      of.push_back(++last);
    numbers[argument] = of.empty() ? 0 : of.front();
  }
}

SmallVector<unsigned> Counterparts::numbersOfOperands(Operation *op, mlir::Value value,
                                                      unsigned number) const {
  SmallVector<unsigned> operands;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    operands.push_back(value && op->getOperand(i) == value ? number : numberOfOperand(op, i));
  return operands;
}

/// The name of what is returned, in both programs.
static std::string nameOfReturned(func::FuncOp function, unsigned number) {
  auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
  train::RoleAttr role = train::getResultRole(function, number);
  std::string name = role ? nameOf(role) : ("result " + Twine(number)).str();
  return name + " of " +
         (phase ? train::stringifyPhase(phase.getValue()) : function.getName()).str();
}

/// Ops that take it, communicated or not, each with the value that it then takes. Fails where
/// another function does.
bool Counterparts::collectUsers(mlir::Value value,
                                SmallVectorImpl<std::pair<OpOperand *, mlir::Value>> &users) const {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (!passesValues(user)) {
      users.push_back({&use, value});
      continue;
    }
    unsigned number = use.getOperandNumber();
    if (number >= user->getNumResults() || !collectUsers(user->getResult(number), users))
      return false;
  }
  return true;
}

/// At least one; others may take something else that is wrong for the same reason. With `steps`,
/// also those that take what users then make, and so on.
bool Counterparts::haveUsers(Operation *op, unsigned number, unsigned steps) const {
  SmallVector<std::pair<OpOperand *, mlir::Value>> users;
  if (op->getNumResults() != 1 || !collectUsers(op->getResult(0), users))
    return false;
  bool hasOne = false;
  for (auto [use, taken] : users) {
    Operation *user = use->getOwner();
    if (user->hasTrait<OpTrait::IsTerminator>()) {
      auto returned = takenBy.find(
          nameOfReturned(user->getParentOfType<func::FuncOp>(), use->getOperandNumber()));
      if (returned == takenBy.end() || !llvm::is_contained(returned->second, number))
        return false;
      hasOne = true;
      continue;
    }
    SmallVector<unsigned> operands = numbersOfOperands(user, taken, number);
    if (number && llvm::is_contained(operands, 0u))
      continue;
    unsigned made = find(user, operands);
    if (!made || (steps && !haveUsers(user, made, steps - 1)))
      return false;
    hasOne = true;
  }
  return hasOne;
}

/// Whether what takes what the op communicates should take another value of LOCAL, which nothing
/// takes.
bool Counterparts::communicatesAnother(Operation *op) const {
  return !haveUsers(op, numbers.lookup(op->getResult(0))) && llvm::any_of(unused, [&](auto &entry) {
    return tensorOf(entry.second.getType()) && tensorOf(op->getOperand(0).getType()) &&
           haveUsers(op, entry.first, /*steps=*/1);
  });
}

/// Whether there is a value of GLOBAL for which all that take this one have counterparts, or those
/// that take what its only user makes.
bool Counterparts::isBrokenAt(mlir::Value value, unsigned steps) const {
  SmallVector<std::pair<OpOperand *, mlir::Value>> users;
  if (!value || !collectUsers(value, users) || users.empty())
    return false;
  auto [use, taken] = users.front();
  Operation *user = use->getOwner();
  std::string key =
      user->hasTrait<OpTrait::IsTerminator>()
          ? nameOfReturned(user->getParentOfType<func::FuncOp>(), use->getOperandNumber())
          : spell(user, numbersOfOperands(user, taken, 0), Detail::NoSizes);
  auto found = takenBy.find(key);
  if (found != takenBy.end())
    for (unsigned number : found->second)
      if (haveUsers(value.getDefiningOp(), number, /*steps=*/2))
        return true;
  return steps > 0 &&
         llvm::all_equal(
             llvm::map_range(users, [](auto &entry) { return entry.first->getOwner(); })) &&
         user->getNumResults() == 1 && isBrokenAt(user->getResult(0), steps - 1);
}

SmallVector<Operation *> Counterparts::findBroken(ArrayRef<Operation *> ops, unsigned steps) const {
  SmallVector<Operation *> broken;
  llvm::DenseSet<Operation *> explained;
  for (Operation *op : ops) {
    if (op->getNumResults() != 1 || explained.contains(op) ||
        llvm::is_contained(numbersOfOperands(op), 0u))
      continue;
    mlir::Value result = op->getResult(0);
    if (passesValues(op) ? !communicatesAnother(op)
                         : (has(op) && !isDivided(op)) ||
                               (!numbers.lookup(result) && !isBrokenAt(result, steps)))
      continue;
    broken.push_back(op);
    SmallVector<std::pair<OpOperand *, mlir::Value>> users;
    if (passesValues(op) && collectUsers(result, users)) {
      for (auto &entry : users)
        explained.insert(entry.first->getOwner());
      for (mlir::Value next = result; next && next.hasOneUse();) {
        Operation *user = *next.getUsers().begin();
        if (!passesValues(user))
          break;
        explained.insert(user);
        next = user->getNumResults() == 1 ? user->getResult(0) : mlir::Value();
      }
    }
  }
  return broken;
}

bool Counterparts::isOnlyChange(Operation *op) const {
  if (!passesValues(op) &&
      llvm::any_of(numbersOfOperands(op), [&](unsigned number) { return haveUsers(op, number); }))
    return false;
  llvm::SetVector<Operation *> behind;
  behind.insert(op);
  for (unsigned i = 0; i < behind.size(); ++i)
    behind.insert(behind[i]->user_begin(), behind[i]->user_end());
  auto function = op->getParentOfType<func::FuncOp>();
  return llvm::all_of(without, [&](Operation *other) {
    return behind.contains(other) || other->getParentOfType<func::FuncOp>() != function;
  });
}

Counterparts::Counterparts(ArrayRef<Part> global, ArrayRef<Part> local,
                           const llvm::DenseMap<mlir::Value, mlir::Value> &passed,
                           ArrayRef<Axis> axes, llvm::function_ref<mlir::Value(mlir::Value)> equal)
    : passed(passed), axes(axes) {
  for (const Part &part : global) {
    addArguments(part, /*isGlobal=*/true);
    Part function = part;
    for (Operation &op : function.function.front().without_terminator()) {
      SmallVector<unsigned> operands = numbersOfOperands(&op);
      unsigned first = findIn(&op, operands, Detail::All);
      if (!first) {
        first = last + 1;
        makers[first] = &op;
        last += std::max(1u, op.getNumResults());
        for (Detail detail : {Detail::All, Detail::NoSizes, Detail::NoNumbers})
          known[spell(&op, operands, detail)].push_back(first);
        for (unsigned operand : llvm::SmallDenseSet<unsigned>(operands.begin(), operands.end())) {
          SmallVector<unsigned> others(operands);
          llvm::replace(others, operand, 0u);
          takenBy[spell(&op, others, Detail::NoSizes)].push_back(operand);
        }
      }
      for (OpResult result : op.getResults())
        numbers[result] = first + result.getResultNumber();
    }
    for (OpOperand &returned : function.function.front().getTerminator()->getOpOperands())
      takenBy[nameOfReturned(function.function, returned.getOperandNumber())].push_back(
          numbers.lookup(returned.get()));
  }
  for (const Part &part : local) {
    addArguments(part, /*isGlobal=*/false);
    Part function = part;
    for (Operation &op : function.function.front().without_terminator()) {
      SmallVector<unsigned> operands = numbersOfOperands(&op);
      if (passesValues(&op)) {
        for (OpResult result : op.getResults())
          if (result.getResultNumber() < operands.size()) {
            numbers[result] = operands[result.getResultNumber()];
          }
        continue;
      }
      unsigned first = findInOrder(&op, operands);
      if (!first)
        without.insert(&op);
      // It goes on with what another number makes.
      if (!first && !llvm::is_contained(operands, 0u) &&
          (first = findIn(&op, operands, Detail::NoNumbers)) &&
          isDividedByRanks(&op, makers.lookup(first), axes)) {
        without.erase(&op);
        divided.insert(&op);
      }
      bool isEqual = op.getNumResults() > 0;
      for (OpResult result : op.getResults()) {
        unsigned &number = numbers[result];
        number = first ? first + result.getResultNumber() : 0;
        if (first)
          continue;
        mlir::Value other = equal(result);
        number = other ? numbers.lookup(other) : 0;
        isEqual &= number != 0;
      }
      if (!first && isEqual)
        without.erase(&op);
      for (OpResult result : op.getResults())
        if (unsigned number = numbers.lookup(result); number && result.use_empty())
          unused.push_back({number, result});
    }
  }
}
