//===- LookUp.cpp - rows that indices name, and what is over classes --------===//
//
// A row of a table is the sum over all rows, each times whether the index names it. Where ranks
// have parts of the rows, they mark indices of others: where an index names a row, that is a
// condition on the row's place.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Loss.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/Softmax.h"
#include "lib/replay/Tensor.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;

static int64_t integerAt(Operation *op, StringRef name) {
  return op->getAttrOfType<IntegerAttr>(name).getInt();
}

/// The greatest over these digits: a maximum of maxima is one.
std::optional<Form> Ops::maximum(Form form, ArrayRef<Var> over) {
  Function function;
  function.key = "max";
  SmallVector<Var, 2> read = forms.renew(form, over);
  form = forms.normal(form);
  if (form.size() == 1 && form[0].factor == Rational(1) && form[0].bound.empty() &&
      form[0].guards.empty() && forms.get(form[0].value.term).kind == Term::Op &&
      forms.get(form[0].value.term).key == "max") {
    SmallVector<Var> inner;
    form = forms.operandsOf(form[0].value, &inner)[0];
    llvm::append_range(read, inner);
  }
  llvm::erase_if(read, [&](Var var) {
    return llvm::none_of(form, [&](const Summand &summand) { return mentions(summand, var); });
  });
  return read.empty() ? std::optional(form) : forms.apply(function, {form}, {read});
}

/// No bound of an interval.
static constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(),
                         kMost = std::numeric_limits<int64_t>::max();

void cleave::replay::noteMarks(Operation *op, Function &function) {
  auto isMark = [](Type type) { return tensorOf(type).getElementType().isInteger(1); };
  function.isAnyOf = isa<aten::LogicalOrOp>(op) && llvm::all_of(op->getOperandTypes(), isMark);
  bool fills = isa<aten::MaskedFillScalarOp>(op);
  auto number = op->getAttrOfType<IntegerAttr>(fills ? "value" : "other");
  if (!number || !number.getType().isSignlessInteger(64) ||
      !elementOf(op->getOperand(0)).isSignlessInteger(64))
    return;
  int64_t at = number.getInt();
  if (at > (int64_t(1) << 40) || at < -(int64_t(1) << 40))
    return;
  if (fills && isMark(op->getOperand(1).getType()))
    function.fills = at;
  else if (isa<aten::LtScalarOp>(op))
    function.marks = {kLeast, at};
  else if (isa<aten::GeScalarOp>(op))
    function.marks = {at, kMost};
  else if (isa<aten::EqScalarOp>(op))
    function.marks = {at, at + 1};
}

std::optional<Form> Ops::isZero(const Form &difference) {
  if (std::optional<Index> zero = forms.asPosition(difference))
    return forms.isWithin({*zero, 0, 1});
  Function function;
  function.key = "is zero";
  function.isIndicator = true;
  return forms.apply(function, {difference});
}

/// The value, which is 0 where the difference is not, where the mark does not hold. Nothing if that
/// is no condition on places where the difference is 0.
std::optional<Form> Ops::whereUnmarked(const Form &difference, const Form &mark,
                                       const Form &value) {
  auto op = forms.asOp(mark);
  if (!op)
    return std::nullopt;
  const auto &[function, operands] = *op;
  if (function.isAnyOf) {
    std::optional<Form> kept = value;
    for (const Form &operand : operands)
      kept = kept ? whereUnmarked(difference, operand, *kept) : kept;
    return kept;
  }
  for (int64_t sign : {1, -1})
    if (auto place = forms.asPosition(forms.add(operands[0], difference, Rational(sign)));
        place && function.marks)
      return forms.normal(
          forms.outside(value, {*place, function.marks->first, function.marks->second}));
  return std::nullopt;
}

/// Narrows where the value lies if the mark does not hold.
void Ops::limit(const Form &value, const Form &mark, Guard &isUnmarked) {
  auto op = forms.asOp(mark);
  if (!op)
    return;
  const auto &[function, operands] = *op;
  if (function.isAnyOf)
    for (const Form &operand : operands)
      limit(value, operand, isUnmarked);
  else if (function.marks && forms.areEqual(operands[0], value)) {
    auto [low, high] = *function.marks;
    if (low <= isUnmarked.low)
      isUnmarked.low = std::max(isUnmarked.low, high);
    else if (high >= isUnmarked.high)
      isUnmarked.high = std::min(isUnmarked.high, low);
  }
}

