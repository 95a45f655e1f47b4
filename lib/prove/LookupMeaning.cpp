//===- LookupMeaning.cpp - indices that are data, and what is over classes --===//
//
// A row of a table is the sum over all rows, each times whether the index names it. So a table, or
// classes, of which each rank holds a part, add up to the whole as any sum does. A rank marks what
// is not in its part: where the index names a row, that mark says only where the row is.
//
// A logarithm of a softmax is made of a maximum, exponentials and their sum, for the same reason.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Loss.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/Softmax.h"
#include "lib/prove/Evaluator.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

static std::optional<int64_t> integerAt(Operation *op, StringRef name) {
  auto number = op->getAttrOfType<IntegerAttr>(name);
  return number && !number.getType().isInteger(1) ? std::optional(number.getInt()) : std::nullopt;
}

static bool flagAt(Operation *op, StringRef name) {
  auto flag = op->getAttrOfType<BoolAttr>(name);
  return flag && flag.getValue();
}

Core cleave::prove::quotientOf(Type element) {
  Core core;
  llvm::raw_string_ostream(core.key) << "quotient " << element;
  core.tag = Core::Tag::Quotient;
  core.linear = {{0}};
  return core;
}

Core cleave::prove::functionOf(StringRef name, Type element) {
  Core core;
  llvm::raw_string_ostream(core.key) << name << ' ' << element;
  core.tag = llvm::StringSwitch<Core::Tag>(name)
                 .Case("exp", Core::Tag::Exp)
                 .Case("log", Core::Tag::Log)
                 .Default(Core::Tag::None);
  return core;
}

//===----------------------------------------------------------------------===//
// Which row an index names
//===----------------------------------------------------------------------===//

/// `named` with nothing where `place`, which lies between these, is `number`.
static Meaning exceptAt(Terms &terms, const Meaning &named, const Index &place, int64_t number,
                        int64_t least, int64_t end) {
  if (number < least || number >= end)
    return named;
  Meaning kept;
  for (const Summand &summand : named)
    for (auto [low, high] : {std::pair(least, number), {number + 1, end}}) {
      if (low == high)
        continue;
      Summand part = summand;
      part.guards.push_back({place, low, high});
      kept.push_back(std::move(part));
    }
  return terms.normalize(std::move(kept));
}

/// 1 where `difference` is 0, else 0.
Meaning Evaluator::isZero(const Meaning &difference) {
  if (std::optional<Index> place = terms.asPosition(difference)) {
    Meaning one = terms.number(Rational(1));
    one[0].guards.push_back({*place, 0, 1});
    return terms.normalize(std::move(one));
  }
  Core core;
  core.key = "is zero";
  core.tag = Core::Tag::IsZero;
  return terms.apply(core, difference, {}, {}, {});
}

const Term *Evaluator::asOp(const Meaning &meaning) const {
  if (meaning.size() != 1 || meaning[0].coefficient != Rational(1) || !meaning[0].bound.empty() ||
      !meaning[0].guards.empty())
    return nullptr;
  const Term &term = terms.get(meaning[0].reference.term);
  return term.kind == Term::Kind::Op && term.readSizes.empty() ? &term : nullptr;
}

/// The number that `meaning` is where `difference` is 0, if that is a place.
std::optional<Index> Evaluator::placeWhere(const Meaning &difference, const Meaning &meaning) {
  for (int64_t sign : {1, -1})
    if (std::optional<Index> place =
            terms.asPosition(terms.add(meaning, terms.scale(difference, Rational(sign)))))
      return place;
  return std::nullopt;
}

