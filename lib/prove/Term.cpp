//===- Term.cpp - values of the whole program, made unique ------------------===//

#include "lib/prove/Term.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::DynamicAPInt;
using llvm::SmallVector;

Rational cleave::prove::exactly(double number) {
  int exponent = 0;
  auto mantissa = int64_t(std::ldexp(std::frexp(number, &exponent), 53));
  exponent -= 53;
  llvm::APInt power(std::abs(exponent) + 2, 0);
  power.setBit(std::abs(exponent));
  Rational two{DynamicAPInt(power)};
  return exponent < 0 ? Rational(mantissa) / two : Rational(mantissa) * two;
}

void cleave::prove::substitute(Meaning &meaning, const Substitution &substitution) {
  for (Summand &summand : meaning) {
    for (Guard &guard : summand.guards)
      guard.index = substitute(guard.index, substitution);
    for (Index &index : summand.reference.indices)
      index = substitute(index, substitution);
  }
}

//===----------------------------------------------------------------------===//
// Texts: what is equal has one text
//===----------------------------------------------------------------------===//

/// Numbers for the variables of one text.
using Names = llvm::DenseMap<Var, unsigned>;

static void write(llvm::raw_ostream &os, const Rational &number) {
  os << number.num << '/' << number.den;
}

static void write(llvm::raw_ostream &os, const Index &index, const Names &names) {
  SmallVector<std::pair<unsigned, int64_t>, 4> parts;
  for (const Index::Part &part : index.getParts())
    parts.push_back({names.lookup(part.var), part.coefficient});
  llvm::sort(parts);
  for (auto [name, coefficient] : parts)
    os << coefficient << '*' << name << '+';
  os << index.getConstant() << ';';
}

/// Numbers the variables for which `isWanted`, by first use, what counts most first.
template <typename Wanted>
static void nameByUse(const Index &index, Names &names, unsigned &next, Wanted isWanted) {
  SmallVector<Index::Part, 4> parts(index.getParts());
  llvm::stable_sort(parts, [](const Index::Part &a, const Index::Part &b) {
    return std::abs(a.coefficient) > std::abs(b.coefficient);
  });
  for (const Index::Part &part : parts)
    if (isWanted(part.var) && names.try_emplace(part.var, next).second)
      ++next;
}

static void writeSummand(llvm::raw_ostream &os, const Summand &summand, const Names &names,
                         const Variables &variables) {
  os << summand.reference.term << '[';
  for (const Index &index : summand.reference.indices)
    write(os, index, names);
  os << ']';
  SmallVector<std::string, 2> guards;
  for (const Guard &guard : summand.guards) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    write(stream, guard.index, names);
    stream << guard.low << ':' << guard.high;
    guards.push_back(std::move(text));
  }
  llvm::sort(guards);
  for (const std::string &guard : guards)
    os << '{' << guard << '}';
  // By number, not in the order in which they happen to be listed.
  SmallVector<std::pair<unsigned, int64_t>, 2> bound;
  for (Var var : summand.bound)
    bound.push_back({names.lookup(var), variables.getSize(var)});
  llvm::sort(bound);
  for (auto [name, size] : bound)
    os << '<' << name << ':' << size << '>';
}

/// Numbers for the bound digits, from `next` on.
static void nameBound(const Summand &summand, Names &names, unsigned next) {
  auto isBound = [&](Var var) { return llvm::is_contained(summand.bound, var); };
  for (const Index &index : summand.reference.indices)
    nameByUse(index, names, next, isBound);
  for (const Guard &guard : summand.guards)
    nameByUse(guard.index, names, next, isBound);
}

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

Terms::Terms() {
  Term term;
  term.core.key = "one";
  one = intern("one", term);
  term.core.key = "position";
  term.sizes = {0};
  identity = intern("position", term);
}

TermId Terms::intern(llvm::StringRef key, Term term) {
  auto [found, isNew] = numbers.try_emplace(key, terms.size());
  if (isNew)
    terms.push_back(std::move(term));
  return found->second;
}

Meaning Terms::leaf(llvm::StringRef name, ArrayRef<int64_t> sizes, ArrayRef<Index> indices) {
  Term term;
  term.core.key = name.str();
  term.sizes.assign(sizes.begin(), sizes.end());
  Summand summand;
  summand.reference.term = intern("leaf " + name.str(), std::move(term));
  summand.reference.indices.assign(indices.begin(), indices.end());
  return {summand};
}

