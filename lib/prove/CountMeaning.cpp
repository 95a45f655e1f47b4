//===- CountMeaning.cpp - integers that count rows, or say where they are ---===//
//
// How many rows have a key is the sum, over all rows, of whether theirs is that key. Sums of such
// counts are what ends of groups and numbers of rows are made of: they are joined, cut, taken at
// places and converted between types that hold them exactly.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Ordering.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

static bool isInteger(Type type) {
  return type.isSignlessInteger(64) || type.isSignlessInteger(32);
}

static std::optional<int64_t> integerAt(Operation *op, StringRef name) {
  auto number = op->getAttrOfType<IntegerAttr>(name);
  return number && !number.getType().isInteger(1) ? std::optional(number.getInt()) : std::nullopt;
}

void cleave::prove::tag(Operation *op, Core &core) {
  RankedTensorType type = op->getNumOperands() ? tensorOf(op->getOperand(0).getType()) : nullptr;
  // Of conditions both are the same.
  if (isa<aten::LogicalOrOp>(op) ||
      (isa<aten::BitwiseOrOp>(op) && type && type.getElementType().isInteger(1))) {
    core.tag = Core::Tag::Or;
    return;
  }
  if (isa<aten::ToCopyOp>(op) && type && type.getElementType().isInteger(1) &&
      isInteger(tensorOf(op->getResult(0).getType()).getElementType())) {
    core.tag = Core::Tag::AsNumber;
    return;
  }
  if (!type || !isa<IntegerType>(type.getElementType()) || type.getElementType().isInteger(1))
    return;
  bool fills = isa<aten::MaskedFillScalarOp>(op);
  std::optional<int64_t> number = integerAt(op, fills ? "value" : "other");
  if (!number)
    return;
  core.number = *number;
  if (fills)
    core.tag = Core::Tag::Fill;
  else if (isa<aten::LtScalarOp>(op))
    core.tag = Core::Tag::Less;
  else if (isa<aten::GeScalarOp>(op))
    core.tag = Core::Tag::AtLeast;
  else if (isa<aten::EqScalarOp>(op))
    core.tag = Core::Tag::Equal;
}

void cleave::prove::tagOfRows(Operation *op, unsigned result, Core &core) {
  auto isWhole = [&](unsigned operand) {
    return isInteger(tensorOf(op->getOperand(operand).getType()).getElementType());
  };
  // The index of a greatest element along a dimension, or of one of the greatest.
  bool isPlace = isa<aten::ArgmaxOp>(op) ? op->hasAttr("dim")
                                         : isa<aten::TopkOp, aten::MaxDimOp>(op) && result == 1;
  if (isPlace) {
    ArrayRef<int64_t> shape = tensorOf(op->getOperand(0).getType()).getShape();
    int64_t dim = integerAt(op, "dim").value_or(-1);
    core.tag = Core::Tag::Choice;
    core.number = shape.empty() ? 1 : shape[dim < 0 ? dim + shape.size() : dim];
  } else if (isa<aten::FloorDivideScalarOp, aten::RemainderScalarOp>(op) && isWhole(0)) {
    if (std::optional<int64_t> by = integerAt(op, "other"); by && *by > 0) {
      core.tag = isa<aten::RemainderScalarOp>(op) ? Core::Tag::Rest : Core::Tag::Divided;
      core.number = *by;
    }
  } else if (isa<aten::GatherOp>(op) && isWhole(0)) {
    core.tag = Core::Tag::Taken;
  } else if (isa<aten::GeOp>(op) && isWhole(0) && isWhole(1)) {
    core.tag = Core::Tag::AtLeastOther;
  } else if (isa<aten::ClampOp>(op) && isWhole(0)) {
    std::optional<int64_t> least = integerAt(op, "min"), greatest = integerAt(op, "max");
    if (least == 0 && greatest && *greatest > 0) {
      core.tag = Core::Tag::Clamped;
      core.number = *greatest;
    }
  }
}

//===----------------------------------------------------------------------===//
// How large integers may be
//===----------------------------------------------------------------------===//

