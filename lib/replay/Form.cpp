//===- Form.cpp - when two forms are equal ----------------------------------===//

#include "lib/replay/Form.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace cleave::replay;
using llvm::SmallVectorImpl;

static constexpr TermId kOne = 0, kPosition = 1;

Forms::Forms() {
  Term term;
  term.key = "one";
  terms.push_back(term);
  term.key = "position";
  term.sizes = {0};
  terms.push_back(term);
}

static bool isPlain(const Summand &summand) {
  return summand.bound.empty() && summand.guards.empty();
}

//===----------------------------------------------------------------------===//
// Definitions
//===----------------------------------------------------------------------===//

std::string Forms::signatureOf(const Form &form) {
  SmallVector<TermId> ids;
  for (const Summand &summand : form)
    ids.push_back(summand.value.term);
  llvm::sort(ids);
  std::string text;
  for (TermId id : ids)
    text += std::to_string(id) + ' ';
  return text;
}

std::string Forms::signatureOf(StringRef key, ArrayRef<Reference> operands) {
  std::string text = key.str() + '(';
  for (const Reference &operand : operands)
    text += std::to_string(operand.term) + ' ';
  return text;
}

bool Forms::define(Term term) {
  // Of earlier terms, each at as many places as it has digits, and of digits that it has itself.
  size_t known = term.sizes.size() + term.read.size() + term.boundSizes.size();
  // What a part of it mentions it must say where it is found (Fold.cpp): an operand no digit that
  // is the result's alone, and a summand none that another one binds.
  auto isSound = [&](const Reference &value, auto mayMention) {
    return value.term < terms.size() && value.at.size() == terms[value.term].sizes.size() &&
           llvm::all_of(value.at, mayMention);
  };
  auto ofOperand = [&](const Index &index) {
    return llvm::all_of(index.parts, [&](auto part) {
      return part.first < term.kept || (part.first >= term.sizes.size() && part.first < known);
    });
  };
  if (term.kept > term.sizes.size() || !llvm::all_of(term.operands, [&](const Reference &operand) {
        return isSound(operand, ofOperand);
      }))
    return false;
  for (const Summand &summand : term.body) {
    auto ofSummand = [&](const Index &index) {
      return llvm::all_of(index.parts, [&](auto part) {
        return part.first < term.sizes.size() || llvm::is_contained(summand.bound, part.first);
      });
    };
    if (!isSound(summand.value, ofSummand) ||
        !llvm::all_of(summand.bound,
                      [&](Var var) { return var >= term.sizes.size() && var < known; }) ||
        !llvm::all_of(summand.guards, [&](const Guard &guard) { return ofSummand(guard.index); }))
      return false;
  }
  if (term.kind == Term::Op)
    ops[signatureOf(term.key, term.operands)].push_back(terms.size());
  else if (term.kind == Term::Sum)
    sums[signatureOf(term.body)].push_back(terms.size());
  else if (!leaves.try_emplace(term.key, terms.size()).second)
    return false;
  terms.push_back(std::move(term));
  return true;
}

std::optional<TermId> Forms::findLeaf(StringRef name) const {
  auto found = leaves.find(name);
  return found == leaves.end() ? std::nullopt : std::optional(found->second);
}

const Function *Forms::functionOf(const Reference &value) const {
  auto found = functions.find(terms[value.term].key);
  return terms[value.term].kind == Term::Op && found != functions.end() ? &found->second : nullptr;
}

Form Forms::unfold(const Reference &value) {
  const Term &sum = terms[value.term];
  Digits digits = digitsAt(value.at);
  Form form = sum.body;
  for (Summand &summand : form)
    for (Var &bound : summand.bound) {
      Var fresh = make(sum.boundSizes[bound - sum.sizes.size()]);
      digits[bound] = Index::of(fresh);
      bound = fresh;
    }
  replace(form, digits);
  return form;
}

