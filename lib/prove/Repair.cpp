//===- Repair.cpp - a change of one op that makes wrong results right -------===//

#include "lib/prove/Repair.h"

#include "mlir/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Whether values of these types may stand for each other, however they lie.
static bool isAlike(Type a, Type b) {
  RankedTensorType one = tensorOf(a), other = tensorOf(b);
  return one && other && one.getShape() == other.getShape() &&
         one.getElementType() == other.getElementType();
}

static bool isBucket(Type type) {
  return isa<train::BucketType>(type);
}

Repair::Repair(Prover &prover, const Counterparts &counterparts, ArrayRef<func::FuncOp> global,
               ArrayRef<func::FuncOp> local, ArrayRef<mlir::Value> missing, IsFine isFine,
               std::chrono::steady_clock::time_point until)
    : prover(prover), terms(prover.terms), counterparts(counterparts), missing(missing),
      isFine(isFine), until(until) {
  llvm::SmallDenseSet<std::pair<StringAttr, Attribute>> seen;
  auto addFunction = [&](Operation *op) {
    if (op->getNumOperands() == 1 && op->getNumResults() == 1 && op->getNumRegions() == 0 &&
        tensorOf(op->getOperand(0).getType()) && tensorOf(op->getResult(0).getType()) &&
        seen.insert({op->getName().getIdentifier(), op->getAttrDictionary()}).second)
      functions.push_back(op);
  };
  for (func::FuncOp function : local)
    for (Operation &op : function.front().without_terminator()) {
      places[&op] = order.size();
      order.push_back(&op);
      addFunction(&op);
    }
  for (func::FuncOp function : global)
    for (Operation &op : function.front().without_terminator()) {
      addFunction(&op);
      for (NamedAttribute attribute : op.getAttrs())
        if (auto number = dyn_cast<FloatAttr>(attribute.getValue()))
          numbers.insert(number.getValueAsDouble());
    }
  for (auto [argument, source] : prover.passed)
    takers[source].push_back(argument);
}

const Tensor &Repair::valueOf(mlir::Value value) const {
  return prover.localValues.find(value)->second;
}

std::vector<Tensor> Repair::evaluate(Operation *op, ArrayRef<const Tensor *> operands) {
  std::string unknown;
  --left;
  return prover.localEvaluator->evaluate(op, operands, unknown);
}

/// What the op makes if the operand is `value`, or what all users of the operand make.
std::optional<Repair::Changed> Repair::withOperand(Operation *op, unsigned operand,
                                                   const Tensor &value, bool isForAll) {
  Changed changed;
  mlir::Value given = op->getOperand(operand);
  SmallVector<Operation *> users(1, op);
  if (isForAll)
    users.assign(given.user_begin(), given.user_end());
  for (Operation *user : users) {
    if (!places.contains(user) || llvm::any_of(user->getOperandTypes(), isBucket))
      return std::nullopt;
    SmallVector<const Tensor *> operands;
    for (auto [i, other] : llvm::enumerate(user->getOperands()))
      operands.push_back((isForAll ? other == given : i == operand) ? &value : &valueOf(other));
    if (isOver())
      return std::nullopt;
    std::vector<Tensor> made = evaluateOn(user, operands);
    if (made.empty())
      return std::nullopt;
    for (auto [result, tensor] : llvm::zip(user->getResults(), made))
      changed[result] = std::move(tensor);
  }
  return changed;
}