/// `meaning` where the mark does not hold, at places where `difference` is 0: then that is a
/// condition on places. Nothing if it cannot be said so.
std::optional<Meaning> Evaluator::whereUnmarked(const Meaning &difference, const Meaning &mark,
                                                const Meaning &meaning) {
  const Term *term = asOp(mark);
  if (!term)
    return std::nullopt;
  Core core = term->core;
  std::vector<Meaning> operands = terms.getOperands(mark[0].reference);
  switch (core.tag) {
  case Core::Tag::Or: {
    Meaning kept = meaning;
    for (const Meaning &operand : operands) {
      std::optional<Meaning> some = whereUnmarked(difference, operand, kept);
      if (!some)
        return std::nullopt;
      kept = std::move(*some);
    }
    return kept;
  }
  case Core::Tag::Less:
  case Core::Tag::AtLeast:
  case Core::Tag::Equal: {
    std::optional<Index> place = placeWhere(difference, operands[0]);
    if (!place)
      return std::nullopt;
    if (terms.breaks(Lemma::MarkSaysWhere))
      return meaning;
    if (core.tag == Core::Tag::Equal) {
      auto [least, greatest] = terms.variables.getRange(*place);
      return exceptAt(terms, meaning, *place, core.number, least, greatest + 1);
    }
    Meaning kept = meaning;
    for (Summand &summand : kept)
      summand.guards.push_back(core.tag == Core::Tag::Less ? Guard{*place, core.number, kFar}
                                                           : Guard{*place, -kFar, core.number});
    return terms.normalize(std::move(kept));
  }
  default:
    return std::nullopt;
  }
}

/// Narrows `low` and `high` to what `meaning` may be where the mark does not hold.
void Evaluator::limit(const Meaning &meaning, const Meaning &mark, int64_t &low, int64_t &high) {
  const Term *term = asOp(mark);
  if (!term)
    return;
  Core core = term->core;
  std::vector<Meaning> operands = terms.getOperands(mark[0].reference);
  if (core.tag == Core::Tag::Or) {
    for (const Meaning &operand : operands)
      limit(meaning, operand, low, high);
  } else if (core.tag == Core::Tag::Less && terms.areEqual(operands[0], meaning)) {
    low = std::max(low, core.number);
  } else if (core.tag == Core::Tag::AtLeast && terms.areEqual(operands[0], meaning)) {
    high = std::min(high, core.number);
  }
}

/// Whether `indices` name row `place` of `rows`: a sum of cases. What is marked is `filled` with a
/// number of its own. Nothing if rows that do not exist may be named, which the program of one
/// device does not name either.
std::optional<Meaning> Evaluator::names(const Meaning &indices, const Index &place, int64_t rows,
                                        std::optional<Filled> &filled) {
  Meaning position = terms.position(place);
  auto differenceTo = [&](const Meaning &meaning) {
    return terms.add(meaning, terms.scale(position, Rational(-1)));
  };
  const Term *term = asOp(indices);
  if (term && term->core.tag == Core::Tag::Fill) {
    int64_t number = term->core.number;
    std::vector<Meaning> operands = terms.getOperands(indices[0].reference);
    Meaning difference = differenceTo(operands[0]);
    // What is not marked is a row.
    int64_t low = -1, high = rows + 1;
    limit(operands[0], operands[1], low, high);
    bool isRow = (low >= 0 && high <= rows) || terms.breaks(Lemma::MarkLimits);
    std::optional<Meaning> cases;
    if (isRow)
      cases = whereUnmarked(difference, operands[1], isZero(difference));
    if (cases) {
      filled = Filled{number, operands[1]};
      return cases;
    }
  }
  if (std::optional<Index> known = terms.asPosition(indices)) {
    auto [least, greatest] = terms.variables.getRange(*known);
    if ((least >= 0 && greatest < rows) || terms.breaks(Lemma::KnownPlace))
      return isZero(differenceTo(indices));
  }
  std::string lookUp = terms.identify(indices) + " of " + std::to_string(rows);
  if (isFirst)
    lookUps.insert(lookUp);
  else if (!lookUps.contains(lookUp) && !terms.breaks(Lemma::SameLookUp))
    return std::nullopt;
  return isZero(differenceTo(indices));
}

/// `value` where a row is named. Conditions on places stay outside of the product: a slice of the
/// rows may fulfil them.
Meaning Evaluator::whereNamed(const Meaning &named, const Meaning &value, Type element) {
  Meaning total;
  for (Summand part : named) {
    SmallVector<Guard, 1> guards = std::move(part.guards);
    part.guards.clear();
    Meaning product =
        terms.apply(productOf(element), {Meaning{std::move(part)}, value}, {}, {}, {});
    for (Summand &summand : product) {
      if (!terms.breaks(Lemma::RowNamed))
        llvm::append_range(summand.guards, guards);
      total.push_back(std::move(summand));
    }
  }
  return terms.normalize(std::move(total));
}