std::vector<Form> Forms::operandsOf(const Reference &value, SmallVectorImpl<Var> *read) {
  const Term &term = terms[value.term];
  Digits digits = digitsAt(ArrayRef(value.at).take_front(term.kept));
  for (auto [i, entry] : llvm::enumerate(term.read)) {
    Var fresh = make(entry.second);
    digits[term.sizes.size() + i] = Index::of(fresh);
    if (read)
      read->push_back(fresh);
  }
  std::vector<Form> operands;
  for (const Reference &operand : term.operands) {
    operands.push_back(formOf(operand));
    replace(operands.back(), digits);
  }
  for (Form &operand : operands)
    operand = normal(operand);
  return operands;
}

std::optional<std::pair<Function, std::vector<Form>>> Forms::asOp(const Form &form) {
  if (form.size() != 1 || !isPlain(form[0]) || form[0].factor != Rational(1))
    return std::nullopt;
  const Function *found = functionOf(form[0].value);
  if (!found || !terms[form[0].value.term].read.empty())
    return std::nullopt;
  return std::pair(Function(*found), operandsOf(form[0].value));
}

std::optional<Form> Forms::makeAgain(const Reference &value,
                                     llvm::function_ref<void(std::vector<Form> &)> change) {
  const Function *found = functionOf(value);
  if (!found)
    return std::nullopt;
  const Function function = *found;
  const Term term = terms[value.term];
  SmallVector<Var> fresh;
  std::vector<Form> operands = operandsOf(value, &fresh);
  change(operands);
  SmallVector<SmallVector<Var, 2>> read;
  for (auto [entry, var] : llvm::zip_equal(term.read, fresh)) {
    read.resize(std::max<size_t>(read.size(), entry.first + 1));
    read[entry.first].push_back(var);
  }
  return apply(function, operands, read, ArrayRef(value.at).drop_front(term.kept),
               ArrayRef(term.sizes).drop_front(term.kept));
}

//===----------------------------------------------------------------------===//
// One form of what is equal by arithmetic and linearity
//===----------------------------------------------------------------------===//

/// Whether it is the term at all of its places.
bool Forms::isWhole(const Reference &value) const {
  return llvm::all_of(llvm::zip(terms[value.term].sizes, value.at), [&](auto entry) {
    auto [size, index] = entry;
    return rangeOf(index) == std::pair<int64_t, int64_t>(0, size - 1);
  });
}

/// Unites, drops and solves conditions; false if they never hold.
bool Forms::simplifyGuards(Summand &summand) const {
  for (bool again = true; again;) {
    again = false;
    SmallVector<Guard, 1> united;
    for (Guard guard : summand.guards) {
      guard.low -= guard.index.constant;
      guard.high -= guard.index.constant;
      guard.index.constant = 0;
      auto *same = llvm::find_if(united, [&](const Guard &g) { return g.index == guard.index; });
      if (same == united.end()) {
        united.push_back(guard);
        continue;
      }
      same->low = std::max(same->low, guard.low);
      same->high = std::min(same->high, guard.high);
    }
    summand.guards = united;
    for (unsigned i = 0; i < summand.guards.size() && !again; ++i) {
      Guard &guard = summand.guards[i];
      auto [least, greatest] = rangeOf(guard.index);
      guard.low = std::max(guard.low, least);
      guard.high = std::min(guard.high, greatest + 1);
      if (guard.low >= guard.high)
        return false;
      if (guard.low == least && guard.high == greatest + 1) {
        summand.guards.erase(summand.guards.begin() + i--);
        continue;
      }
      if (guard.high != guard.low + 1)
        continue;
      // An equation: of the sum over a digit that it gives, one term is left.
      for (auto [var, factor] : guard.index.parts) {
        auto *bound = llvm::find(summand.bound, var);
        if (bound == summand.bound.end() || std::abs(factor) != 1)
          continue;
        Digits digits;
        digits[var] = Index().plus(guard.index.plus(var, -factor).plus(Index(-guard.low)), -factor);
        guard = {digits[var], 0, sizeOf(var)};
        summand.bound.erase(bound);
        forEachIndex(summand, [&](Index &index) { index = replace(index, digits); });
        again = true;
        break;
      }
    }
  }
  return true;
}