/// What no integer that the meaning may be is greater than, or less than the negative of; nothing
/// if it is not known to be an integer.
std::optional<int64_t> Evaluator::boundOf(const Meaning &meaning) {
  int64_t total = 0;
  for (const Summand &summand : meaning) {
    if (summand.coefficient.den != 1)
      return std::nullopt;
    Meaning plain(1);
    plain[0].reference = summand.reference;
    const Term &term = terms.get(summand.reference.term);
    double bound = 0;
    if (std::optional<Index> place = terms.asPosition(plain)) {
      auto [least, greatest] = terms.variables.getRange(*place);
      bound = double(std::max(std::abs(least), std::abs(greatest)));
    } else if (term.core.tag == Core::Tag::IsZero ||
               (term.core.tag == Core::Tag::AsNumber && !terms.breaks(Lemma::MarkCounts))) {
      bound = 1;
    } else if (term.core.tag == Core::Tag::Choice || term.core.tag == Core::Tag::Clamped) {
      bound = double(term.core.number);
    } else {
      return std::nullopt;
    }
    // Of the numbers that a key may be it is one.
    int64_t once = 1;
    if (term.core.tag == Core::Tag::IsZero && term.operands.size() == 1) {
      Meaning difference = terms.getOperands(summand.reference)[0];
      for (Var var : summand.bound) {
        unsigned uses = 0;
        bool isPlace = false;
        for (const Summand &part : difference) {
          Meaning own(1);
          own[0].reference = part.reference;
          bool mentions = terms.mentions({part}, var);
          uses += mentions;
          isPlace |= mentions && part.bound.empty() && part.guards.empty() && terms.asPosition(own);
        }
        if (uses == 1 && isPlace)
          once = std::max(once, terms.variables.getSize(var));
      }
    }
    for (Var var : summand.bound)
      bound *= double(terms.variables.getSize(var));
    bound = bound / double(once) * std::abs(double(int64_t(summand.coefficient.num)));
    if (bound > double(kFar))
      return std::nullopt;
    total += int64_t(bound);
    if (total > kFar)
      return std::nullopt;
  }
  return total;
}

/// From 0 to this number, exclusive, if that is known.
std::optional<int64_t> Evaluator::choicesOf(const Meaning &meaning) {
  const Term *term = nullptr;
  if (meaning.size() == 1 && meaning[0].coefficient == Rational(1) && meaning[0].bound.empty() &&
      meaning[0].guards.empty())
    term = &terms.get(meaning[0].reference.term);
  if (!term)
    return std::nullopt;
  Core core = term->core;
  if (core.tag == Core::Tag::Choice)
    return core.number;
  if (core.tag != Core::Tag::Divided)
    return std::nullopt;
  std::optional<int64_t> divided = choicesOf(terms.getOperands(meaning[0].reference)[0]);
  return divided ? std::optional((*divided + core.number - 1) / core.number) : std::nullopt;
}

/// The greatest integer up to which the type has all.
static int64_t exactIn(Type type) {
  if (type.isSignlessInteger(64))
    return kFar;
  if (type.isSignlessInteger(32))
    return (int64_t(1) << 31) - 1;
  if (type.isF64())
    return kFar;
  return type.isF32() ? int64_t(1) << 24 : 0;
}

//===----------------------------------------------------------------------===//
// Counts
//===----------------------------------------------------------------------===//

/// How many rows have `number` of `numbers` as their key. Nothing if a key may be another one.
std::optional<Meaning> Evaluator::countEach(const Meaning &keys, ArrayRef<Var> rows,
                                            const Index &number, int64_t numbers) {
  std::optional<int64_t> choices = choicesOf(keys);
  if (!choices || *choices > numbers)
    return std::nullopt;
  return terms.sum(isZero(terms.add(keys, terms.scale(terms.position(number), Rational(-1)))),
                   rows);
}