Meaning Terms::number(const Rational &number) {
  if (number == Rational(0))
    return {};
  Summand summand;
  summand.coefficient = number;
  summand.reference.term = one;
  return {summand};
}

Meaning Terms::position(const Index &index) {
  Summand summand;
  summand.reference.term = identity;
  summand.reference.indices = {index};
  return normalize({summand});
}

//===----------------------------------------------------------------------===//
// Digits
//===----------------------------------------------------------------------===//

void Terms::mergeDigits(ArrayRef<Index *> indices, llvm::SmallVectorImpl<Var> &vars,
                        llvm::DenseMap<Var, Index> &outer) {
  for (Var var : vars)
    outer.try_emplace(var, Index::of(var));
  auto tryToMerge = [&](Var major, Var minor) {
    int64_t size = variables.getSize(minor);
    bool isUsed = false;
    for (const Index *index : indices) {
      int64_t coefficient = index->getCoefficient(minor);
      if (index->getCoefficient(major) != coefficient * size)
        return false;
      isUsed |= coefficient != 0;
    }
    return isUsed;
  };
  for (bool changes = true; changes;) {
    changes = false;
    for (unsigned i = 0; i < vars.size() && !changes; ++i)
      for (unsigned j = 0; j < vars.size() && !changes; ++j) {
        if (i == j || !tryToMerge(vars[i], vars[j]))
          continue;
        Var major = vars[i], minor = vars[j];
        Var merged = variables.make(variables.getSize(major) * variables.getSize(minor));
        for (Index *index : indices) {
          int64_t coefficient = index->getCoefficient(minor);
          if (coefficient)
            *index = *index - Index::of(minor, coefficient) -
                     Index::of(major, index->getCoefficient(major)) +
                     Index::of(merged, coefficient);
        }
        outer[merged] = outer.lookup(major) * variables.getSize(minor) + outer.lookup(minor);
        vars[i] = merged;
        vars.erase(vars.begin() + j);
        changes = true;
      }
  }
}

