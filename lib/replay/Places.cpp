//===- Places.cpp - what depends on places, and values by case ---------------===//
//
// What lies at a place that an index says, what is put together of parts, running sums, and what a
// comparison of places chooses: sums of which each term counts where a condition on places holds.
// Two such sums are equal if they are so for each value of the digits of which conditions speak.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/replay/Tensor.h"

#include <set>

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;

const std::vector<bool> &Forms::conditionsOf(TermId id) {
  if (auto found = conditions.find(id); found != conditions.end())
    return found->second;
  const Term &term = terms[id];
  std::vector<bool> made(term.sizes.size());
  auto note = [&](const Index &index) {
    for (auto [var, factor] : index.parts)
      if (var < made.size())
        made[var] = true;
  };
  auto noteInner = [&](const Reference &value) {
    const std::vector<bool> inner = conditionsOf(value.term);
    for (size_t i = 0; i < inner.size(); ++i)
      if (inner[i])
        note(value.at[i]);
  };
  llvm::for_each(term.operands, noteInner);
  for (const Summand &summand : term.body) {
    for (const Guard &guard : summand.guards)
      note(guard.index);
    noteInner(summand.value);
  }
  return conditions[id] = std::move(made);
}

/// Each op's value as what the op makes of its operands there: of values that are taken at several
/// places it is one term.
Form Forms::makeAllAgain(const Form &form) {
  Form result;
  for (const Summand &summand : form) {
    std::optional<Form> made = makeAgain(summand.value);
    if (!made)
      result.push_back(summand);
    else
      for (Summand &part : *made)
        result.push_back(within(std::move(part), summand));
  }
  return normal(result);
}

/// More is not written out.
static constexpr int64_t kMost = 1 << 14;

/// Sums of these terms, value by value of their digits; nothing if they are too many.
std::optional<Form> Forms::writeOut(const Form &form, const llvm::DenseSet<TermId> &of) {
  Form all;
  for (const Summand &summand : form) {
    Form parts{summand};
    while (of.contains(summand.value.term) && !parts[0].bound.empty()) {
      Var var = parts[0].bound.back();
      if (sizes[var] > kMost || int64_t(parts.size()) * sizes[var] > kMost)
        return std::nullopt;
      for (Summand &part : parts)
        part.bound.pop_back();
      Form next;
      for (int64_t place = 0; place < sizes[var]; ++place) {
        Digits digits;
        digits[var] = Index(place);
        Form there = parts;
        replace(there, digits);
        llvm::append_range(next, there);
      }
      parts = std::move(next);
    }
    llvm::append_range(all, parts);
    if (int64_t(all.size()) > kMost)
      return std::nullopt;
  }
  return all;
}

/// A sum over a digit that a condition mentions is written out, and so are those of the same terms;
/// and what is left then are sums of the same terms over other digits.
bool Forms::isZeroByCase(const Form &form) {
  if (form.empty())
    return true;
  std::set<Var> given;
  llvm::DenseSet<TermId> limited;
  for (const Summand &summand : form) {
    auto see = [&](const Index &index) {
      for (auto [var, factor] : index.parts)
        if (llvm::is_contained(summand.bound, var))
          limited.insert(summand.value.term);
        else
          given.insert(var);
    };
    for (const Guard &guard : summand.guards)
      see(guard.index);
    const std::vector<bool> &inner = conditionsOf(summand.value.term);
    for (size_t i = 0; i < inner.size(); ++i)
      if (inner[i])
        see(summand.value.at[i]);
  }
  std::optional<Form> all = writeOut(form, limited);
  if (!all)
    return false;
  int64_t cases = 1, most = kMost / int64_t(all->size());
  for (Var var : given)
    if (sizes[var] > most || (cases *= sizes[var]) > most)
      return false;
  auto isZero = [&](Form there) {
    there = normal(there);
    if (!there.empty())
      there = makeAllAgain(there);
    llvm::DenseSet<TermId> left;
    for (const Summand &summand : there)
      left.insert(summand.value.term);
    std::optional<Form> parts = writeOut(there, left);
    return parts && normal(*parts).empty();
  };
  for (int64_t number = 0; number < cases; ++number) {
    Digits digits;
    int64_t rest = number;
    for (Var var : given) {
      digits[var] = Index(rest % sizes[var]);
      rest /= sizes[var];
    }
    Form there = *all;
    replace(there, digits);
    if (!isZero(std::move(there)))
      return false;
  }
  return true;
}

