//===- DistMeaning.cpp - what communication does to places ------------------===//
//
// A collective binds the digit of a rank's place, or makes it a digit of a dimension, or the other
// way round.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using dist::AxisPlacement;
using dist::Reduction;

const Axis *Evaluator::findAxis(StringRef name) const {
  const auto *found = llvm::find_if(axes, [&](const Axis &axis) { return axis.name == name; });
  return found == axes.end() ? nullptr : found;
}

std::optional<SmallVector<Axis>> Evaluator::findAxes(ArrayAttr names) const {
  SmallVector<Axis> found;
  for (auto name : names.getAsRange<StringAttr>()) {
    const Axis *axis = findAxis(name);
    if (!axis)
      return std::nullopt;
    found.push_back(*axis);
  }
  return found;
}

/// Whether one of them has any number of ranks.
static bool areOpen(ArrayRef<Axis> axes) {
  return llvm::any_of(axes, [](const Axis &axis) { return axis.isOpen(); });
}

static int64_t countRanks(ArrayRef<Axis> axes) {
  int64_t ranks = 1;
  for (const Axis &axis : axes)
    ranks *= axis.size;
  return ranks;
}

static SmallVector<Var> digitsOf(ArrayRef<Axis> axes) {
  SmallVector<Var> digits;
  for (const Axis &axis : axes)
    llvm::append_range(digits, axis.digits);
  return digits;
}

Tensor Evaluator::atPlaces(Tensor value, ArrayRef<Axis> along, ArrayRef<Var> places) {
  Substitution digits;
  for (auto [digit, place] : llvm::zip(::digitsOf(along), places))
    digits[digit] = Index::of(place);
  substitute(value.meaning, digits);
  return value;
}

std::optional<Tensor> Evaluator::reduce(const Tensor &value, dist::ReductionAttr reduction,
                                        ArrayRef<Axis> along) {
  Tensor result = value;
  SmallVector<Var> places = ::digitsOf(along);
  switch (reduction.getKind()) {
  case Reduction::Sum:
  case Reduction::Avg:
  case Reduction::PremulSum: {
    // What is infinite on one rank must not be taken off on another.
    if (Fractions fractions = fractionsOf({}); takesOff(value.meaning, terms, fractions))
      return std::nullopt;
    Rational factor(1);
    if (reduction.getKind() == Reduction::Avg && areOpen(along))
      terms.countOpen();
    if (reduction.getKind() == Reduction::Avg && !terms.breaks(Lemma::ReduceMean))
      factor = Rational(1) / Rational(countRanks(along));
    else if (reduction.getKind() == Reduction::PremulSum)
      factor = exactly(reduction.getFactor().getValueAsDouble());
    if (terms.breaks(Lemma::ReduceSum))
      return result;
    result.meaning = terms.scale(terms.sum(value.meaning, places), factor);
    return result;
  }
  case Reduction::Max:
    if (!terms.breaks(Lemma::ReduceMax))
      result.meaning = maximum(value.meaning, places);
    return result;
  default: {
    // Another function of the values of all ranks; of the same value on all of them, that value.
    bool isSame = llvm::all_of(value.meaning, [&](const Summand &summand) {
      auto isFree = [&](const Index &index) {
        return llvm::all_of(places, [&](Var var) { return index.getCoefficient(var) == 0; });
      };
      return llvm::all_of(summand.reference.indices, isFree) &&
             llvm::all_of(summand.guards, [&](const Guard &guard) { return isFree(guard.index); });
    });
    bool isIdempotent =
        reduction.getKind() == Reduction::Max || reduction.getKind() == Reduction::Min ||
        reduction.getKind() == Reduction::BitAnd || reduction.getKind() == Reduction::BitOr;
    if (isSame && (isIdempotent || terms.breaks(Lemma::ReduceSame)))
      return result;
    Core core;
    llvm::raw_string_ostream(core.key) << "reduce over ranks " << reduction;
    SmallVector<SmallVector<Var, 2>> read;
    SmallVector<Var> fresh;
    for (const Axis &axis : along) {
      auto &group = read.emplace_back();
      for (Var digit : axis.digits) {
        fresh.push_back(terms.variables.make(terms.variables.getSize(digit)));
        group.push_back(fresh.back());
      }
    }
    Tensor moved = atPlaces(value, along, fresh);
    result.meaning = terms.apply(core, moved.meaning, read, {}, {});
    return result;
  }
  }
}