void Forms::simplify(Summand summand, Form &result) {
  // Deeper than any program is: what is left is equal to nothing.
  constexpr unsigned kDeepest = 1000;
  isTooDeep |= depth > kDeepest;
  if (isTooDeep)
    return;
  llvm::SaveAndRestore deeper(depth, depth + 1);
  forEachIndex(summand, [&](Index &index) {
    std::erase_if(index.parts, [&](auto part) { return sizes[part.first] == 1; });
  });
  if (summand.factor == Rational(0) || !simplifyGuards(summand))
    return;
  if (terms[summand.value.term].kind == Term::Sum) {
    for (Summand &part : unfold(summand.value))
      simplify(within(std::move(part), summand), result);
    return;
  }
  // A digit that one condition alone depends on, which holds for one value of it at most.
  for (Var var : SmallVector<Var, 2>(summand.bound)) {
    auto depends = [&](const Guard &guard) { return guard.index.at(var) != 0; };
    auto *guard = llvm::find_if(summand.guards, depends);
    if (llvm::any_of(summand.value.at, [&](const Index &index) { return index.at(var) != 0; }) ||
        llvm::count_if(summand.guards, depends) > 1)
      continue;
    if (guard == summand.guards.end()) {
      countsOpen |= sizes[var] == kOpen;
      summand.factor *= Rational(sizes[var]);
    } else {
      int64_t stride = guard->index.at(var), width = guard->high - guard->low;
      if (std::abs(stride) != width)
        continue;
      guard->index = guard->index.plus(var, -stride);
      (stride < 0 ? guard->high : guard->low) -= stride * (sizes[var] - 1);
    }
    summand.bound.erase(llvm::find(summand.bound, var));
    if (!simplifyGuards(summand))
      return;
  }
  // Two digits that are always read as one number.
  for (unsigned i = 0; i < summand.bound.size(); ++i)
    for (unsigned j = 0; j < summand.bound.size(); ++j) {
      Var major = summand.bound[i], minor = summand.bound[j];
      bool fits = i != j;
      forEachIndex(summand, [&](const Index &index) {
        fits &= index.at(major) == index.at(minor) * sizes[minor];
      });
      if (!fits)
        continue;
      Var merged = make(sizes[major] * sizes[minor]);
      forEachIndex(summand, [&](Index &index) {
        int64_t factor = index.at(minor);
        index = index.plus(minor, -factor).plus(major, -factor * sizes[minor]).plus(merged, factor);
      });
      summand.bound[i] = merged;
      summand.bound.erase(summand.bound.begin() + j);
      i = j = 0;
      j = unsigned(-1);
    }
  if ((summand.bound.empty() || !pushInwards(summand, result)) && !nameRows(summand, result))
    result.push_back(std::move(summand));
}

/// A sum of values of an op that is linear in what the digit changes is the op of the sum.
bool Forms::pushInwards(const Summand &summand, Form &result) {
  const Function *function = functionOf(summand.value);
  if (!function)
    return false;
  const Function copy = *function;
  const Term term = terms[summand.value.term];
  for (Var var : summand.bound) {
    auto depends = [&](const Index &index) { return index.at(var) != 0; };
    ArrayRef<Index> own = ArrayRef(summand.value.at).drop_front(term.kept);
    if (llvm::any_of(summand.guards, [&](const Guard &g) { return depends(g.index); }) ||
        llvm::any_of(own, depends))
      continue;
    SmallVector<unsigned, 2> users;
    for (auto [i, operand] : llvm::enumerate(term.operands))
      if (llvm::any_of(operand.at, [&](const Index &index) {
            return llvm::any_of(index.parts, [&](auto part) {
              return part.first < term.kept && depends(summand.value.at[part.first]);
            });
          }))
        users.push_back(i);
    SmallVector<unsigned, 2> group(users);
    if (!copy.isProduct) {
      auto *found = llvm::find_if(copy.linear, [&](ArrayRef<unsigned> operands) {
        return llvm::all_of(users, [&](unsigned i) { return llvm::is_contained(operands, i); });
      });
      if (found == copy.linear.end())
        continue;
      group.assign(found->begin(), found->end());
    } else if (users.size() != 1) {
      continue;
    }
    std::optional<Form> made = makeAgain(summand.value, [&](std::vector<Form> &operands) {
      for (unsigned i : group)
        operands[i] = sum(std::move(operands[i]), var);
    });
    if (!made)
      continue;
    Summand rest = summand;
    rest.bound.erase(llvm::find(rest.bound, var));
    for (Summand &part : *made)
      simplify(within(std::move(part), rest), result);
    return true;
  }
  return false;
}