static void collectVars(const Index &index, SmallVector<Var> &vars) {
  for (const Index::Part &part : index.getParts())
    if (!llvm::is_contained(vars, part.var))
      vars.push_back(part.var);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

bool Terms::isLate() {
  if (!late && ++sinceLook >= 256) {
    sinceLook = 0;
    late = std::chrono::steady_clock::now() > deadline;
  }
  return late;
}

bool Terms::simplifyGuards(Summand &summand) {
  for (unsigned i = 0; i < summand.guards.size();) {
    Guard &guard = summand.guards[i];
    auto [least, greatest] = variables.getRange(guard.index);
    if (greatest < guard.low || least >= guard.high)
      return false;
    if (least >= guard.low && greatest < guard.high) {
      summand.guards.erase(summand.guards.begin() + i);
      continue;
    }
    // An equation that gives a bound digit: the sum over it has one term.
    bool isSolved = false;
    if (guard.high == guard.low + 1) {
      for (const Index::Part &part : guard.index.getParts()) {
        auto *bound = llvm::find(summand.bound, part.var);
        if (bound == summand.bound.end() || std::abs(part.coefficient) != 1)
          continue;
        Index rest = guard.index - Index::of(part.var, part.coefficient) - Index(guard.low);
        Index solution = rest * -part.coefficient;
        int64_t size = variables.getSize(part.var);
        Substitution digits;
        digits[part.var] = solution;
        summand.bound.erase(bound);
        guard = {solution, 0, size};
        Meaning one{std::move(summand)};
        substitute(one, digits);
        summand = std::move(one.front());
        isSolved = true;
        break;
      }
    }
    if (isSolved)
      i = 0;
    else
      ++i;
  }
  return true;
}

Meaning Terms::instantiate(const Reference &reference, const Substitution &digits) {
  Summand summand;
  summand.reference = reference;
  Meaning meaning{std::move(summand)};
  substitute(meaning, digits);
  return meaning;
}

bool Terms::pushInwards(const Summand &summand, Meaning &result) {
  // A copy: making terms moves them.
  Term term = terms[summand.reference.term];
  if (term.kind != Term::Kind::Op || term.core.linear.empty())
    return false;
  ArrayRef<Index> indices = summand.reference.indices;
  for (Var var : summand.bound) {
    if (llvm::any_of(summand.guards, [&](const Guard &guard) {
          return guard.index.getCoefficient(var) != 0;
        }) ||
        llvm::any_of(indices.drop_front(term.numKept),
                     [&](const Index &index) { return index.getCoefficient(var) != 0; }))
      continue;
    auto mentions = [&](unsigned operand) {
      return llvm::any_of(term.operands[operand].indices, [&](const Index &index) {
        return llvm::any_of(index.getParts(), [&](const Index::Part &part) {
          return part.var < term.numKept && indices[part.var].getCoefficient(var) != 0;
        });
      });
    };
    SmallVector<unsigned, 2> users;
    for (unsigned i = 0; i < term.operands.size(); ++i)
      if (mentions(i))
        users.push_back(i);
    auto *group = llvm::find_if(term.core.linear, [&](ArrayRef<unsigned> operands) {
      return llvm::all_of(users, [&](unsigned i) { return llvm::is_contained(operands, i); });
    });
    if (group == term.core.linear.end())
      continue;

    Substitution digits;
    for (unsigned i = 0; i < term.numKept; ++i)
      digits[i] = indices[i];
    SmallVector<SmallVector<Var, 2>> read;
    for (auto [i, size] : llvm::enumerate(term.readSizes)) {
      Var fresh = variables.make(size);
      read.resize(std::max<size_t>(read.size(), term.readGroups[i] + 1));
      read[term.readGroups[i]].push_back(fresh);
      digits[term.sizes.size() + i] = Index::of(fresh);
    }
    std::vector<Meaning> operands;
    for (auto [i, operand] : llvm::enumerate(term.operands)) {
      operands.push_back(instantiate(operand, digits));
      operands.back() = llvm::is_contained(*group, unsigned(i))
                            ? sum(std::move(operands.back()), var)
                            : normalize(std::move(operands.back()));
    }
    Meaning pushed = apply(term.core, operands, read, indices.drop_front(term.numKept),
                           ArrayRef(term.sizes).drop_front(term.numKept));
    for (Summand &part : pushed) {
      part.coefficient *= summand.coefficient;
      for (Var other : summand.bound)
        if (other != var)
          part.bound.push_back(other);
      llvm::append_range(part.guards, summand.guards);
      normalizeSummand(std::move(part), result);
    }
    return true;
  }
  return false;
}

void Terms::normalizeSummand(Summand summand, Meaning &result) {
  // A digit of one value is 0.
  auto dropSingles = [&](Index &index) {
    for (const Index::Part &part : SmallVector<Index::Part, 4>(index.getParts()))
      if (variables.getSize(part.var) == 1)
        index = index - Index::of(part.var, part.coefficient);
  };
  llvm::for_each(summand.reference.indices, dropSingles);
  for (Guard &guard : summand.guards)
    dropSingles(guard.index);
  if (summand.coefficient == Rational(0) || isLate() || !simplifyGuards(summand))
    return;
  Reference &reference = summand.reference;

  if (terms[reference.term].kind == Term::Kind::Sum) {
    const Term sum = terms[reference.term];
    Substitution digits;
    for (auto [i, index] : llvm::enumerate(reference.indices))
      digits[i] = index;
    for (const Summand &part : sum.body) {
      Summand inner = part;
      inner.bound.clear();
      Substitution all = digits;
      for (Var bound : part.bound) {
        Var fresh = variables.make(sum.boundSizes[bound - sum.sizes.size()]);
        all[bound] = Index::of(fresh);
        inner.bound.push_back(fresh);
      }
      Meaning one{std::move(inner)};
      substitute(one, all);
      one[0].coefficient *= summand.coefficient;
      llvm::append_range(one[0].bound, summand.bound);
      llvm::append_range(one[0].guards, summand.guards);
      normalizeSummand(std::move(one[0]), result);
    }
    return;
  }

  auto isUsed = [&](Var var) {
    auto mentions = [&](const Index &index) { return index.getCoefficient(var) != 0; };
    return llvm::any_of(reference.indices, mentions) ||
           llvm::any_of(summand.guards, [&](const Guard &guard) { return mentions(guard.index); });
  };
  llvm::erase_if(summand.bound, [&](Var var) {
    if (isUsed(var))
      return false;
    summand.coefficient *= Rational(variables.getSize(var));
    return true;
  });

  if (summand.bound.size() > 1) {
    SmallVector<Index *> indices;
    for (Index &index : reference.indices)
      indices.push_back(&index);
    for (Guard &guard : summand.guards)
      indices.push_back(&guard.index);
    SmallVector<Var> bound(ArrayRef<Var>(summand.bound));
    llvm::DenseMap<Var, Index> outer;
    mergeDigits(indices, bound, outer);
    summand.bound.assign(bound.begin(), bound.end());
  }
  if (!summand.bound.empty() && pushInwards(summand, result))
    return;
  result.push_back(std::move(summand));
}

void Terms::combine(Meaning &meaning) {
  llvm::StringMap<unsigned> places;
  Meaning combined;
  for (Summand &summand : meaning) {
    Names names;
    auto name = [&](const Index &index) {
      for (const Index::Part &part : index.getParts())
        if (!llvm::is_contained(summand.bound, part.var))
          names[part.var] = part.var;
    };
    for (const Index &index : summand.reference.indices)
      name(index);
    for (const Guard &guard : summand.guards)
      name(guard.index);
    // Free variables have their own numbers, which bound ones must not meet.
    nameBound(summand, names, 1u << 31);
    std::string key;
    llvm::raw_string_ostream stream(key);
    writeSummand(stream, summand, names, variables);
    auto [place, isNew] = places.try_emplace(key, combined.size());
    if (isNew)
      combined.push_back(std::move(summand));
    else
      combined[place->second].coefficient += summand.coefficient;
  }
  llvm::erase_if(combined,
                 [](const Summand &summand) { return summand.coefficient == Rational(0); });
  meaning = std::move(combined);
}

/// Small enough for an index.
static std::optional<int64_t> asInteger(const Rational &number) {
  if (number.den != 1 || number.num > (int64_t(1) << 40) || number.num < -(int64_t(1) << 40))
    return std::nullopt;
  return int64_t(number.num);
}

void Terms::combinePositions(Meaning &meaning) {
  auto isPlain = [&](const Summand &summand, TermId term) {
    return summand.reference.term == term && summand.bound.empty() && summand.guards.empty() &&
           asInteger(summand.coefficient);
  };
  if (llvm::none_of(meaning, [&](const Summand &s) { return isPlain(s, identity); }))
    return;
  Index total;
  llvm::erase_if(meaning, [&](const Summand &summand) {
    if (isPlain(summand, identity))
      total = total + summand.reference.indices[0] * *asInteger(summand.coefficient);
    else if (isPlain(summand, one))
      total = total + Index(*asInteger(summand.coefficient));
    else
      return false;
    return true;
  });
  Summand summand;
  if (total.isConstant()) {
    summand.coefficient = Rational(total.getConstant());
    summand.reference.term = one;
    if (total.getConstant() == 0)
      return;
  } else {
    summand.reference.term = identity;
    summand.reference.indices = {total};
  }
  meaning.push_back(std::move(summand));
}

Meaning Terms::normalize(Meaning meaning) {
  Meaning result;
  for (Summand &summand : meaning)
    normalizeSummand(std::move(summand), result);
  combine(result);
  combinePositions(result);
  return result;
}

Meaning Terms::sum(Meaning meaning, ArrayRef<Var> bound) {
  for (Summand &summand : meaning) {
    // Sums with the same digits bound are different sums.
    Substitution digits;
    for (Var var : bound) {
      Var fresh = variables.make(variables.getSize(var));
      digits[var] = Index::of(fresh);
      summand.bound.push_back(fresh);
    }
    Meaning one{std::move(summand)};
    substitute(one, digits);
    summand = std::move(one.front());
  }
  return normalize(std::move(meaning));
}

Meaning Terms::add(Meaning left, const Meaning &right) {
  llvm::append_range(left, right);
  return normalize(std::move(left));
}

Meaning Terms::scale(Meaning meaning, const Rational &factor) {
  for (Summand &summand : meaning)
    summand.coefficient *= factor;
  return normalize(std::move(meaning));
}

bool Terms::areEqual(const Meaning &left, const Meaning &right) {
  Meaning difference = add(left, scale(right, Rational(-1)));
  return difference.empty() && !late;
}

//===----------------------------------------------------------------------===//
// Terms of meanings
//===----------------------------------------------------------------------===//

Reference Terms::wrap(const Meaning &meaning) {
  if (meaning.size() == 1 && meaning[0].coefficient == Rational(1) && meaning[0].bound.empty() &&
      meaning[0].guards.empty())
    return meaning[0].reference;

  Meaning body = meaning;
  // An order that does not depend on how variables are numbered, as far as possible.
  auto shape = [&](const Summand &summand) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << summand.reference.term << ' ' << summand.guards.size() << ' ';
    write(stream, summand.coefficient);
    for (const Index &index : summand.reference.indices) {
      SmallVector<std::tuple<int64_t, int64_t, bool>, 4> parts;
      for (const Index::Part &part : index.getParts())
        parts.push_back({part.coefficient, 0, llvm::is_contained(summand.bound, part.var)});
      llvm::sort(parts);
      stream << '[';
      // Free digits are not merged yet: only what is bound counts.
      for (auto [coefficient, size, isBound] : parts)
        if (isBound)
          stream << coefficient << ' ';
      stream << index.getConstant() << ']';
    }
    return text;
  };
  SmallVector<std::pair<std::string, unsigned>> order;
  for (auto [i, summand] : llvm::enumerate(body))
    order.push_back({shape(summand), unsigned(i)});
  llvm::sort(order);

  SmallVector<Index *> indices;
  SmallVector<Var> bound, vars;
  for (auto &[text, i] : order) {
    for (Index &index : body[i].reference.indices)
      indices.push_back(&index);
    for (Guard &guard : body[i].guards)
      indices.push_back(&guard.index);
    llvm::append_range(bound, body[i].bound);
  }
  for (const Index *index : indices)
    collectVars(*index, vars);
  llvm::erase_if(vars, [&](Var var) { return llvm::is_contained(bound, var); });
  llvm::DenseMap<Var, Index> outer;
  mergeDigits(indices, vars, outer);

  Names names;
  unsigned next = 0;
  for (const Index *index : indices)
    nameByUse(*index, names, next, [&](Var var) { return llvm::is_contained(vars, var); });

  Term term;
  term.kind = Term::Kind::Sum;
  Reference reference;
  term.sizes.resize(vars.size());
  reference.indices.resize(vars.size());
  Substitution digits;
  for (Var var : vars) {
    term.sizes[names.lookup(var)] = variables.getSize(var);
    reference.indices[names.lookup(var)] = outer.lookup(var);
    digits[var] = Index::of(names.lookup(var));
  }
  SmallVector<std::pair<std::string, unsigned>> texts;
  for (auto [i, summand] : llvm::enumerate(body)) {
    Names own = names;
    nameBound(summand, own, vars.size());
    std::string text;
    llvm::raw_string_ostream stream(text);
    write(stream, summand.coefficient);
    stream << ' ';
    writeSummand(stream, summand, own, variables);
    texts.push_back({std::move(text), unsigned(i)});
  }
  llvm::sort(texts);
  std::string key = "sum";
  for (int64_t size : term.sizes)
    key += ' ' + std::to_string(size);
  for (auto &[text, i] : texts)
    key += '|' + text;
  for (auto &[text, i] : texts) {
    Summand summand = body[i];
    Substitution all = digits;
    for (Var &var : summand.bound) {
      Var slot = term.sizes.size() + term.boundSizes.size();
      term.boundSizes.push_back(variables.getSize(var));
      all[var] = Index::of(slot);
      var = slot;
    }
    Meaning one{std::move(summand)};
    substitute(one, all);
    term.body.push_back(std::move(one.front()));
  }
  reference.term = intern(key, std::move(term));
  return reference;
}