std::optional<Tensor> Evaluator::lookUp(Operation *op, ArrayRef<const Tensor *> operands) {
  sharding::ShardingRule rule = sharding::getShardingRule(op);
  Type element = tensorOf(op->getResult(0).getType()).getElementType();
  if (op->getNumOperands() != 2)
    return std::nullopt;
  std::optional<Factors> factors = cutOperands(op, rule, operands);
  if (!factors)
    return std::nullopt;
  bool fails = false;
  std::optional<Tensor> result;
  if (isa<aten::EmbeddingOp>(op)) {
    int64_t rows = tensorOf(op->getOperand(0).getType()).getDimSize(0);
    result = build(op, rule, *factors, 0, [&](ArrayRef<Meaning> meanings, const Extent &extent) {
      if (extent.read.size() != 1) {
        fails = true;
        return Meaning();
      }
      ArrayRef<Var> digits = extent.read[0];
      std::optional<Filled> filled;
      std::optional<Meaning> named =
          names(meanings[1], placeIn(digits, terms.variables), rows, filled);
      fails = !named || (filled && (filled->number < 0 || filled->number >= rows));
      if (fails)
        return Meaning();
      Meaning sum = terms.sum(whereNamed(*named, meanings[0], element), digits);
      if (filled && !terms.breaks(Lemma::FilledRow)) {
        Substitution row;
        for (const Digit &digit : digitsOf(digits, terms.variables))
          row[digit.var] = Index(filled->number / digit.stride % digit.size);
        Meaning taken = meanings[0];
        substitute(taken, row);
        Core mark;
        mark.key = "marked";
        mark.tag = Core::Tag::Marked;
        Meaning marked = terms.apply(mark, filled->mark, {}, {}, {});
        sum =
            terms.add(std::move(sum), terms.apply(productOf(element), {marked, taken}, {}, {}, {}));
      }
      return sum;
    });
  } else {
    int64_t rows = *integerAt(op, "num_weights"), padding = *integerAt(op, "padding_idx");
    if (flagAt(op, "scale_grad_by_freq"))
      return std::nullopt;
    result = build(op, rule, *factors, 0, [&](ArrayRef<Meaning> meanings, const Extent &extent) {
      if (extent.results.size() != 1) {
        fails = true;
        return Meaning();
      }
      Index place = extent.results[0];
      std::optional<Filled> filled;
      std::optional<Meaning> named = names(meanings[1], place, rows, filled);
      // What is marked must be what the kernel skips.
      fails = !named || (filled && (filled->number != padding || padding >= rows));
      if (fails)
        return Meaning();
      Meaning kept = terms.breaks(Lemma::PaddingRow)
                         ? *named
                         : exceptAt(terms, *named, place, padding, 0, rows);
      Meaning sum = whereNamed(std::move(kept), meanings[0], element);
      // Tokens that the rule does not cut are summed as well.
      SmallVector<Var> tokens;
      unsigned group = 0;
      for (auto [i, factor] : llvm::enumerate(rule.factors)) {
        if (!isRead(factor))
          continue;
        if (sharding::ShardingRule::contains(rule.operands[0], i))
          llvm::append_range(tokens, extent.read[group]);
        ++group;
      }
      return terms.sum(std::move(sum), tokens);
    });
  }
  return fails ? std::nullopt : result;
}

/// `masked_fill(self, mask, 0)`: zero where marked.
std::optional<Tensor> Evaluator::zeroWhereMarked(Operation *op, ArrayRef<const Tensor *> operands) {
  return buildElements(op, operands, [&](ArrayRef<Meaning> meanings) -> std::optional<Meaning> {
    Meaning kept;
    for (const Summand &summand : meanings[0]) {
      // A product with what says which row is named, or that the row is one that was marked.
      bool isKept = false, isGone = false;
      const Term &term = terms.get(summand.reference.term);
      if (term.kind == Term::Kind::Op && term.readSizes.empty())
        for (const Meaning &factor : terms.getOperands(summand.reference)) {
          const Term *inner = asOp(factor);
          if (!inner || isKept || isGone)
            continue;
          Core core = inner->core;
          Meaning operand = terms.getOperands(factor[0].reference)[0];
          if (core.tag == Core::Tag::Marked &&
              (terms.areEqual(operand, meanings[1]) || terms.breaks(Lemma::ZeroWhereMarked))) {
            isGone = true;
          } else if (core.tag == Core::Tag::IsZero) {
            std::optional<Meaning> part = whereUnmarked(operand, meanings[1], Meaning{summand});
            isKept = part.has_value();
            if (part)
              llvm::append_range(kept, std::move(*part));
          }
        }
      if (!isKept && !isGone)
        return std::nullopt;
    }
    return terms.normalize(std::move(kept));
  });
}