/// What says which row of a part is named says which row of the whole: it is folded again, with the
/// part's place in the whole.
bool Forms::nameRows(const Summand &summand, Form &result) {
  const Function *function = functionOf(summand.value);
  const Term &term = terms[summand.value.term];
  if (!function || !term.read.empty() || term.kept != term.sizes.size())
    return false;
  auto isIndicator = [&](const Reference &value) {
    const Function *of = functionOf(value);
    return of && of->isIndicator;
  };
  if (!function->isIndicator && !(function->isProduct && llvm::any_of(term.operands, isIndicator)))
    return false;
  if (isWhole(summand.value))
    return false;
  std::optional<Form> made = makeAgain(summand.value);
  // To a whole one, or an earlier one, so that this ends.
  if (!made || !llvm::all_of(*made, [&](const Summand &part) {
        return part.value.term < summand.value.term || isWhole(part.value);
      }))
    return false;
  for (Summand &part : *made)
    simplify(within(std::move(part), summand), result);
  return true;
}

/// A text for a summand but its factor; bound digits are numbered by their first use.
std::string Forms::keyOf(const Summand &summand) const {
  llvm::DenseMap<Var, unsigned> names;
  std::string text;
  llvm::raw_string_ostream os(text);
  auto write = [&](llvm::raw_ostream &os, const Index &index) {
    SmallVector<std::pair<int64_t, Var>> bound;
    for (auto [var, factor] : index.parts)
      if (llvm::is_contained(summand.bound, var))
        bound.push_back({-std::abs(factor), var});
      else
        os << factor << '*' << var << '+';
    llvm::stable_sort(bound, llvm::less_first());
    SmallVector<std::pair<unsigned, int64_t>> named;
    for (auto [order, var] : bound)
      named.push_back({names.try_emplace(var, names.size()).first->second, index.at(var)});
    llvm::sort(named);
    for (auto [name, factor] : named)
      os << factor << 'b' << name << '+';
    os << index.constant << ';';
  };
  os << summand.value.term << '[';
  for (const Index &index : summand.value.at)
    write(os, index);
  os << ']';
  std::vector<std::string> guards;
  for (const Guard &guard : summand.guards) {
    llvm::raw_string_ostream stream(guards.emplace_back());
    write(stream, guard.index);
    stream << guard.low << ':' << guard.high;
  }
  llvm::sort(guards);
  for (const std::string &guard : guards)
    os << '{' << guard << '}';
  std::map<unsigned, int64_t> bound;
  for (Var var : summand.bound)
    bound[names.try_emplace(var, names.size()).first->second] = sizes[var];
  for (auto [name, size] : bound)
    os << '<' << name << ':' << size << '>';
  return text;
}

std::string Forms::textOf(const Form &form) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const Summand &summand : ArrayRef(form).take_front(4))
    os << (text.empty() ? "" : " + ") << summand.factor << ' ' << keyOf(summand);
  return text.empty() ? "0" : text;
}

static std::optional<int64_t> asInteger(const Rational &number) {
  Rational reduced = reduce(number);
  if (reduced.den != 1 || abs(reduced.num) > (int64_t(1) << 40))
    return std::nullopt;
  return int64_t(reduced.num);
}