/// How many elements are each number, of those that count.
std::optional<Tensor> Evaluator::countKeys(Operation *op, const Tensor &keys,
                                           const std::optional<Meaning> &counting) {
  Type element = tensorOf(op->getResult(0).getType()).getElementType();
  int64_t bins = 0;
  if (auto histc = dyn_cast<aten::HistcOp>(op)) {
    auto numberOr = [&](StringRef name) {
      auto scalar = op->getAttr(name);
      if (auto number = dyn_cast_or_null<FloatAttr>(scalar))
        return number.getValueAsDouble();
      auto number = dyn_cast_or_null<IntegerAttr>(scalar);
      return number ? double(number.getInt()) : 0;
    };
    bins = histc.getBins().value_or(100);
    if (numberOr("min") != 0 || numberOr("max") != double(bins) ||
        tensorOf(op->getOperand(0).getType()).getNumElements() > exactIn(element))
      return std::nullopt;
  } else {
    bins = cast<aten::BincountOp>(op).getMinlength().value_or(0);
    if (op->getNumOperands() != 1 || bins < 1 || keys.dims.size() != 1)
      return std::nullopt;
  }
  Var bin = terms.variables.make(bins);
  Index number = Index::of(bin) + Index(terms.breaks(Lemma::Counted) ? 1 : 0);
  SmallVector<Var> rows;
  for (const auto &dim : keys.dims)
    llvm::append_range(rows, dim);
  std::optional<Meaning> counts =
      countEach(keys.meaning, counting ? ArrayRef<Var>() : rows, number, bins);
  if (counts && counting)
    counts = terms.sum(terms.apply(productOf(element), {*counts, *counting}, {}, {}, {}), rows);
  return counts ? std::optional(Tensor{{{bin}}, std::move(*counts)}) : std::nullopt;
}

/// Counts side by side: each counts at its own places.
std::optional<Tensor> Evaluator::joinParts(Operation *op, ArrayRef<const Tensor *> operands) {
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  auto isCount = [&](const Tensor *value) {
    return llvm::any_of(value->meaning, [&](const Summand &summand) {
      Core::Tag tag = terms.get(summand.reference.term).core.tag;
      return tag == Core::Tag::IsZero || tag == Core::Tag::Clamped;
    });
  };
  int64_t dim = integerAt(op, "dim").value_or(0);
  dim += dim < 0 ? type.getRank() : 0;
  // Beside nothing anything is itself.
  auto isEmpty = [&](Type operand) {
    RankedTensorType from = tensorOf(operand);
    return from.getRank() != type.getRank() || from.getDimSize(dim) == 0;
  };
  if (llvm::none_of(operands, isCount) &&
      llvm::count_if(op->getOperandTypes(), isEmpty) + 1 != int64_t(operands.size()))
    return std::nullopt;
  Tensor result;
  Var place = terms.variables.make(type.getDimSize(dim));
  int64_t start = 0;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    RankedTensorType from = tensorOf(op->getOperand(i).getType());
    int64_t size = from.getRank() == type.getRank() ? from.getDimSize(dim) : 0;
    if (from.getElementType() != type.getElementType())
      return std::nullopt;
    if (size == 0)
      continue;
    Tensor part = *operand;
    coarsen(terms, part);
    if (part.dims[dim].size() > 1)
      return std::nullopt;
    Substitution change;
    if (!part.dims[dim].empty())
      change[part.dims[dim].front()] = Index::of(place) - Index(start);
    if (result.dims.empty()) {
      result.dims = part.dims;
    } else {
      for (unsigned other = 0; other < part.dims.size(); ++other)
        if (other != dim && !cutAlike(terms, result, other, part, other, change))
          return std::nullopt;
    }
    substitute(part.meaning, change);
    for (Summand &summand : part.meaning) {
      if (!terms.breaks(Lemma::PartsJoined))
        summand.guards.push_back({Index::of(place), start, start + size});
      result.meaning.push_back(std::move(summand));
    }
    start += size;
  }
  if (result.dims.empty() || start != type.getDimSize(dim))
    return std::nullopt;
  result.dims[dim] = {place};
  result.meaning = terms.normalize(std::move(result.meaning));
  return result;
}