/// Whether all results that are asked about are right if these values are what they are here.
bool Repair::makesRight(Changed &changed) {
  std::set<unsigned> pending;
  unsigned numRight = 0;
  auto follow = [&](mlir::Value value) {
    SmallVector<mlir::Value> all(1, value);
    if (auto found = takers.find(value); found != takers.end())
      llvm::append_range(all, found->second);
    for (mlir::Value own : all)
      for (Operation *user : own.getUsers())
        if (auto place = places.find(user); place != places.end())
          pending.insert(place->second);
    auto results = asked.find(value);
    if (results == asked.end())
      return true;
    for (auto [result, isWrong] : results->second) {
      Tensor tensor = changed[value];
      if (!hasShape(tensor, tensorOf(value.getType()).getShape(), terms.variables))
        return false;
      std::string why;
      std::optional<Tensor> wanted = prover.expect(*result, tensor, why);
      if (!wanted || !areEqual(terms, tensor, *wanted))
        return false;
      numRight += isWrong;
    }
    return true;
  };
  SmallVector<mlir::Value> first;
  for (auto &entry : changed)
    first.push_back(entry.first);
  for (mlir::Value value : first)
    if (!follow(value))
      return false;
  for (mlir::Value value : first)
    if (Operation *maker = value.getDefiningOp())
      pending.erase(places.lookup(maker));
  while (!pending.empty()) {
    Operation *next = order[*pending.begin()];
    pending.erase(pending.begin());
    if (isOver() || llvm::any_of(next->getOperandTypes(), isBucket))
      return false;
    SmallVector<const Tensor *> operands;
    for (mlir::Value operand : next->getOperands()) {
      auto source = prover.passed.find(operand);
      auto found = changed.find(source == prover.passed.end() ? operand : source->second);
      operands.push_back(found == changed.end() ? &valueOf(operand) : &found->second);
    }
    std::vector<Tensor> made = evaluateOn(next, operands);
    if (made.empty() && next->getNumResults() > 0)
      return false;
    for (auto [result, tensor] : llvm::zip(next->getResults(), made))
      changed[result] = std::move(tensor);
    for (mlir::Value result : next->getResults())
      if (!follow(result))
        return false;
  }
  return numRight == numWrong;
}

/// How many more values are then not GLOBAL's.
int Repair::numUnlike(const Changed &changed) const {
  int more = 0;
  for (const auto &[value, tensor] : changed)
    if (tensorOf(value.getType()))
      more += int(!isFine(value, &tensor)) - int(!isFine(value, nullptr));
  return more;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

/// What the op makes if it is changed, where it then is an op.
std::optional<Repair::Changed> Repair::evaluateOther(Operation *op,
                                                     llvm::function_ref<void(Operation *)> change) {
  if (isOver())
    return std::nullopt;
  SmallVector<const Tensor *> operands;
  for (mlir::Value operand : op->getOperands())
    operands.push_back(&valueOf(operand));
  Changed changed;
  for (auto [result, tensor] : llvm::zip(op->getResults(), evaluateOn(op, operands, change)))
    changed[result] = tensor;
  return changed.empty() ? std::nullopt : std::optional(std::move(changed));
}

/// Whether a change is one of this round: by how many ops more or less have counterparts.
bool Repair::mayGain(bool hadCounterpart, bool hasCounterpart) const {
  return isByValues || int(hasCounterpart) - int(hadCounterpart) == wantedGain;
}
bool Repair::mayGain(Operation *op, unsigned operand, unsigned number) const {
  SmallVector<unsigned> numbers;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    numbers.push_back(i == operand ? number : counterparts.numberOfOperand(op, i));
  // Communication has one where what takes it has.
  if (op->getName().getDialectNamespace() == "dist")
    return mayGain(counterparts.haveUsers(op, counterparts.numberOfOperand(op, operand)),
                   counterparts.haveUsers(op, number));
  return mayGain(counterparts.has(op), counterparts.find(op, numbers));
}

/// Without the op, of other values, and with other attributes.
bool Repair::tryOwn(Operation *op, Use use) {
  if (op->getNumResults() == 1)
    for (mlir::Value operand : op->getOperands()) {
      if (!tensorOf(operand.getType()) || !tensorOf(op->getResult(0).getType()) ||
          (isByValues && !isAlike(operand.getType(), op->getResult(0).getType())))
        continue;
      unsigned number = counterparts.numberOf(operand);
      if (!mayGain(counterparts.has(op), counterparts.haveUsers(op, number)))
        continue;
      Changed changed;
      changed[op->getResult(0)] = valueOf(operand);
      if (use(std::move(changed), Kind::Without, "without it"))
        return true;
    }
  if (isByValues)
    return tryOperands(op, true, use) || tryOperands(op, false, use) || tryAttributes(op, use);
  return tryOperands(op, /*areAlike=*/true, use) || tryAttributes(op, use) ||
         tryCommunication(op, /*isSum=*/true, use);
}

/// Of values that are made before it, of the shape of the operand or of another one.
bool Repair::tryOperands(Operation *op, bool areAlike, Use use) {
  constexpr unsigned kTried = 48;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned numTried = 0, number = operand.getOperandNumber();
    auto tryValue = [&](mlir::Value value, const Twine &what) {
      RankedTensorType type = tensorOf(value.getType());
      if (value == operand.get() || !type || !tensorOf(operand.get().getType()) ||
          type.getElementType() != tensorOf(operand.get().getType()).getElementType() ||
          areAlike != (type.getShape() == tensorOf(operand.get().getType()).getShape()) ||
          !mayGain(op, number, counterparts.numberOf(value)) || ++numTried > kTried)
        return false;
      auto changed = withOperand(op, number, valueOf(value), false);
      return changed &&
             use(std::move(*changed), Kind::Operand, what + " as operand " + Twine(number));
    };
    for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode())
      for (mlir::Value value : before->getResults())
        if (tryValue(value, "with what '" + before->getName().getStringRef() + "' makes"))
          return true;
    for (BlockArgument argument : op->getBlock()->getArguments())
      if (tryValue(argument, "with argument " + Twine(argument.getArgNumber())))
        return true;
  }
  return false;
}