//===----------------------------------------------------------------------===//
// Negative log likelihood
//===----------------------------------------------------------------------===//

bool Evaluator::logLikelihood(Operation *op, ArrayRef<const Tensor *> operands,
                              std::vector<Tensor> &results) {
  bool isForward = isa<aten::NllLossForwardOp, aten::NllLoss2dForwardOp>(op);
  // Without weights of classes.
  if (op->getNumOperands() != (isForward ? 2 : 4))
    return false;
  unsigned selfAt = isForward ? 0 : 1, targetAt = selfAt + 1;
  RankedTensorType type = tensorOf(op->getOperand(selfAt).getType());
  Type element = type.getElementType();
  int64_t reduction = *integerAt(op, "reduction"), ignored = *integerAt(op, "ignore_index");
  unsigned classes = type.getRank() == 1 ? 0 : 1;
  int64_t numClasses = type.getDimSize(classes);
  if (reduction == aten::noReduction)
    return false;

  Tensor self = *operands[selfAt], target = *operands[targetAt];
  Substitution alike;
  for (unsigned dim = 0, at = 0; dim < self.dims.size(); ++dim) {
    if (dim == classes)
      continue;
    if (!cutAlike(terms, self, dim, target, at, alike))
      return false;
    ++at;
  }
  substitute(target.meaning, alike);
  Index place = placeIn(self.dims[classes], terms.variables);
  std::optional<Filled> filled;
  std::optional<Meaning> named = names(target.meaning, place, numClasses, filled);
  if (!named || (filled && filled->number != ignored))
    return false;
  if (!terms.breaks(Lemma::IgnoredClass))
    named = exceptAt(terms, *named, place, ignored, 0, numClasses);

  SmallVector<Var> all;
  for (const auto &dim : self.dims)
    llvm::append_range(all, dim);
  if (isForward) {
    Meaning weight = terms.sum(*named, all);
    Meaning total =
        terms.scale(terms.sum(whereNamed(*named, self.meaning, element), all), Rational(-1));
    if (reduction == aten::meanReduction && !terms.breaks(Lemma::TargetsMean))
      total = terms.apply(quotientOf(element), {total, weight}, {}, {}, {});
    results.push_back({{}, terms.normalize(std::move(total))});
    results.push_back({{}, std::move(weight)});
    return true;
  }
  Meaning gradient = operands[0]->meaning;
  if (!operands[0]->dims.empty())
    return false;
  if (reduction == aten::meanReduction && !terms.breaks(Lemma::TargetsGradient))
    gradient = terms.apply(quotientOf(element), {gradient, operands[3]->meaning}, {}, {}, {});
  self.meaning = terms.scale(whereNamed(*named, gradient, element), Rational(-1));
  results.push_back(std::move(self));
  return true;
}

//===----------------------------------------------------------------------===//
// Maxima, and logarithms of softmax
//===----------------------------------------------------------------------===//

/// The greatest over these digits; a maximum of maxima is one.
Meaning Evaluator::maximum(Meaning meaning, ArrayRef<Var> over) {
  Core core;
  core.key = "max";
  core.tag = Core::Tag::Max;
  SmallVector<Var, 2> read = rename(terms, meaning, over);
  if (meaning.size() == 1 && meaning[0].coefficient == Rational(1) && meaning[0].bound.empty() &&
      meaning[0].guards.empty()) {
    const Term &term = terms.get(meaning[0].reference.term);
    if (term.kind == Term::Kind::Op && term.core.tag == Core::Tag::Max &&
        !terms.breaks(Lemma::MaxOfMax)) {
      SmallVector<Var> inner;
      std::vector<Meaning> operands = terms.getOperands(meaning[0].reference, &inner);
      meaning = std::move(operands[0]);
      llvm::append_range(read, inner);
    }
  }
  // A digit that nothing depends on does not matter.
  llvm::erase_if(read, [&](Var var) { return !terms.mentions(meaning, var); });
  if (read.empty())
    return meaning;
  return terms.apply(core, meaning, {read}, {}, {});
}