/// What lies at the places that an index says.
std::optional<Tensor> Evaluator::takePlaces(Operation *op, const Tensor &value,
                                            const Tensor &index) {
  RankedTensorType from = tensorOf(op->getOperand(0).getType());
  int64_t dim = *integerAt(op, "dim");
  dim += dim < 0 ? from.getRank() : 0;
  std::optional<Index> place = terms.asPosition(index.meaning);
  if (from.getRank() == 0 || index.dims.size() != 1 || !place)
    return std::nullopt;
  std::optional<SmallVector<Index, 2>> digits =
      splitIndex(*place, value.dims[dim], terms.variables);
  if (!digits)
    return std::nullopt;
  if (terms.breaks(Lemma::TakenAtPlaces))
    digits->assign(digits->size(), Index());
  return takeAt(terms, value, dim, *digits, index.dims[0]);
}

/// The quotient, rounded down, of a place or of a row's number; or the rest.
std::optional<Tensor> Evaluator::divide(Tensor value, int64_t by, bool takesRest) {
  if (terms.asPosition(value.meaning)) {
    // Digits of which a part is more than the divisor are cut.
    for (bool changes = true; changes;) {
      changes = false;
      Index place = *terms.asPosition(value.meaning);
      for (const Index::Part &part : place.getParts()) {
        int64_t size = terms.variables.getSize(part.var);
        if (part.coefficient <= 0 || part.coefficient % by == 0 || by % part.coefficient ||
            part.coefficient * size <= by)
          continue;
        for (unsigned dim = 0; dim < value.dims.size() && !changes; ++dim)
          for (const Digit &digit : digitsOf(value.dims[dim], terms.variables))
            if (digit.var == part.var &&
                cut(terms, value, dim, {digit.stride * (by / part.coefficient)})) {
              changes = true;
              break;
            }
        if (changes)
          break;
      }
    }
    auto divided = divideIndex(*terms.asPosition(value.meaning), by, terms.variables);
    if (!divided)
      return std::nullopt;
    bool isSwapped = terms.breaks(Lemma::DividedPlace);
    value.meaning = terms.position(takesRest != isSwapped ? divided->second : divided->first);
    return value;
  }
  std::optional<RowNumbers> numbers = asNumbers(value.meaning);
  if (!numbers || numbers->room != by)
    return std::nullopt;
  value.meaning =
      takesRest ? numbers->place : terms.add(numbers->part, terms.position(numbers->before));
  return value;
}

