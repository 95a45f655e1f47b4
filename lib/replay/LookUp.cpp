//===- LookUp.cpp - rows that indices name, and what is over classes --------===//
//
// A row of a table is the sum over all rows, each times whether the index names it.
//
//===----------------------------------------------------------------------===//

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
  SmallVector<Var, 2> read;
  Digits fresh;
  for (Var var : over) {
    read.push_back(forms.make(forms.sizeOf(var)));
    fresh[var] = Index::of(read.back());
  }
  replace(form, fresh);
  form = forms.normal(form);
  if (form.size() == 1 && form[0].factor == Rational(1) && form[0].bound.empty() &&
      form[0].guards.empty() && forms.get(form[0].value.term).kind == Term::Op &&
      forms.get(form[0].value.term).key == "max") {
    SmallVector<Var> inner;
    form = forms.operandsOf(form[0].value, &inner)[0];
    llvm::append_range(read, inner);
  }
  llvm::erase_if(read, [&](Var var) {
    return llvm::none_of(form, [&](const Summand &summand) {
      auto depends = [&](const Index &index) { return index.at(var) != 0; };
      return llvm::any_of(summand.value.at, depends) ||
             llvm::any_of(summand.guards, [&](const Guard &g) { return depends(g.index); });
    });
  });
  return read.empty() ? std::optional(form) : forms.apply(function, {form}, {read});
}

/// Whether the indices name row `place` of `rows`. Nothing where they may name none: rows that one
/// device looks up are there, by the statement.
std::optional<Form> Ops::names(const Form &indices, const Index &place, int64_t rows) {
  Form difference = forms.add(indices, forms.position(place), Rational(-1));
  std::optional<Index> known = forms.asPosition(forms.normal(indices));
  auto [least, greatest] = known ? forms.rangeOf(*known) : std::pair<int64_t, int64_t>(0, rows);
  if (!known || least < 0 || greatest >= rows) {
    auto term = forms.asTerm(forms.normal(indices), /*exact=*/true);
    if (!term)
      return std::nullopt;
    std::string lookUp = std::to_string(term->second.term) + " of " + std::to_string(rows);
    if (isGlobal)
      lookUps.insert(lookUp);
    else if (!lookUps.contains(lookUp))
      return std::nullopt;
  }
  if (std::optional<Index> zero = forms.asPosition(difference)) {
    Form one = forms.number(Rational(1));
    one[0].guards.push_back({*zero, 0, 1});
    return forms.normal(one);
  }
  Function function;
  function.key = "is zero";
  function.isIndicator = true;
  return forms.apply(function, {difference});
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
    for (Summand &summand : *product) {
      llvm::append_range(summand.guards, guards);
      total.push_back(std::move(summand));
    }
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
  Type element = tensorOf(op->getResult(0).getType()).getElementType();
  bool fails = false;
  if (isa<aten::EmbeddingOp>(op))
    return take(byRule(op, sharding::getShardingRule(op), operands, 0,
                       [&](ArrayRef<Form> given, const Extent &extent) -> std::optional<Form> {
                         if (extent.read.size() != 1)
                           return std::nullopt;
                         auto named = names(given[1], placeIn(extent.read[0]), type.getDimSize(0));
                         auto row = named ? whereNamed(*named, given[0], element) : std::nullopt;
                         return row ? std::optional(forms.sum(*row, extent.read[0])) : row;
                       }));
  if (isa<aten::EmbeddingDenseBackwardOp>(op)) {
    sharding::ShardingRule rule = sharding::getShardingRule(op);
    int64_t rows = integerAt(op, "num_weights"), padding = integerAt(op, "padding_idx");
    if (auto scales = op->getAttrOfType<BoolAttr>("scale_grad_by_freq");
        scales && scales.getValue())
      return false;
    return take(byRule(
        op, rule, operands, 0,
        [&](ArrayRef<Form> given, const Extent &extent) -> std::optional<Form> {
          if (extent.results.size() != 1)
            return std::nullopt;
          auto named = names(given[1], extent.results[0], rows);
          Form kept;
          for (const Summand &summand : named.value_or(Form()))
            for (auto [low, high] :
                 {std::pair<int64_t, int64_t>(0, padding), {padding + 1, rows}}) {
              kept.push_back(summand);
              kept.back().guards.push_back({extent.results[0], std::max<int64_t>(low, 0), high});
            }
          auto sum = named ? whereNamed(forms.normal(kept), given[0], element) : std::nullopt;
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
    if (op->getNumOperands() != (isForward ? 2 : 4) || reduction == aten::noReduction ||
        integerAt(op, "ignore_index") >= 0)
      return false;
    Tensor self = operands[at], target = operands[at + 1];
    unsigned classes = self.dims.size() == 1 ? 0 : 1;
    Digits alike;
    if (classes == 1 && !cutAlike(self, 0, target, 0, alike))
      return false;
    replace(target.form, alike);
    auto named = names(target.form, placeIn(self.dims[classes]), typeOf(at).getDimSize(classes));
    if (!named)
      return false;
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
  int64_t dim = integerAt(op, "dim");
  dim += dim < 0 ? type.getRank() : 0;
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
    Digits alike;
    for (unsigned i = 0; i < value.dims.size(); ++i)
      if (!cutAlike(value, i, output, i, alike))
        return false;
    replace(output.form, alike);
    Form total = forms.sum(value.form, value.dims[dim]);
    Form share = forms.applyOr(fails, exponential, {output.form});
    value.form = forms.add(value.form, forms.applyOr(fails, productOf(element), {share, total}),
                           Rational(-1));
  }
  results.push_back(std::move(value));
  return !fails;
}