/// Whether the indices name row `place` of `rows`, but for those that are `filled`. Nothing where
/// they may name none: rows that one device looks up are there, by the statement.
std::optional<Form> Ops::names(const Form &indices, const Index &place, int64_t rows,
                               std::optional<Filled> &filled) {
  const Form position = forms.position(place), given = forms.normal(indices);
  if (auto op = forms.asOp(given); op && op->first.fills) {
    const auto &[function, operands] = *op;
    // What is not marked is a row.
    Guard isUnmarked{Index(), kLeast, kMost};
    limit(operands[0], operands[1], isUnmarked);
    Form difference = forms.add(operands[0], position, Rational(-1));
    std::optional<Form> named;
    if (isUnmarked.low >= 0 && isUnmarked.high <= rows)
      named = isZero(difference);
    if (named)
      named = whereUnmarked(difference, operands[1], *named);
    if (named) {
      filled = Filled{*function.fills, operands[1]};
      return named;
    }
  }
  std::optional<Index> known = forms.asPosition(given);
  auto [least, greatest] = known ? forms.rangeOf(*known) : std::pair<int64_t, int64_t>(0, rows);
  if (!known || least < 0 || greatest >= rows) {
    auto term = forms.asTerm(given, /*exact=*/true);
    if (!term)
      return std::nullopt;
    std::string lookUp = std::to_string(term->second.term) + " of " + std::to_string(rows);
    if (isGlobal)
      lookUps.insert(lookUp);
    else if (!lookUps.contains(lookUp))
      return std::nullopt;
  }
  return isZero(forms.add(given, position, Rational(-1)));
}

static constexpr StringRef kMarked = "marked";

/// Zero where the mark holds: of a sum of products with whether a row is named, or with whether the
/// same mark holds.
std::optional<Form> Ops::zeroWhereMarked(const Form &value, const Form &mark) {
  Form kept;
  for (const Summand &summand : value) {
    const Function *product = forms.functionOf(summand.value);
    if (!product || !product->isProduct)
      return std::nullopt;
    std::optional<Form> part;
    for (const Form &factor : forms.operandsOf(summand.value)) {
      auto op = forms.asOp(factor);
      if (!part && op && op->first.key == kMarked && forms.areEqual(op->second[0], mark))
        part = Form();
      else if (!part && op && op->first.isIndicator)
        part = whereUnmarked(op->second[0], mark, {summand});
    }
    if (!part)
      return std::nullopt;
    llvm::append_range(kept, *part);
  }
  return forms.normal(kept);
}

/// The value where a row is named.
std::optional<Form> Ops::whereNamed(const Form &named, const Form &value, Type element) {
  Form total;
  for (Summand part : named) {
    auto guards = std::move(part.guards);
    part.guards.clear();
    std::optional<Form> product = forms.apply(productOf(element), {Form{part}, value});
    if (!product)
      return std::nullopt;
    llvm::append_range(total, where(*product, guards));
  }
  return forms.normal(total);
}