/// The greatest number of which all coefficients are multiples; negative where they are, together.
static Rational contentOf(ArrayRef<const Meaning *> meanings) {
  DynamicAPInt numerator(0), denominator(1);
  Rational total(0);
  for (const Meaning *meaning : meanings)
    for (const Summand &summand : *meaning) {
      Rational reduced = reduce(summand.coefficient);
      numerator = gcd(numerator, abs(reduced.num));
      denominator = lcm(denominator, reduced.den);
      total += reduced;
    }
  Rational content(numerator, denominator);
  return total < Rational(0) ? -content : content;
}

Meaning Terms::apply(const Core &core, ArrayRef<Meaning> given,
                     ArrayRef<SmallVector<Var, 2>> read, ArrayRef<Index> results,
                     ArrayRef<int64_t> resultSizes) {
  std::vector<Meaning> operands(given.begin(), given.end());
  Rational coefficient(1);
  for (ArrayRef<unsigned> group : core.linear) {
    if (llvm::all_of(group, [&](unsigned i) { return operands[i].empty(); }))
      return {};
    SmallVector<const Meaning *> meanings;
    for (unsigned i : group)
      meanings.push_back(&operands[i]);
    Rational content = contentOf(meanings);
    coefficient *= content;
    for (unsigned i : group)
      operands[i] = scale(std::move(operands[i]), Rational(1) / content);
  }

  Term term;
  term.kind = Term::Kind::Op;
  term.core = core;
  for (const Meaning &operand : operands)
    term.operands.push_back(wrap(operand));
  if (core.isProduct) {
    llvm::erase_if(term.operands, [&](const Reference &operand) { return operand.term == one; });
    if (term.operands.empty())
      return number(coefficient);
    if (term.operands.size() == 1)
      return scale(instantiate(term.operands[0], Substitution()), coefficient);
    term.core.linear.clear();
    for (unsigned i = 0; i < term.operands.size(); ++i)
      term.core.linear.push_back({i});
    llvm::stable_sort(term.operands,
                      [](const Reference &a, const Reference &b) { return a.term < b.term; });
  }

  // Digits: those that it reads along, and all others.
  SmallVector<Index *> indices;
  SmallVector<Var> vars;
  for (Reference &operand : term.operands)
    for (Index &index : operand.indices) {
      indices.push_back(&index);
      collectVars(index, vars);
    }
  auto isRead = [&](Var var) {
    return llvm::any_of(read, [&](ArrayRef<Var> group) { return llvm::is_contained(group, var); });
  };
  llvm::erase_if(vars, isRead);
  llvm::DenseMap<Var, Index> outer;
  mergeDigits(indices, vars, outer);
  SmallVector<std::pair<Var, unsigned>> readVars;
  for (auto [i, group] : llvm::enumerate(read)) {
    SmallVector<Var> digits(group.begin(), group.end());
    mergeDigits(indices, digits, outer);
    for (Var var : digits)
      readVars.push_back({var, unsigned(i)});
  }

  unsigned numKept = vars.size(), numResults = results.size();
  auto encode = [&](ArrayRef<Reference> order, Names &names, std::string &key) {
    unsigned next = 0;
    for (const Reference &operand : order)
      for (const Index &index : operand.indices)
        nameByUse(index, names, next, [&](Var var) { return llvm::is_contained(vars, var); });
    for (auto [i, var] : llvm::enumerate(readVars))
      names[var.first] = numKept + numResults + i;
    llvm::raw_string_ostream stream(key);
    stream << "op " << core.key << '(';
    for (const Reference &operand : order) {
      stream << operand.term << '[';
      for (const Index &index : operand.indices)
        write(stream, index, names);
      stream << ']';
    }
    stream << ')';
    SmallVector<int64_t> sizes(numKept);
    for (Var var : vars)
      sizes[names.lookup(var)] = variables.getSize(var);
    for (int64_t size : sizes)
      stream << size << ' ';
    for (auto [var, group] : readVars)
      stream << '<' << group << ':' << variables.getSize(var) << '>';
    for (int64_t size : resultSizes)
      stream << '{' << size << '}';
  };
  Names names;
  std::string key;
  encode(term.operands, names, key);
  if (core.isProduct && term.operands.size() == 2 &&
      term.operands[0].term == term.operands[1].term) {
    Names otherNames;
    std::string otherKey;
    Reference swapped[] = {term.operands[1], term.operands[0]};
    encode(swapped, otherNames, otherKey);
    if (otherKey < key) {
      std::swap(term.operands[0], term.operands[1]);
      names = otherNames;
      key = otherKey;
    }
  }

  Summand summand;
  summand.coefficient = coefficient;
  summand.reference.indices.resize(numKept);
  term.sizes.resize(numKept);
  term.numKept = numKept;
  Substitution slots;
  for (Var var : vars) {
    unsigned slot = names.lookup(var);
    term.sizes[slot] = variables.getSize(var);
    summand.reference.indices[slot] = outer.lookup(var);
    slots[var] = Index::of(slot);
  }
  llvm::append_range(term.sizes, resultSizes);
  llvm::append_range(summand.reference.indices, results);
  for (auto [i, var] : llvm::enumerate(readVars)) {
    term.readSizes.push_back(variables.getSize(var.first));
    term.readGroups.push_back(var.second);
    slots[var.first] = Index::of(numKept + numResults + i);
  }
  for (Reference &operand : term.operands)
    for (Index &index : operand.indices)
      index = substitute(index, slots);
  summand.reference.term = intern(key, std::move(term));
  return {summand};
}