Form Forms::normal(const Form &form) {
  Form simple;
  for (const Summand &summand : form)
    simplify(summand, simple);
  for (bool again = true; again;) {
    again = false;
    llvm::StringMap<unsigned> places;
    Form combined;
    for (Summand &summand : simple) {
      auto [place, isNew] = places.try_emplace(keyOf(summand), combined.size());
      if (isNew)
        combined.push_back(std::move(summand));
      else
        combined[place->second].factor += summand.factor;
    }
    llvm::erase_if(combined, [](Summand &summand) {
      summand.factor = reduce(summand.factor);
      return summand.factor == Rational(0);
    });
    simple.clear();
    // What holds before a place and behind it.
    for (unsigned i = 0; i < combined.size() && !again; ++i)
      for (unsigned j = 0; j < combined.size() && !again; ++j) {
        Summand &a = combined[i], &b = combined[j];
        if (i == j || a.guards.size() != 1 || b.guards.size() != 1 || !a.bound.empty() ||
            !b.bound.empty() || a.value.term != b.value.term || a.factor != b.factor ||
            a.value.at != b.value.at || a.guards[0].index != b.guards[0].index ||
            a.guards[0].high != b.guards[0].low)
          continue;
        a.guards[0].high = b.guards[0].high;
        combined.erase(combined.begin() + j);
        again = true;
      }
    if (again)
      for (Summand &summand : combined)
        simplify(std::move(summand), simple);
    else
      simple = std::move(combined);
  }
  // Places and whole numbers are one place.
  Index total;
  bool hasPlace = llvm::any_of(simple, [](const Summand &summand) {
    return summand.value.term == kPosition && isPlain(summand) && asInteger(summand.factor);
  });
  if (!hasPlace)
    return simple;
  llvm::erase_if(simple, [&](const Summand &summand) {
    std::optional<int64_t> factor = asInteger(summand.factor);
    if (!isPlain(summand) || !factor || summand.value.term > kPosition)
      return false;
    total = total.plus(summand.value.term == kPosition ? summand.value.at[0] : Index(1), *factor);
    return true;
  });
  for (Summand &summand : position(total))
    simple.push_back(std::move(summand));
  return simple;
}

Form Forms::number(const Rational &number) const {
  return number == Rational(0) ? Form() : formOf({kOne, {}}, number);
}

Form Forms::position(const Index &index) {
  return index.parts.empty() ? number(Rational(index.constant)) : formOf({kPosition, {index}});
}

std::optional<Index> Forms::asPosition(const Form &form) const {
  if (form.empty())
    return Index();
  std::optional<int64_t> factor = asInteger(form[0].factor);
  if (form.size() != 1 || !isPlain(form[0]) || !factor || form[0].value.term > kPosition)
    return std::nullopt;
  return Index().plus(form[0].value.term == kPosition ? form[0].value.at[0] : Index(1), *factor);
}

Form Forms::add(const Form &left, const Form &right, const Rational &factor) {
  Form all = left;
  llvm::append_range(all, scale(right, factor));
  return normal(all);
}

Form Forms::scale(Form form, const Rational &factor) {
  for (Summand &summand : form)
    summand.factor *= factor;
  return factor == Rational(0) ? Form() : form;
}

Form Forms::sum(Form form, ArrayRef<Var> bound) {
  for (Summand &summand : form) {
    Digits digits;
    for (Var var : bound) {
      summand.bound.push_back(make(sizes[var]));
      digits[var] = Index::of(summand.bound.back());
    }
    forEachIndex(summand, [&](Index &index) { index = replace(index, digits); });
  }
  return normal(form);
}

Form Forms::outside(const Form &form, const Guard &guard) const {
  auto [least, greatest] = rangeOf(guard.index);
  Form parts = where(form, Guard{guard.index, least, std::min(guard.low, greatest + 1)});
  llvm::append_range(parts,
                     where(form, Guard{guard.index, std::max(guard.high, least), greatest + 1}));
  return parts;
}

Form Forms::isWithin(const Guard &guard) {
  return normal(where(number(Rational(1)), guard));
}

SmallVector<Var, 2> Forms::renew(Form &form, ArrayRef<Var> vars) {
  SmallVector<Var, 2> fresh;
  Digits digits;
  for (Var var : vars) {
    fresh.push_back(make(sizes[var]));
    digits[var] = Index::of(fresh.back());
  }
  replace(form, digits);
  return fresh;
}

bool Forms::areEqual(const Form &left, const Form &right, bool byCase) {
  Form rest = add(left, right, Rational(-1));
  return (rest.empty() || (byCase && isZeroByCase(makeAllAgain(rest)))) && !hasOverflowed() &&
         !isTooDeep;
}