std::optional<Tensor> Evaluator::gather(const Tensor &value, unsigned dim, ArrayRef<Axis> along) {
  SmallVector<Var> places;
  for (Var digit : ::digitsOf(along))
    places.push_back(terms.variables.make(terms.variables.getSize(digit)));
  Tensor result = atPlaces(value, along, places);
  auto &digits = result.dims[dim];
  digits.insert(terms.breaks(Lemma::Gather) ? digits.end() : digits.begin(), places.begin(),
                places.end());
  return result;
}

/// The dimension in one digit: a place has the major digits of the run in which it lies.
Tensor Evaluator::inOneDigit(const Tensor &value, unsigned dim) {
  Tensor result{value.dims, {}};
  Var place = terms.variables.make(sizeOf(value.dims[dim], terms.variables));
  result.dims[dim] = {place};
  SmallVector<Digit, 2> digits = digitsOf(value.dims[dim], terms.variables);
  for (Summand summand : value.meaning) {
    Index within = Index::of(place);
    Substitution own;
    for (const Digit &digit : ArrayRef(digits).drop_back()) {
      Var run = terms.variables.make(digit.size);
      own[digit.var] = terms.breaks(Lemma::OneDigit) ? Index() : Index::of(run);
      within = within - Index::of(run, digit.stride);
      summand.bound.push_back(run);
    }
    own[digits.back().var] = within;
    substitute(summand, own);
    summand.guards.push_back({within, 0, digits.back().size});
    result.meaning.push_back(std::move(summand));
  }
  result.meaning = terms.normalize(std::move(result.meaning));
  return result;
}

std::optional<Tensor> Evaluator::shard(const Tensor &value, unsigned dim, ArrayRef<Axis> along) {
  Tensor result = value;
  SmallVector<int64_t> strides;
  int64_t size = sizeOf(value.dims[dim], terms.variables);
  SmallVector<Var> places = ::digitsOf(along);
  for (Var place : places) {
    if (size % terms.variables.getSize(place))
      return std::nullopt;
    size /= terms.variables.getSize(place);
    strides.push_back(size);
  }
  if (!cut(terms, result, dim, strides)) {
    if (!terms.sumsByPart())
      return std::nullopt;
    // A part begins or ends within what a digit counts, as half of three projections does.
    result = inOneDigit(value, dim);
    if (!cut(terms, result, dim, strides))
      return std::nullopt;
  }
  // Each place as a number, digit by digit.
  Substitution digits;
  SmallVector<Var, 2> rest;
  for (const Digit &digit : digitsOf(result.dims[dim], terms.variables)) {
    if (digit.stride < size) {
      rest.push_back(digit.var);
      continue;
    }
    bool isFound = false;
    for (auto [place, stride] : llvm::zip(places, strides))
      if (digit.stride == stride && digit.size == terms.variables.getSize(place)) {
        digits[digit.var] = terms.breaks(Lemma::Shard) ? Index() : Index::of(place);
        isFound = true;
      }
    if (isFound)
      continue;
    // The value is cut inside of an axis's digit.
    int64_t end = size;
    for (const Axis &axis : llvm::reverse(along)) {
      if (digit.stride > end && digit.stride < end * axis.size && digit.stride % end == 0)
        missing[axis.name].insert(digit.stride / end);
      int64_t next = digit.stride * digit.size;
      if (next > end && next < end * axis.size && next % end == 0)
        missing[axis.name].insert(next / end);
      end *= axis.size;
    }
    return std::nullopt;
  }
  result.dims[dim].assign(rest.begin(), rest.end());
  substitute(result.meaning, digits);
  return result;
}

