//===- Fold.cpp - the terms of the log that forms are -----------------------===//
//
// The log says which terms there are. Which of them a form is, at which places, follows from its
// definition: places are found by solving equations, and what they give is compared.
//
//===----------------------------------------------------------------------===//

#include "lib/replay/Form.h"

#include <numeric>

using namespace cleave::replay;

/// Finds the digits that make each left side the right one. That they do is for the caller to see.
bool Forms::solve(ArrayRef<std::pair<Index, Index>> equations, Known &known) {
  SmallVector<const std::pair<Index, Index> *> open;
  for (const auto &equation : equations)
    open.push_back(&equation);
  // First what has one unknown digit, then those with several, as numbers with several digits.
  for (unsigned unknowns = 1; !open.empty();) {
    size_t before = open.size();
    llvm::erase_if(open, [&](const auto *equation) {
      Index rest = equation->second.plus(Index(-equation->first.constant));
      SmallVector<std::pair<int64_t, Var>> digits;
      for (auto [var, factor] : equation->first.parts)
        if (known[var])
          rest = rest.plus(*known[var], -factor);
        else
          digits.push_back({factor, var});
      if (digits.size() > unknowns)
        return false;
      llvm::sort(digits, [](auto a, auto b) { return std::abs(a.first) > std::abs(b.first); });
      for (auto [factor, var] : digits) {
        bool isLast = var == digits.back().second;
        int64_t whole = isLast || rest.constant >= 0 ? rest.constant / factor : 0;
        Index value(whole), left(rest.constant - whole * factor);
        for (auto [part, times] : rest.parts)
          if (times % factor == 0)
            value = value.plus(part, times / factor);
          else
            left = left.plus(part, times);
        known[var] = value;
        rest = left;
      }
      return true;
    });
    unknowns = open.size() < before ? 1 : unknowns + 1;
    if (unknowns > 16)
      return false;
  }
  return true;
}

bool Forms::matchSum(const Term &sum, const Form &form, bool exact, Rational &factor,
                     Reference &value) {
  if (sum.body.size() != form.size())
    return false;
  size_t numSlots = sum.sizes.size() + sum.boundSizes.size();
  std::vector<int> partner(form.size(), -1);
  std::vector<bool> isTaken(form.size());
  unsigned tries = 0;
  auto holds = [&]() {
    std::vector<std::pair<Index, Index>> equations;
    for (auto [i, summand] : llvm::enumerate(sum.body)) {
      const Summand &other = form[partner[i]];
      for (auto [index, there] : llvm::zip(summand.value.at, other.value.at))
        equations.push_back({index, there});
      for (auto [guard, there] : llvm::zip(summand.guards, other.guards))
        equations.push_back({guard.index, there.index});
    }
    Known known(numSlots);
    if (!solve(equations, known))
      return false;
    value.at.clear();
    for (unsigned i = 0; i < sum.sizes.size(); ++i)
      value.at.push_back(known[i].value_or(Index()));
    return areEqual(form, formOf(value, factor));
  };
  auto place = [&](auto &self, unsigned i) -> bool {
    if (i == form.size())
      return ++tries <= 64 && holds();
    const Summand &summand = sum.body[i];
    for (unsigned j = 0; j < form.size() && tries <= 64; ++j) {
      const Summand &other = form[j];
      if (isTaken[j] || summand.value.term != other.value.term ||
          summand.bound.size() != other.bound.size() ||
          summand.guards.size() != other.guards.size())
        continue;
      if (i == 0 && !exact)
        factor = reduce(other.factor / summand.factor);
      if (other.factor != summand.factor * factor)
        continue;
      isTaken[j] = true;
      partner[i] = j;
      if (self(self, i + 1))
        return true;
      isTaken[j] = false;
    }
    return false;
  };
  return place(place, 0);
}

std::optional<std::pair<Rational, Reference>> Forms::asTerm(const Form &form, bool exact) {
  if (form.size() == 1 && form[0].bound.empty() && form[0].guards.empty() &&
      (!exact || form[0].factor == Rational(1)))
    return std::pair(form[0].factor, form[0].value);
  auto found = sums.find(signatureOf(form));
  if (found == sums.end())
    return std::nullopt;
  // First the one of which it is the whole, not a part.
  std::optional<std::pair<Rational, Reference>> part;
  for (TermId candidate : SmallVector<TermId, 1>(found->second)) {
    Rational factor(1);
    Reference value{candidate, {}};
    if (!matchSum(terms[candidate], form, exact, factor, value))
      continue;
    if (isWhole(value))
      return std::pair(factor, value);
    if (!part)
      part = {factor, value};
  }
  return part;
}