bool Ops::lookUp(Operation *op, ArrayRef<Tensor> operands, std::vector<Tensor> &results) {
  auto take = [&](std::optional<Tensor> value) {
    if (value)
      results.push_back(std::move(*value));
    return value.has_value();
  };
  auto typeOf = [&](unsigned i) { return tensorOf(op->getOperand(i).getType()); };
  RankedTensorType type = typeOf(0);
  Type element = elementOf(op->getResult(0));
  bool fails = false;
  if (isa<aten::EmbeddingOp>(op))
    return take(byRule(op, sharding::getShardingRule(op), operands, 0,
                       [&](ArrayRef<Form> given, const Extent &extent) -> std::optional<Form> {
                         if (extent.read.size() != 1)
                           return std::nullopt;
                         std::optional<Filled> filled;
                         int64_t rows = type.getDimSize(0);
                         auto named = names(given[1], placeIn(extent.read[0]), rows, filled);
                         auto row = named ? whereNamed(*named, given[0], element) : std::nullopt;
                         if (!row)
                           return std::nullopt;
                         Form sum = forms.sum(*row, extent.read[0]);
                         if (!filled)
                           return sum;
                         if (filled->number < 0 || filled->number >= rows)
                           return std::nullopt;
                         Digits digits;
                         for (const Digit &digit : digitsOf(extent.read[0]))
                           digits[digit.var] = Index(filled->number / digit.stride % digit.size);
                         Form there = given[0];
                         replace(there, digits);
                         Function marked;
                         marked.key = kMarked;
                         auto mark = forms.apply(marked, {filled->mark});
                         auto other = mark ? whereNamed(*mark, forms.normal(there), element) : mark;
                         return other ? std::optional(forms.add(sum, *other)) : other;
                       }));
  if (isa<aten::MaskedFillScalarOp>(op)) {
    auto number = op->getAttrOfType<FloatAttr>("value");
    if (!number || !number.getValue().isZero() || !isInOneType(op, {{0}}) ||
        !elementOf(op->getOperand(1)).isInteger(1))
      return false;
    return take(byRule(
        op, sharding::getShardingRule(op), operands, 0,
        [&](ArrayRef<Form> given, const Extent &) { return zeroWhereMarked(given[0], given[1]); }));
  }
  if (isa<aten::AmaxOp>(op) && isa<FloatType>(element) && isInOneType(op)) {
    Tensor result;
    SmallVector<Var> over = splitDims(op, operands[0], result);
    std::optional<Form> greatest = maximum(operands[0].form, over);
    result.form = greatest.value_or(Form());
    return take(greatest ? std::optional(result) : std::nullopt);
  }
  if (isa<aten::EmbeddingDenseBackwardOp>(op)) {
    sharding::ShardingRule rule = sharding::getShardingRule(op);
    int64_t rows = integerAt(op, "num_weights"), padding = integerAt(op, "padding_idx");
    if (auto scales = op->getAttrOfType<BoolAttr>("scale_grad_by_freq");
        scales && scales.getValue())
      return false;
    return take(byRule(op, rule, operands, 0,
                       [&](ArrayRef<Form> given, const Extent &extent) -> std::optional<Form> {
                         if (extent.results.size() != 1)
                           return std::nullopt;
                         // What is marked must be what the kernel skips.
                         std::optional<Filled> filled;
                         auto named = names(given[1], extent.results[0], rows, filled);
                         if (!named || (filled && (filled->number != padding || padding >= rows)))
                           return std::nullopt;
                         Guard isPadding{extent.results[0], padding, padding + 1};
                         auto sum = whereNamed(forms.normal(forms.outside(*named, isPadding)),
                                               given[0], element);
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
                         return sum ? std::optional(forms.sum(*sum, tokens)) : sum;
                       }));
  }
  if (isa<aten::NllLossForwardOp, aten::NllLossBackwardOp>(op)) {
    bool isForward = isa<aten::NllLossForwardOp>(op);
    unsigned at = isForward ? 0 : 1;
    int64_t reduction = integerAt(op, "reduction");
    int64_t ignored = integerAt(op, "ignore_index");
    if (op->getNumOperands() != (isForward ? 2 : 4) || reduction == aten::noReduction)
      return false;
    Tensor self = operands[at], target = operands[at + 1];
    unsigned classes = self.dims.size() == 1 ? 0 : 1;
    Digits alike;
    if (classes == 1 && !cutAlike(self, 0, target, 0, alike))
      return false;
    replace(target.form, alike);
    Index place = placeIn(self.dims[classes]);
    std::optional<Filled> filled;
    auto named = names(target.form, place, typeOf(at).getDimSize(classes), filled);
    if (!named || (filled && filled->number != ignored))
      return false;
    named = forms.normal(forms.outside(*named, {place, ignored, ignored + 1}));
    Function quotient = functionOf("quotient", element);
    quotient.linear = {{0}};
    bool isMean = reduction == aten::meanReduction;
    SmallVector<Var> all;
    for (const auto &dim : self.dims)
      llvm::append_range(all, dim);
    if (isForward) {
      auto chosen = whereNamed(*named, self.form, element);
      if (!chosen)
        return false;
      Form weight = forms.sum(*named, all);
      Form total = forms.scale(forms.sum(*chosen, all), Rational(-1));
      if (isMean)
        total = forms.applyOr(fails, quotient, {total, weight});
      results.push_back({{}, std::move(total)});
      results.push_back({{}, std::move(weight)});
      return !fails;
    }
    Form gradient = operands[0].form;
    if (!operands[0].dims.empty())
      return false;
    if (isMean)
      gradient = forms.applyOr(fails, quotient, {gradient, operands[3].form});
    auto chosen = whereNamed(*named, gradient, element);
    self.form = forms.scale(chosen.value_or(Form()), Rational(-1));
    results.push_back(std::move(self));
    return chosen && !fails;
  }
  if (!isa<FloatType>(element) || type.getElementType() != element || type.getRank() == 0 ||
      !isa<aten::LogSoftmaxOp, aten::LogSoftmaxBackwardDataOp>(op))
    return false;
  int64_t dim = dimOf(op, type.getRank());
  Function exponential = functionOf("exp", element);
  Tensor value = operands[0];
  if (isa<aten::LogSoftmaxOp>(op)) {
    std::optional<Form> greatest = maximum(value.form, value.dims[dim]);
    if (!greatest)
      return false;
    Form centred = forms.add(value.form, *greatest, Rational(-1));
    Form exponentials = forms.applyOr(fails, exponential, {centred});
    Form sum = forms.sum(std::move(exponentials), value.dims[dim]);
    Form logarithm = forms.applyOr(fails, functionOf("log", element), {sum});
    value.form = forms.add(centred, logarithm, Rational(-1));
  } else {
    if (typeOf(1).getElementType() != element)
      return false;
    Tensor output = operands[1];
    if (!alignTo(value, output))
      return false;
    Form total = forms.sum(value.form, value.dims[dim]);
    Form share = forms.applyOr(fails, exponential, {output.form});
    value.form = forms.add(value.form, forms.applyOr(fails, productOf(element), {share, total}),
                           Rational(-1));
  }
  results.push_back(std::move(value));
  return !fails;
}