bool Evaluator::evaluateCounts(Operation *op, ArrayRef<const Tensor *> operands,
                               std::vector<Tensor> &results) {
  RankedTensorType type = op->getNumResults() == 1 ? tensorOf(op->getResult(0).getType()) : nullptr;
  RankedTensorType from = op->getNumOperands() ? tensorOf(op->getOperand(0).getType()) : nullptr;
  if (!type || !from)
    return false;
  Type element = type.getElementType();
  auto take = [&](std::optional<Tensor> value) { return append(std::move(value), results); };
  if (isa<aten::ToCopyOp>(op)) {
    Type own = from.getElementType();
    bool isReal = isa<FloatType>(own) || isa<FloatType>(element);
    std::optional<int64_t> bound = boundOf(operands[0]->meaning);
    if (own.isInteger(1) || !bound || *bound > std::min(exactIn(own), exactIn(element)) ||
        terms.breaks(Lemma::CountConverted))
      return false;
    // Places, and marks, stay as they are: real numbers are made of them.
    if (isReal && llvm::any_of(operands[0]->meaning, [&](const Summand &summand) {
          Meaning plain(1);
          plain[0].reference = summand.reference;
          return terms.asPosition(plain).has_value() ||
                 terms.get(summand.reference.term).core.tag == Core::Tag::AsNumber;
        }))
      return false;
    return take(*operands[0]);
  }
  if (isa<aten::HistcOp, aten::BincountOp>(op))
    return take(countKeys(op, *operands[0], std::nullopt));
  if (!isInteger(element))
    return false;
  if (isa<aten::CumsumOp>(op)) {
    // A running sum in another type than that of the counts.
    int64_t dim = *integerAt(op, "dim");
    dim += dim < 0 ? type.getRank() : 0;
    if (from.getElementType() == element || !isInteger(from.getElementType()) ||
        from.getRank() == 0 || !boundOf(operands[0]->meaning))
      return false;
    Tensor sums = sumUpTo(*operands[0], dim);
    std::optional<int64_t> bound = boundOf(sums.meaning);
    return bound && *bound <= exactIn(element) && take(std::move(sums));
  }
  if (auto add = dyn_cast<aten::ScatterAddOp>(op)) {
    // How many keys are a number, or the sum of what they have.
    int64_t dim = add.getDim();
    dim += dim < 0 ? type.getRank() : 0;
    RankedTensorType source = tensorOf(op->getOperand(2).getType());
    RankedTensorType index = tensorOf(op->getOperand(1).getType());
    if (source.getElementType() != element || source.getShape() != index.getShape())
      return false;
    Tensor self = *operands[0], keys = *operands[1], added = *operands[2];
    Substitution keyDigits, addedDigits;
    for (unsigned i = 0; i < self.dims.size(); ++i)
      if (!cutAlike(terms, keys, i, added, i, addedDigits))
        return false;
    substitute(added.meaning, addedDigits);
    for (unsigned i = 0; i < self.dims.size(); ++i) {
      SmallVector<Var, 2> before = keys.dims[i];
      if (i != dim && (type.getDimSize(i) != index.getDimSize(i) ||
                       !cutAlike(terms, self, i, keys, i, keyDigits) || keys.dims[i] != before))
        return false;
    }
    substitute(added.meaning, keyDigits);
    substitute(keys.meaning, keyDigits);
    SmallVector<Var> rows;
    rows.append(keys.dims[dim].begin(), keys.dims[dim].end());
    Meaning place = terms.position(placeIn(self.dims[dim], terms.variables));
    Meaning named = isZero(terms.add(keys.meaning, terms.scale(place, Rational(-1))));
    Meaning total =
        terms.sum(terms.apply(productOf(element),
                              {terms.normalize(std::move(named)), added.meaning}, {}, {}, {}),
                  rows);
    self.meaning = terms.breaks(Lemma::Counted) ? total : terms.add(self.meaning, total);
    return take(std::move(self));
  }
  if (isa<aten::AddOp, aten::SubOp>(op)) {
    // Of counts in two types, in one that holds the result.
    Type other = tensorOf(op->getOperand(1).getType()).getElementType();
    if (!isInteger(from.getElementType()) || !isInteger(other) || op->hasAttr("alpha") ||
        from.getElementType() == other)
      return false;
    std::optional<Tensor> sum =
        buildElements(op, operands, [&](ArrayRef<Meaning> meanings) -> std::optional<Meaning> {
          Rational sign(isa<aten::SubOp>(op) ? -1 : 1);
          return terms.add(meanings[0], terms.scale(meanings[1], sign));
        });
    std::optional<int64_t> bound = sum ? boundOf(sum->meaning) : std::nullopt;
    return bound && *bound <= exactIn(element) && take(std::move(sum));
  }
  if (isa<aten::CatOp>(op))
    return take(joinParts(op, operands));
  if (isa<aten::IndexSelectOp>(op))
    return take(takePlaces(op, *operands[0], *operands[1]));
  if (isa<aten::FloorDivideScalarOp, aten::RemainderScalarOp>(op)) {
    std::optional<int64_t> by = integerAt(op, "other");
    return by && *by > 0 && from.getElementType() == element &&
           take(divide(*operands[0], *by, isa<aten::RemainderScalarOp>(op)));
  }
  if (isa<aten::WhereOp>(op)) {
    // A row's number is less than what all parts have room for.
    const Term *mark = asOp(operands[0]->meaning);
    if (!mark || mark->core.tag != Core::Tag::AtLeast ||
        tensorOf(op->getOperand(2).getType()) != type)
      return false;
    int64_t end = mark->core.number;
    std::optional<RowNumbers> numbers =
        asNumbers(terms.getOperands(operands[0]->meaning[0].reference)[0]);
    if (!numbers)
      return false;
    int64_t parts = numbers->places.countParts() + terms.variables.getRange(numbers->before).second;
    return numbers->room * parts <= end && take(*operands[2]);
  }
  return false;
}