std::optional<Reference> Forms::find(const Function &function, ArrayRef<Reference> operands,
                                     ArrayRef<SmallVector<Var, 2>> read, ArrayRef<Index> results,
                                     ArrayRef<int64_t> resultSizes) {
  auto found = ops.find(signatureOf(function.key, operands));
  if (found == ops.end())
    return std::nullopt;
  for (TermId candidate : found->second) {
    const Term &term = terms[candidate];
    if (ArrayRef(term.sizes).drop_front(term.kept) != resultSizes)
      continue;
    Known known(term.sizes.size() + term.read.size());
    // What it reads along: each of its digits is as many of the form's, in order.
    bool fits = true;
    SmallVector<size_t> next(read.size(), 0);
    for (auto [i, entry] : llvm::enumerate(term.read)) {
      auto [group, size] = entry;
      Index index;
      int64_t covered = 1;
      while (group < read.size() && covered < size && next[group] < read[group].size()) {
        Var var = read[group][next[group]++];
        covered *= sizes[var];
        index = Index().plus(index, sizes[var]).plus(var, 1);
      }
      fits &= covered == size;
      known[term.sizes.size() + i] = index;
    }
    for (auto [group, count] : llvm::enumerate(next))
      fits &= count == read[group].size();
    std::vector<std::pair<Index, Index>> equations;
    for (auto [operand, there] : llvm::zip(term.operands, operands))
      for (auto [index, other] : llvm::zip(operand.at, there.at))
        equations.push_back({index, other});
    if (!fits || !solve(equations, known))
      continue;
    Digits digits;
    for (auto [i, index] : llvm::enumerate(known))
      digits[i] = index.value_or(Index());
    if (!llvm::all_of(equations, [&](const auto &equation) {
          return replace(equation.first, digits) == equation.second;
        }))
      continue;
    Reference value{candidate, {}};
    bool isRead = false;
    for (unsigned i = 0; i < term.kept; ++i) {
      value.at.push_back(digits[i]);
      for (const auto &group : read)
        for (Var var : group)
          isRead |= digits[i].at(var) != 0;
    }
    llvm::append_range(value.at, results);
    if (!isRead)
      return value;
  }
  return std::nullopt;
}

/// The greatest number of which all factors are multiples; negative if they are, together.
static Rational contentOf(ArrayRef<const Form *> forms) {
  llvm::DynamicAPInt numerator(0), denominator(1);
  Rational total(0), largest(0);
  for (const Form *form : forms)
    for (const Summand &summand : *form) {
      Rational reduced = reduce(summand.factor);
      numerator = gcd(numerator, abs(reduced.num));
      denominator = lcm(denominator, reduced.den);
      total += reduced;
      largest = std::max(largest, reduced < Rational(0) ? -reduced : reduced);
    }
  Rational content(numerator, denominator);
  // As the log has it: of deep models the greatest common one has too many digits.
  if (largest > content * Rational(int64_t(1) << 40))
    content = largest;
  return total < Rational(0) ? -content : content;
}

Forms::Bounds Forms::boundsOf(TermId id) {
  if (auto found = known.find(id); found != known.end())
    return found->second;
  const Term &term = terms[id];
  auto found = functions.find(term.key);
  const Function *function =
      term.kind == Term::Op && found != functions.end() ? &found->second : nullptr;
  Bounds bounds = boundsOf(term.body);
  for (auto [i, operand] : llvm::enumerate(term.operands)) {
    Bounds own = boundsOf(operand.term);
    bounds.low &= own.low || (function && function->scores == i);
    bounds.high &= own.high;
  }
  if (function && function->isUnbounded)
    bounds = {false, bounds.high && function->isFromBelow};
  else if (term.kind == Term::Op && (!function || !function->isChoice) && !bounds.isReal())
    bounds = {false, false};
  else if (term.kind == Term::Leaf && StringRef(term.key).starts_with("unknown "))
    bounds = {false, false};
  known[id] = bounds;
  return bounds;
}

Forms::Bounds Forms::boundsOf(const Form &form) {
  Bounds bounds;
  for (const Summand &summand : form) {
    Bounds own = boundsOf(summand.value.term);
    if (summand.factor < Rational(0))
      std::swap(own.low, own.high);
    bounds.low &= own.low;
    bounds.high &= own.high;
  }
  return bounds;
}