std::optional<Tensor> Evaluator::overClasses(Operation *op, ArrayRef<const Tensor *> operands) {
  RankedTensorType type = tensorOf(op->getOperand(0).getType());
  Type element = type.getElementType();
  if (!isa<FloatType>(element) || type.getRank() == 0 ||
      tensorOf(op->getResult(0).getType()).getElementType() != element)
    return std::nullopt;
  Tensor value = *operands[0];
  if (isa<aten::AmaxOp>(op)) {
    Tensor result;
    SmallVector<Var> over = splitDims(op, value, result);
    result.meaning = maximum(value.meaning, over);
    return result;
  }
  int64_t dim = *integerAt(op, "dim");
  dim += dim < 0 ? type.getRank() : 0;
  Fractions fractions = fractionsOf(element);
  bool isForward = isa<aten::LogSoftmaxOp, aten::SoftmaxOp>(op);
  bool isLogarithm = isa<aten::LogSoftmaxOp, aten::LogSoftmaxBackwardDataOp>(op);
  if (isForward) {
    ArrayRef<Var> over = value.dims[dim];
    Meaning centred =
        terms.add(value.meaning, terms.scale(maximum(value.meaning, over), Rational(-1)));
    Meaning exponentials = fractions.exponential(centred);
    Meaning total = terms.sum(exponentials, over);
    if (isLogarithm) {
      Rational share(terms.breaks(Lemma::LogSoftmax) ? 0 : -1);
      value.meaning = terms.add(std::move(centred), terms.scale(fractions.logarithm(total), share));
    } else {
      value.meaning = terms.breaks(Lemma::Softmax) ? std::move(exponentials)
                                                   : fractions.quotient(exponentials, total);
    }
    return value;
  }
  if (tensorOf(op->getOperand(1).getType()).getElementType() != element)
    return std::nullopt;
  // Of its gradient: what it takes off is the sum of all gradients, by the classes' shares.
  Tensor output = *operands[1];
  Substitution alike;
  for (unsigned i = 0; i < value.dims.size(); ++i)
    if (!cutAlike(terms, value, i, output, i, alike))
      return std::nullopt;
  substitute(output.meaning, alike);
  Meaning own = value.meaning, shares = output.meaning;
  if (isLogarithm)
    shares = fractions.exponential(output.meaning);
  else
    own = fractions.product(value.meaning, output.meaning);
  Meaning taken = fractions.product(shares, terms.sum(own, value.dims[dim]));
  Lemma lemma = isLogarithm ? Lemma::LogSoftmaxGradient : Lemma::SoftmaxGradient;
  value.meaning =
      terms.add(std::move(own), terms.scale(taken, Rational(terms.breaks(lemma) ? 0 : -1)));
  return value;
}

bool Evaluator::evaluateLookUp(Operation *op, ArrayRef<const Tensor *> operands,
                               std::vector<Tensor> &results) {
  auto take = [&](std::optional<Tensor> value) { return append(std::move(value), results); };
  if (isa<aten::EmbeddingOp, aten::EmbeddingDenseBackwardOp>(op))
    return take(lookUp(op, operands));
  if (isa<aten::IndexAddOp, aten::IndexPutOp>(op))
    return take(addRows(op, operands));
  if (isa<aten::MaskedFillScalarOp>(op)) {
    auto value = op->getAttrOfType<FloatAttr>("value");
    return (terms.takesShares() && take(fillByPlace(op, operands))) ||
           (value && value.getValue().isZero() && take(zeroWhereMarked(op, operands)));
  }
  if (isa<aten::NllLossForwardOp, aten::NllLoss2dForwardOp, aten::NllLossBackwardOp,
          aten::NllLoss2dBackwardOp>(op)) {
    bool isKnown = logLikelihood(op, operands, results);
    if (isKnown)
      for (Tensor &result : results)
        coarsen(terms, result);
    return isKnown;
  }
  if (isa<aten::EqScalarOp>(op))
    return terms.takesShares() && take(isLimit(op, *operands[0]));
  if (isa<aten::IndexSelectOp>(op))
    return take(selectByPlace(op, operands));
  if (isa<aten::AmaxOp, aten::LogSoftmaxOp, aten::LogSoftmaxBackwardDataOp>(op) ||
      (terms.takesShares() && isa<aten::SoftmaxOp, aten::SoftmaxBackwardDataOp>(op)))
    return take(overClasses(op, operands));
  return false;
}