/// Other values of an attribute that stand near, or for another dimension, axis or reduction.
bool Repair::tryAttributes(Operation *op, Use use) {
  Builder builder(op->getContext());
  SmallVector<unsigned> numbersOfOperands;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    numbersOfOperands.push_back(counterparts.numberOfOperand(op, i));
  bool isCommunication = op->getName().getDialectNamespace() == "dist";
  auto tryAll = [&](ArrayRef<NamedAttribute> attributes, const Twine &text) {
    bool mayBe = isCommunication && mayGain(true, true);
    auto change = [&](Operation *other) {
      for (NamedAttribute attribute : attributes)
        other->setAttr(attribute.getName(), attribute.getValue());
    };
    if (!isCommunication) {
      Operation *other = op->clone();
      change(other);
      mayBe = mayGain(counterparts.has(op), counterparts.find(other, numbersOfOperands));
      other->erase();
    }
    if (!mayBe)
      return false;
    auto changed = evaluateOther(op, change);
    return changed && use(std::move(*changed), Kind::Attribute, text);
  };
  auto shift = [&](StringRef name, int64_t by) -> std::optional<NamedAttribute> {
    auto given = op->getAttrOfType<IntegerAttr>(name);
    if (!given)
      return std::nullopt;
    return builder.getNamedAttr(name, IntegerAttr::get(given.getType(), given.getInt() + by));
  };
  for (int64_t by : {1, -1, 2, -2}) {
    auto start = shift("start", by), end = shift("end", by);
    if (start && end && tryAll({*start, *end}, llvm::formatv("shifted by {0}", by).str()))
      return true;
  }
  for (NamedAttribute attribute : op->getAttrs()) {
    StringRef name = attribute.getName();
    auto tryOne = [&](Attribute value) {
      std::string text;
      llvm::raw_string_ostream os(text);
      os << "with " << name << " = ";
      value.print(os, /*elideType=*/true);
      return value != attribute.getValue() && tryAll(builder.getNamedAttr(name, value), text);
    };
    if (auto number = dyn_cast<IntegerAttr>(attribute.getValue())) {
      if (!number.getType().isSignlessInteger(64) && !number.getType().isSignedInteger(64))
        continue;
      int64_t value = number.getInt();
      // Of what is twice or half too large, too.
      std::set<int64_t> others{0, 1, 2, value - 1, value + 1, value / 2, value * 2};
      for (int64_t other : others)
        if (tryOne(IntegerAttr::get(number.getType(), other)))
          return true;
    } else if (auto number = dyn_cast<FloatAttr>(attribute.getValue())) {
      // By so many ranks or elements more or less, or what one device has.
      std::set<double> counts{2.0}, others = numbers;
      for (const Axis &axis : prover.axes)
        counts.insert(double(axis.size));
      for (double count : counts)
        for (double other : {number.getValueAsDouble() * count, number.getValueAsDouble() / count})
          others.insert(other);
      for (mlir::Value operand : op->getOperands())
        if (Operation *maker = operand.getDefiningOp())
          for (Type type : maker->getOperandTypes())
            if (RankedTensorType tensor = tensorOf(type))
              for (int64_t size : tensor.getShape())
                for (double count : counts) {
                  others.insert(1.0 / double(size));
                  others.insert(1.0 / (double(size) * count));
                }
      for (double other : others)
        if (tryOne(FloatAttr::get(number.getType(), other)))
          return true;
    } else if (auto reduction = dyn_cast<dist::ReductionAttr>(attribute.getValue())) {
      for (dist::Reduction kind :
           {dist::Reduction::Sum, dist::Reduction::Avg, dist::Reduction::Max})
        if (tryOne(dist::ReductionAttr::get(op->getContext(), kind)))
          return true;
    } else if (auto dims = dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
               dims && name.starts_with("dim")) {
      RankedTensorType type =
          op->getNumOperands() ? tensorOf(op->getOperand(0).getType()) : RankedTensorType();
      for (unsigned i = 0; type && i < dims.size(); ++i)
        for (int64_t dim = 0; dim < type.getRank(); ++dim) {
          SmallVector<int64_t> others(dims.asArrayRef());
          others[i] = dim;
          if (tryOne(builder.getDenseI64ArrayAttr(others)))
            return true;
        }
    } else if (auto axes = dyn_cast<ArrayAttr>(attribute.getValue()); axes && name == "axes") {
      for (const Axis &axis : prover.axes) {
        // Over this one alone, over it as well, and without it.
        SmallVector<Attribute> others, less;
        Attribute own = builder.getStringAttr(axis.name);
        for (Attribute other : axes)
          if (other != own)
            less.push_back(other);
        others.assign(axes.begin(), axes.end());
        if (less.size() == axes.size())
          others.push_back(own);
        for (ArrayRef<Attribute> list :
             {ArrayRef<Attribute>(own), ArrayRef<Attribute>(others), ArrayRef<Attribute>(less)})
          if (!list.empty() && tryOne(builder.getArrayAttr(list)))
            return true;
      }
      if (axes.size() == 2 && tryOne(builder.getArrayAttr({axes[1], axes[0]})))
        return true;
      for (unsigned i = 0; i < axes.size(); ++i)
        for (const Axis &axis : prover.axes) {
          SmallVector<Attribute> others(axes.getValue());
          others[i] = builder.getStringAttr(axis.name);
          if (tryOne(builder.getArrayAttr(others)))
            return true;
        }
    }
  }
  return false;
}

