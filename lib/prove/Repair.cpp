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

Repair::Repair(Prover &prover, ArrayRef<func::FuncOp> global, ArrayRef<func::FuncOp> local,
               ArrayRef<mlir::Value> missing, IsFine isFine,
               std::chrono::steady_clock::time_point until)
    : prover(prover), terms(prover.terms), missing(missing), isFine(isFine), until(until) {
  llvm::SmallDenseSet<std::pair<StringAttr, Attribute>> seen;
  auto addFunction = [&](Operation *op) {
    if (op->getNumOperands() == 1 && op->getNumResults() == 1 && op->getNumRegions() == 0 &&
        isAlike(op->getOperand(0).getType(), op->getResult(0).getType()) &&
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
    std::vector<Tensor> made = evaluate(user, operands);
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
    std::vector<Tensor> made = evaluate(next, operands);
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

/// What the op makes if it is changed, where it then is an op of these types.
std::optional<Repair::Changed> Repair::evaluateOther(Operation *op,
                                                     llvm::function_ref<void(Operation *)> change) {
  if (isOver())
    return std::nullopt;
  // Behind the op, so that it is in the module whose mesh it may name.
  OpBuilder behind(op->getContext());
  behind.setInsertionPointAfter(op);
  Operation *other = behind.clone(*op);
  change(other);
  std::vector<Tensor> made;
  {
    ScopedDiagnosticHandler silent(op->getContext(), [](Diagnostic &) { return success(); });
    if (succeeded(verify(other))) {
      SmallVector<const Tensor *> operands;
      for (mlir::Value operand : other->getOperands())
        operands.push_back(&valueOf(operand));
      made = evaluate(other, operands);
    }
  }
  other->erase();
  Changed changed;
  for (auto [result, tensor] : llvm::zip(op->getResults(), made))
    changed[result] = std::move(tensor);
  return changed.empty() ? std::nullopt : std::optional(std::move(changed));
}

/// Without the op, of other values, and with other attributes.
bool Repair::tryOwn(Operation *op, Use use) {
  if (op->getNumResults() == 1)
    for (mlir::Value operand : op->getOperands())
      if (isAlike(operand.getType(), op->getResult(0).getType())) {
        Changed changed;
        changed[op->getResult(0)] = valueOf(operand);
        if (use(std::move(changed), Kind::Without, "without it"))
          return true;
      }
  return tryOperands(op, use) || tryAttributes(op, use);
}

/// Of values that are made before it.
bool Repair::tryOperands(Operation *op, Use use) {
  constexpr unsigned kTried = 48;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned numTried = 0;
    auto tryValue = [&](mlir::Value value, const Twine &what) {
      RankedTensorType type = tensorOf(value.getType());
      if (value == operand.get() || !type || !tensorOf(operand.get().getType()) ||
          type.getElementType() != tensorOf(operand.get().getType()).getElementType() ||
          ++numTried > kTried)
        return false;
      unsigned number = operand.getOperandNumber();
      auto changed =
          isAlike(type, operand.get().getType())
              ? withOperand(op, number, valueOf(value), false)
              : evaluateOther(op, [&](Operation *other) { other->setOperand(number, value); });
      return changed && use(std::move(*changed), Kind::Operand,
                            what + " as operand " + Twine(operand.getOperandNumber()));
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
  auto tryAll = [&](ArrayRef<NamedAttribute> attributes, const Twine &text) {
    auto changed = evaluateOther(op, [&](Operation *other) {
      for (NamedAttribute attribute : attributes)
        other->setAttr(attribute.getName(), attribute.getValue());
    });
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
    } else if (auto axes = dyn_cast<ArrayAttr>(attribute.getValue()); axes && name == "axes") {
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

/// Of operands summed over ranks, or after an op that either program has, or of values of GLOBAL
/// that LOCAL has not.
bool Repair::tryForeign(Operation *op, Use use) {
  for (OpOperand &operand : op->getOpOperands()) {
    RankedTensorType type = tensorOf(operand.get().getType());
    if (!type)
      continue;
    unsigned number = operand.getOperandNumber();
    auto tryValue = [&](const Tensor &value, Kind kind, const Twine &what) {
      for (bool isForAll : {false, true}) {
        if (isForAll && operand.get().hasOneUse())
          break;
        auto changed = withOperand(op, number, value, isForAll);
        if (changed && use(std::move(*changed), kind, what + " operand " + Twine(number)))
          return true;
      }
      return false;
    };
    const Tensor &given = valueOf(operand.get());
    bool isReal = isa<FloatType>(type.getElementType());
    for (const Axis &axis : prover.axes) {
      if (!isReal || axis.size == 1)
        continue;
      Tensor total = given;
      total.meaning = terms.sum(std::move(total.meaning), axis.digits);
      total.rows.reset();
      if (tryValue(total, Kind::Sum, "with the sum over '" + axis.name + "' of"))
        return true;
    }
    for (Operation *function : functions) {
      if (!isAlike(function->getOperand(0).getType(), type) || isOver())
        continue;
      std::vector<Tensor> made = evaluate(function, &given);
      if (made.size() == 1 && tryValue(made.front(), Kind::Foreign,
                                       "with '" + function->getName().getStringRef() + "' of"))
        return true;
    }
    constexpr unsigned kTried = 24;
    unsigned numTried = 0;
    for (mlir::Value value : missing) {
      std::vector<Tensor> parts = partsOf(value, type);
      if (!parts.empty() && ++numTried > kTried)
        break;
      for (Tensor &part : parts) {
        part.meaning = terms.normalize(std::move(part.meaning));
        Operation *maker = value.getDefiningOp();
        if (tryValue(part, Kind::Foreign,
                     "with what one device's '" + maker->getName().getStringRef() + "' makes as"))
          return true;
      }
    }
  }
  return false;
}

std::optional<Repair::Found> Repair::find(ArrayRef<Operation *> ops, ArrayRef<const Result *> wrong,
                                          ArrayRef<const Result *> right) {
  asked.clear();
  numWrong = wrong.size();
  for (const Result *result : wrong)
    asked[result->returned].push_back({result, true});
  for (const Result *result : right)
    asked[result->returned].push_back({result, false});
  std::optional<Found> found;
  int least = 0;
  for (bool isForeign : {false, true}) {
    for (Operation *op : ops) {
      if (!places.contains(op) || llvm::any_of(op->getOperandTypes(), isBucket) ||
          llvm::any_of(op->getResultTypes(), isBucket))
        continue;
      auto use = [&](Changed changed, Kind kind, const Twine &change) {
        if (isOver() || !makesRight(changed))
          return false;
        int unlike = numUnlike(changed);
        // Of two equal ops, one after the other, the second is the one too many; and a sum is taken
        // when all terms are added.
        auto isLater = [&] {
          return kind == found->kind &&
                 (kind == Kind::Sum ||
                  (kind == Kind::Without && found->op->getName() == op->getName() &&
                   found->op->getAttrDictionary() == op->getAttrDictionary()));
        };
        if (!found || std::pair(unlike, kind) < std::pair(least, found->kind) ||
            (unlike == least && isLater())) {
          found = Found{op, change.str(), kind};
          least = unlike;
        }
        return true;
      };
      isForeign ? tryForeign(op, use) : tryOwn(op, use);
    }
    if (found)
      break;
  }
  return found;
}