std::optional<Form> Forms::apply(const Function &function, ArrayRef<Form> given,
                                 ArrayRef<SmallVector<Var, 2>> read, ArrayRef<Index> results,
                                 ArrayRef<int64_t> resultSizes) {
  functions.try_emplace(function.key, function);
  std::vector<Form> operands;
  for (const Form &form : given)
    operands.push_back(normal(form));
  // Zero times what may be infinite is no zero.
  auto isZero = [&](unsigned i) { return operands[i].empty(); };
  bool isNothing =
      (function.isProduct && llvm::any_of(llvm::seq<unsigned>(0, operands.size()), isZero)) ||
      llvm::any_of(function.linear,
                   [&](ArrayRef<unsigned> group) { return llvm::all_of(group, isZero); });
  if (isNothing &&
      !llvm::all_of(operands, [&](const Form &form) { return boundsOf(form).isReal(); }))
    return std::nullopt;
  Rational factor(1);
  SmallVector<bool> isLinear(operands.size(), function.isProduct);
  for (unsigned i = 0; function.isProduct && i < operands.size(); ++i)
    if (operands[i].empty())
      return Form();
  for (ArrayRef<unsigned> group : function.linear) {
    if (llvm::all_of(group, [&](unsigned i) { return operands[i].empty(); }))
      return Form();
    if (group.size() == 1) {
      isLinear[group[0]] = true;
      continue;
    }
    SmallVector<const Form *> forms;
    for (unsigned i : group)
      forms.push_back(&operands[i]);
    Rational content = contentOf(forms);
    for (unsigned i : group)
      operands[i] = normal(scale(operands[i], Rational(1) / content));
    factor *= content;
  }
  std::vector<Reference> values;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    auto value = asTerm(operand, /*exact=*/!isLinear[i]);
    if (!value)
      return std::nullopt;
    factor *= value->first;
    values.push_back(value->second);
  }
  if (function.isProduct) {
    std::optional<Form> product = multiply(function, std::move(values));
    return product ? std::optional(scale(*product, factor)) : std::nullopt;
  }
  std::optional<Reference> value = find(function, values, read, results, resultSizes);
  return value ? std::optional(formOf(*value, reduce(factor))) : std::nullopt;
}

Form Forms::applyOr(bool &fails, const Function &function, ArrayRef<Form> operands) {
  std::optional<Form> form = apply(function, operands);
  fails |= !form;
  return form.value_or(Form());
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// A sum of squares, roots and positive numbers.
bool Forms::isNotNegative(const Form &form) const {
  return llvm::all_of(form, [&](const Summand &summand) {
    const Function *function = functionOf(summand.value);
    if (!(summand.factor > Rational(0)))
      return false;
    if (summand.value.term == 0 || (function && function->isRoot))
      return true;
    ArrayRef<Reference> operands = terms[summand.value.term].operands;
    if (!function || !function->isProduct || operands.size() % 2)
      return false;
    for (const Reference &operand : operands)
      if (llvm::count_if(operands,
                         [&](const Reference &other) {
                           return other.term == operand.term && other.at == operand.at;
                         }) %
          2)
        return false;
    return true;
  });
}

std::optional<Form> Forms::multiply(const Function &function, std::vector<Reference> factors) {
  llvm::erase_if(factors, [](const Reference &factor) { return factor.term == 0; });
  for (unsigned i = 0; i < factors.size();) {
    const Term &term = terms[factors[i].term];
    if (term.kind != Term::Op || term.key != function.key) {
      ++i;
      continue;
    }
    const Digits digits = digitsAt(factors[i].at);
    std::vector<Reference> inner = term.operands;
    for (Reference &factor : inner)
      for (Index &index : factor.at)
        index = replace(index, digits);
    factors.erase(factors.begin() + i);
    factors.insert(factors.begin() + i, inner.begin(), inner.end());
  }
  if (factors.empty())
    return number(Rational(1));
  if (factors.size() == 1)
    return normal(formOf(factors[0]));
  // The square of a root is what is under it, and that of a short sum is multiplied out.
  for (unsigned i = 0; i < factors.size(); ++i)
    for (unsigned j = i + 1; j < factors.size(); ++j) {
      if (factors[i].term != factors[j].term || factors[i].at != factors[j].at)
        continue;
      const Term &term = terms[factors[i].term];
      Form square;
      const Function *own = functionOf(factors[i]);
      if (own && own->isRoot) {
        square = operandsOf(factors[i])[0];
        if (!isNotNegative(square))
          continue;
      } else if (term.kind == Term::Sum && term.body.size() > 1 && term.body.size() <= 4) {
        Form parts = normal(formOf(factors[i]));
        bool fails = false;
        for (const Summand &a : parts)
          for (const Summand &b : parts)
            square = add(square, applyOr(fails, function, {Form{a}, Form{b}}));
        if (fails)
          continue;
      } else {
        continue;
      }
      std::vector<Form> rest{square};
      for (auto [k, factor] : llvm::enumerate(factors))
        if (k != i && k != j)
          rest.push_back(normal(formOf(factor)));
      return rest.size() == 1 ? rest[0] : apply(function, rest);
    }
  llvm::stable_sort(factors, [](auto &a, auto &b) { return a.term < b.term; });
  SmallVector<unsigned> order(factors.size());
  std::iota(order.begin(), order.end(), 0);
  auto byTerm = [&](unsigned a, unsigned b) { return factors[a].term < factors[b].term; };
  unsigned tries = 0;
  do {
    if (!llvm::is_sorted(order, byTerm))
      continue;
    std::vector<Reference> sorted;
    for (unsigned i : order)
      sorted.push_back(factors[i]);
    if (std::optional<Reference> value = find(function, sorted, {}, {}, {}))
      return formOf(*value);
  } while (++tries < 720 && std::next_permutation(order.begin(), order.end()));
  return std::nullopt;
}