/// Where a condition on a rank's place alone holds, `build` makes another value than elsewhere.
std::optional<Form> Ops::byCase(ArrayRef<Form> given, MakeForm build) {
  for (const Axis &axis : axes)
    for (Var digit : axis.digits) {
      std::set<int64_t> bounds{0, forms.sizeOf(digit)};
      auto isOnDigit = [&](const Guard &guard) { return guard.index == Index::of(digit); };
      for (const Form &form : given)
        for (const Summand &summand : form)
          for (const Guard &guard : summand.guards)
            if (isOnDigit(guard))
              for (int64_t bound : {guard.low, guard.high})
                if (bound > 0 && bound < forms.sizeOf(digit))
                  bounds.insert(bound);
      if (bounds.size() == 2)
        continue;
      Form result;
      for (auto low = bounds.begin(), high = std::next(low); high != bounds.end(); ++low, ++high) {
        std::vector<Form> there(given.begin(), given.end());
        for (Form &form : there) {
          // An interval lies within the condition, or outside of it.
          llvm::erase_if(form, [&](const Summand &summand) {
            return llvm::any_of(summand.guards, [&](const Guard &guard) {
              return isOnDigit(guard) && (guard.low >= *high || guard.high <= *low);
            });
          });
          for (Summand &summand : form)
            llvm::erase_if(summand.guards, isOnDigit);
        }
        std::optional<Form> made = build(there);
        if (!made)
          made = byCase(there, build);
        if (!made)
          return std::nullopt;
        llvm::append_range(result, where(*made, Guard{Index::of(digit), *low, *high}));
      }
      return forms.normal(result);
    }
  return std::nullopt;
}

std::optional<Tensor> Ops::order(Operation *op, ArrayRef<Tensor> operands) {
  Type element = elementOf(op->getResult(0));
  sharding::ShardingRule rule = sharding::getShardingRule(op);
  if (isa<aten::CumsumOp>(op)) {
    Tensor value = operands[0];
    int64_t dim = dimOf(op, value.dims.size());
    if (value.dims.empty() || element.isInteger(1) || !isInOneType(op, {{0}}))
      return std::nullopt;
    // Places that count are not behind the result's.
    SmallVector<Var, 2> counted = forms.renew(value.form, value.dims[dim]);
    Index behind = placeIn(value.dims[dim]).plus(placeIn(counted), -1);
    Guard counts{behind, 0, forms.rangeOf(behind).second + 1};
    value.form = forms.sum(where(std::move(value.form), counts), counted);
    return value;
  }
  if (isa<aten::LtOp>(op)) {
    for (Type type : op->getOperandTypes())
      if (!tensorOf(type).getElementType().isSignlessInteger(64))
        return std::nullopt;
    return byRule(op, rule, operands, 0,
                  [&](ArrayRef<Form> given, const Extent &) -> std::optional<Form> {
                    auto left = forms.asPosition(given[0]), right = forms.asPosition(given[1]);
                    if (!left || !right)
                      return std::nullopt;
                    Index further = right->plus(*left, -1);
                    return forms.isWithin(
                        {further, 1, std::max<int64_t>(forms.rangeOf(further).second, 0) + 1});
                  });
  }
  if (!isa<aten::WhereOp>(op) || !isInOneType(op, {{1, 2}}) ||
      !elementOf(op->getOperand(0)).isInteger(1))
    return std::nullopt;
  // Of a mark that is 1 where one condition holds.
  return byRule(op, rule, operands, 0,
                [&](ArrayRef<Form> given, const Extent &) -> std::optional<Form> {
                  const Form &mark = given[0];
                  if (mark.size() != 1 || mark[0].factor != Rational(1) || !mark[0].bound.empty() ||
                      mark[0].guards.size() != 1 || mark[0].value.term != 0)
                    return std::nullopt;
                  Form chosen = where(given[1], mark[0].guards);
                  llvm::append_range(chosen, forms.outside(given[2], mark[0].guards[0]));
                  return forms.normal(chosen);
                });
}