std::optional<Tensor> Evaluator::reduceMember(const Tensor &value, std::optional<ArrayAttr> summed,
                                              std::optional<ArrayAttr> scattered, unsigned dim) {
  SmallVector<Axis> all, parts;
  for (auto [names, isScattered] : {std::pair(summed, false), {scattered, true}}) {
    std::optional<SmallVector<Axis>> along = names ? findAxes(*names) : SmallVector<Axis>();
    if (!along)
      return std::nullopt;
    llvm::append_range(all, *along);
    if (isScattered)
      parts = *along;
    if (areOpen(parts))
      return std::nullopt;
  }
  Tensor result = value;
  result.meaning = terms.sum(std::move(result.meaning), ::digitsOf(all));
  if (!parts.empty()) {
    std::optional<Tensor> part = shard(result, dim, parts);
    if (!part)
      return std::nullopt;
    result = std::move(*part);
  }
  result.meaning = terms.normalize(std::move(result.meaning));
  coarsen(terms, result);
  return result;
}

std::optional<Tensor> Evaluator::convert(Operation *op, const Tensor &value) {
  auto convert = cast<dist::ConvertOp>(op);
  const Axis *axis = findAxis(convert.getAxis());
  if (!axis || axis->isOpen())
    return std::nullopt;
  AxisPlacement from = convert.getSource(), to = convert.getDestination();
  std::optional<int64_t> dim = convert.getSlicedDim();
  auto shapeOf = [](mlir::Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  if (to.isPartial()) {
    Tensor result = value;
    if (!dim) {
      // The first rank keeps it.
      if (!from.isSameOnAllRanks())
        return std::nullopt;
      for (Summand &summand : result.meaning)
        if (!terms.breaks(Lemma::FirstKeeps))
          summand.guards.push_back({axis->getPlace(terms.variables), 0, 1});
      return result;
    }
    if (shapeOf(op->getOperand(0))[*dim] * axis->size != shapeOf(op->getResult(0))[*dim])
      return std::nullopt;
    Var part = terms.variables.make(axis->size);
    result.dims[*dim].insert(result.dims[*dim].begin(), part);
    for (Summand &summand : result.meaning)
      summand.guards.push_back({Index::of(part) - axis->getPlace(terms.variables), 0, 1});
    return result;
  }
  if (dim) {
    if (shapeOf(op->getResult(0))[*dim] * axis->size != shapeOf(op->getOperand(0))[*dim])
      return std::nullopt;
    return shard(value, *dim, *axis);
  }
  return value;
}

std::optional<Tensor> Evaluator::shift(dist::ShiftOp op, const Tensor &value,
                                       ArrayRef<Axis> along) {
  if (along.size() != 1 || along[0].digits.size() != 1)
    return std::nullopt;
  int64_t size = along[0].size, by = op.getBy() * (terms.breaks(Lemma::Shift) ? -1 : 1);
  if (op.getWrap())
    by = ((by % size) + size) % size;
  Tensor result{value.dims, {}};
  Var digit = along[0].digits.front();
  Index place = Index::of(digit);
  // From the rank `by` places before, where there is one, and from the end of the circle.
  for (int64_t turn : {0, 1}) {
    if (turn && (!op.getWrap() || by == 0))
      continue;
    Index source = place + Index(turn * size - by);
    Meaning meaning = value.meaning;
    Substitution digits;
    digits[digit] = source;
    substitute(meaning, digits);
    for (Summand &summand : meaning) {
      summand.guards.push_back({source, 0, size});
      result.meaning.push_back(std::move(summand));
    }
  }
  return result;
}

bool Evaluator::evaluateDist(Operation *op, ArrayRef<const Tensor *> operands,
                             std::vector<Tensor> &results) {
  auto take = [&](std::optional<Tensor> value) {
    if (value)
      value->meaning = terms.normalize(std::move(value->meaning));
    return append(std::move(value), results);
  };
  std::optional<SmallVector<Axis>> along;
  if (auto names = op->getAttrOfType<ArrayAttr>("axes")) {
    along = findAxes(names);
    if (!along)
      return false;
    // Of any number of ranks only what all have together is known.
    if (areOpen(*along) && !isa<dist::AllReduceOp>(op))
      return false;
  }
  auto sizeAt = [&](mlir::Value value, int64_t dim) {
    return cast<RankedTensorType>(dist::valueTypeOf(value.getType())).getDimSize(dim);
  };
  // As many elements more or less as there are ranks: parts of one size.
  auto grows = [&](mlir::Value from, mlir::Value to, int64_t dim) {
    return sizeAt(from, dim) * countRanks(*along) == sizeAt(to, dim);
  };
  auto forEach = [&](auto evaluateOne) {
    for (auto [i, operand] : llvm::enumerate(operands))
      if (!take(evaluateOne(*operand, op->getOperand(i), op->getResult(i))))
        return false;
    return true;
  };
  auto sum = dist::ReductionAttr::get(op->getContext(), Reduction::Sum);

  if (isa<dist::ReinterpretOp, dist::FakeBroadcastOp, dist::WaitOp, dist::OffloadOp,
          dist::ReloadOp>(op)) {
    if (op->getNumOperands() != 1 || operands[0]->dims.size() > 64)
      return false;
    return take(*operands[0]);
  }
  if (isa<dist::ConvertOp>(op))
    return take(convert(op, *operands[0]));
  if (auto reduceOp = dyn_cast<dist::AllReduceOp>(op))
    return forEach([&](const Tensor &value, mlir::Value, mlir::Value) {
      return reduce(value, reduceOp.getReduction(), *along);
    });
  if (isa<dist::FakeReduceOp>(op))
    return take(reduce(*operands[0], sum, *along));
  if (isa<dist::AllGatherOp, dist::FakeGatherOp>(op)) {
    int64_t dim = op->getAttrOfType<IntegerAttr>("dim").getInt();
    return forEach(
        [&](const Tensor &value, mlir::Value from, mlir::Value to) -> std::optional<Tensor> {
          if (!grows(from, to, dim))
            return std::nullopt;
          return gather(value, dim, *along);
        });
  }
  if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    int64_t dim = op->getAttrOfType<IntegerAttr>("dim").getInt();
    return forEach(
        [&](const Tensor &value, mlir::Value from, mlir::Value to) -> std::optional<Tensor> {
          if (!grows(to, from, dim))
            return std::nullopt;
          std::optional<Tensor> reduced = reduce(value, scatter.getReduction(), *along);
          return reduced ? shard(*reduced, dim, *along) : std::nullopt;
        });
  }
  if (isa<dist::FakeScatterOp>(op)) {
    int64_t dim = op->getAttrOfType<IntegerAttr>("dim").getInt();
    if (!grows(op->getResult(0), op->getOperand(0), dim))
      return false;
    return take(shard(*operands[0], dim, *along));
  }
  if (isa<dist::AllToAllOp>(op)) {
    int64_t split = op->getAttrOfType<IntegerAttr>("split").getInt();
    int64_t concat = op->getAttrOfType<IntegerAttr>("concat").getInt();
    if (split == concat || !grows(op->getResult(0), op->getOperand(0), split) ||
        !grows(op->getOperand(0), op->getResult(0), concat))
      return false;
    // What all ranks have, put together; of which each takes a part.
    std::optional<Tensor> whole = gather(*operands[0], concat, *along);
    return take(whole ? shard(*whole, split, *along) : std::nullopt);
  }
  if (auto broadcast = dyn_cast<dist::BroadcastOp>(op)) {
    int64_t root = terms.breaks(Lemma::Broadcast) ? 0 : broadcast.getRoot();
    Tensor value = *operands[0];
    Substitution digits;
    SmallVector<Var> ranks = ::digitsOf(*along);
    for (Var digit : llvm::reverse(ranks)) {
      digits[digit] = Index(root % terms.variables.getSize(digit));
      root /= terms.variables.getSize(digit);
    }
    substitute(value.meaning, digits);
    return take(std::move(value));
  }
  if (auto shiftOp = dyn_cast<dist::ShiftOp>(op))
    return take(shift(shiftOp, *operands[0], *along));
  if (isa<dist::AxisIndexOp>(op)) {
    Index place;
    for (const Axis &axis : *along)
      place =
          place * (terms.breaks(Lemma::AxisIndex) ? 1 : axis.size) + axis.getPlace(terms.variables);
    return take(Tensor{{}, terms.position(place)});
  }
  return false;
}