/// A value of GLOBAL as this type has it: each dimension that is smaller is cut over axes.
std::vector<Tensor> Repair::partsOf(mlir::Value value, RankedTensorType type) {
  RankedTensorType whole = tensorOf(value.getType());
  if (whole.getElementType() != type.getElementType() || whole.getRank() != type.getRank())
    return {};
  std::vector<Tensor> parts(1, prover.globalValues.find(value)->second);
  parts.front().rows.reset();
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    int64_t size = type.getDimSize(dim), ratio = size ? whole.getDimSize(dim) / size : 0;
    if (size * ratio != whole.getDimSize(dim) || ratio == 0)
      return {};
    if (ratio == 1)
      continue;
    std::vector<Tensor> finer;
    auto cutOver = [&](ArrayRef<Axis> along) {
      for (const Tensor &part : parts)
        if (auto own = prover.localEvaluator->shard(part, dim, along))
          finer.push_back(std::move(*own));
    };
    for (const Axis &axis : prover.axes) {
      if (axis.size == ratio)
        cutOver(axis);
      for (const Axis &minor : prover.axes)
        if (&minor != &axis && axis.size > 1 && minor.size > 1 && axis.size * minor.size == ratio)
          cutOver({axis, minor});
    }
    parts = std::move(finer);
  }
  return parts;
}

/// Of operands after an op that either program has.
bool Repair::tryFunctions(Operation *op, Use use) {
  for (OpOperand &operand : op->getOpOperands()) {
    RankedTensorType type = tensorOf(operand.get().getType());
    if (!type)
      continue;
    unsigned number = operand.getOperandNumber();
    const Tensor &given = valueOf(operand.get());
    unsigned ofGiven = counterparts.numberOfOperand(op, number);
    for (Operation *function : functions) {
      RankedTensorType from = tensorOf(function->getOperand(0).getType());
      // Where ops are aligned, communication is tried in all ways, and apart.
      bool fits = isByValues
                      ? isAlike(from, type) && isAlike(function->getResult(0).getType(), type)
                      : from.getElementType() == type.getElementType() &&
                            function->getName().getDialectNamespace() != "dist";
      if (!fits || isOver() || !mayGain(op, number, counterparts.find(function, ofGiven)))
        continue;
      std::vector<Tensor> made = evaluateOn(function, &given);
      if (made.size() == 1 && tryValue(op, number, made.front(), Kind::Function,
                                       "with '" + function->getName().getStringRef() + "' of", use))
        return true;
    }
  }
  return false;
}