/// At each place the part that lies there.
std::optional<Tensor> Ops::concatenate(Operation *op, ArrayRef<Tensor> operands) {
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  if (!isa<aten::CatOp>(op))
    return std::nullopt;
  int64_t dim = dimOf(op, type.getRank()), start = 0;
  std::optional<Tensor> result;
  Var at = forms.make(type.getDimSize(dim));
  for (auto [part, given] : llvm::zip(operands, op->getOperandTypes())) {
    RankedTensorType own = tensorOf(given);
    if (own.getRank() != type.getRank() || own.getElementType() != type.getElementType())
      return std::nullopt;
    if (own.getDimSize(dim) == 0)
      continue;
    if (!result) {
      result = Tensor{part.dims, {}};
      result->dims[dim] = {at};
    }
    Tensor piece = part;
    if (!alignTo(*result, piece, dim))
      return std::nullopt;
    Index place = placeIn(piece.dims[dim]).plus(Index(start)).plus(at, -1);
    llvm::append_range(
        result->form, forms.sum(where(std::move(piece.form), Guard{place, 0, 1}), piece.dims[dim]));
    start += own.getDimSize(dim);
  }
  return result;
}

/// Slices at the places that an index says, which may be one where a condition holds, and another
/// one elsewhere.
std::optional<Tensor> Ops::selectByPlace(Operation *op, ArrayRef<Tensor> operands) {
  Tensor value = operands[0];
  int64_t dim = dimOf(op, value.dims.size());
  if (value.dims.empty() || operands[1].dims.size() != 1 || !isInOneType(op, {{0}}))
    return std::nullopt;
  SmallVector<Var, 2> taken = value.dims[dim];
  // The index may be made of what the value is made of.
  Form index = operands[1].form;
  value.dims[dim] = forms.renew(index, operands[1].dims[0]);
  struct Choice {
    SmallVector<Guard, 1> guards;
    Form place;
  };
  std::vector<Choice> choices;
  for (const Summand &summand : index) {
    Summand plain = summand;
    plain.guards.clear();
    auto same = llvm::find_if(choices, [&](const Choice &choice) {
      return llvm::equal(choice.guards, summand.guards, [](const Guard &a, const Guard &b) {
        return a.index == b.index && a.low == b.low && a.high == b.high;
      });
    });
    if (same == choices.end())
      choices.push_back({summand.guards, {plain}});
    else
      same->place.push_back(plain);
  }
  if (choices.empty())
    choices.emplace_back();
  Form named;
  for (const Choice &choice : choices) {
    std::optional<Index> place = forms.asPosition(forms.normal(choice.place));
    if (!place)
      return std::nullopt;
    Guard isThere{placeIn(taken).plus(*place, -1), 0, 1};
    llvm::append_range(named, where(where(forms.number(Rational(1)), choice.guards), isThere));
  }
  // One place is named, whatever digits are.
  if (!forms.areEqual(forms.sum(named, taken), forms.number(Rational(1)), /*byCase=*/true))
    return std::nullopt;
  Form all;
  for (const Summand &there : named)
    llvm::append_range(all, where(value.form, there.guards));
  value.form = forms.sum(std::move(all), taken);
  return value;
}