/// Of values of GLOBAL that LOCAL has not.
bool Repair::tryMissing(Operation *op, Use use) {
  for (OpOperand &operand : op->getOpOperands()) {
    RankedTensorType type = tensorOf(operand.get().getType());
    if (!type)
      continue;
    unsigned number = operand.getOperandNumber();
    constexpr unsigned kTried = 24;
    unsigned numTried = 0;
    for (mlir::Value value : missing) {
      if (!mayGain(op, number, counterparts.numberOf(value)))
        continue;
      std::vector<Tensor> parts = partsOf(value, type);
      if (!parts.empty() && ++numTried > kTried)
        break;
      for (Tensor &part : parts) {
        part.meaning = terms.normalize(std::move(part.meaning));
        Operation *maker = value.getDefiningOp();
        if (tryValue(op, number, part, Kind::Value,
                     "with what one device's '" + maker->getName().getStringRef() + "' makes as",
                     use))
          return true;
      }
    }
  }
  return false;
}

std::optional<Repair::Found> Repair::find(ArrayRef<Operation *> ops, ArrayRef<const Result *> wrong,
                                          ArrayRef<const Result *> right, Search search) {
  asked.clear();
  numWrong = wrong.size();
  for (const Result *result : wrong)
    asked[result->returned].push_back({result, true});
  for (const Result *result : right)
    asked[result->returned].push_back({result, false});
  std::optional<Found> found;
  int least = 0;
  isByValues = search == Search::ByValues;
  left = kEvaluated;
  // First what gives the op a counterpart, last what takes one. Any op behind what is wrong is
  // right with a value of one device.
  enum What : uint8_t { Own, Shapes, Functions, Communication, Values, Foreign };
  constexpr std::pair<int, What> aligned[] = {
      {1, Own},       {1, Shapes}, {1, Functions}, {0, Own},  {0, Shapes},     {0, Communication},
      {0, Functions}, {1, Values}, {0, Values},    {-1, Own}, {-1, Functions}, {-1, Values}};
  constexpr std::pair<int, What> byValues[] = {{0, Own}, {0, Foreign}};
  for (auto [gain, what] : isByValues ? ArrayRef(byValues) : ArrayRef(aligned)) {
    if (search == Search::Likely && gain < 1 && what != Own && what != Shapes)
      break;
    // In large programs values say more than what may be tried.
    if (!isByValues)
      left = gain > 0 ? 4 * kEvaluated : kEvaluated;
    wantedGain = gain;
    for (Operation *op : ops) {
      if (!places.contains(op) || llvm::any_of(op->getOperandTypes(), isBucket) ||
          llvm::any_of(op->getResultTypes(), isBucket))
        continue;
      auto use = [&](Changed changed, Kind kind, const Twine &change) {
        if (isOver() || !makesRight(changed))
          return false;
        int unlike = numUnlike(changed);
        // Of two equal ops, one after the other, the second is the one too many; and what ranks
        // have is communicated where it is smallest, and a sum taken when all terms are added.
        auto isBetter = [&] {
          bool isCommunicated = kind == Kind::Sum || kind == Kind::Communication;
          if (isCommunicated && kind == found->kind && unlike == least)
            return true;
          return std::pair(unlike, kind) < std::pair(least, found->kind) ||
                 (unlike == least && kind == found->kind && kind == Kind::Without &&
                  found->op->getName() == op->getName() &&
                  found->op->getAttrDictionary() == op->getAttrDictionary());
        };
        if (!found || isBetter()) {
          found = Found{op, change.str(), kind};
          least = unlike;
        }
        return true;
      };
      switch (what) {
      case Own:
        tryOwn(op, use);
        break;
      case Shapes:
        tryOperands(op, /*areAlike=*/false, use);
        break;
      case Functions:
        tryFunctions(op, use);
        break;
      case Communication:
        tryCommunication(op, /*isSum=*/false, use);
        break;
      case Values:
        tryMissing(op, use);
        break;
      case Foreign:
        if (!tryCommunication(op, /*isSum=*/true, use) && !tryFunctions(op, use))
          tryMissing(op, use);
        break;
      }
    }
    if (found)
      break;
  }
  return found;
}
