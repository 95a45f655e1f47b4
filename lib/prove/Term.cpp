//===- Term.cpp - values of the whole program, made unique ------------------===//

#include "lib/prove/TermText.h"

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

void cleave::prove::substitute(Summand &summand, const Substitution &substitution) {
  for (Guard &guard : summand.guards)
    guard.index = substitute(guard.index, substitution);
  for (Index &index : summand.reference.indices)
    index = substitute(index, substitution);
}

void cleave::prove::substitute(Meaning &meaning, const Substitution &substitution) {
  for (Summand &summand : meaning)
    substitute(summand, substitution);
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
  if (isNew) {
    auto isOfInfinite = [&](const auto &part) { return terms[part.term].mayBeInfinite; };
    term.mayBeInfinite =
        term.core.isUnbounded || term.core.tag == Core::Tag::Infinite ||
        llvm::any_of(term.operands, isOfInfinite) ||
        llvm::any_of(term.body, [&](const Summand &part) { return isOfInfinite(part.reference); });
    terms.push_back(std::move(term));
  }
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
                        llvm::DenseMap<Var, Index> &outer, bool areOrdered) {
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
    return isUsed && !breaks(Lemma::MergedDigits);
  };
  for (bool changes = true; changes;) {
    changes = false;
    for (unsigned i = 0; i < vars.size() && !changes; ++i)
      for (unsigned j = 0; j < vars.size() && !changes; ++j) {
        if (i == j || (areOrdered && j != i + 1) || !tryToMerge(vars[i], vars[j]))
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

static uint64_t mix(uint64_t code, uint64_t more) {
  code = (code ^ more) * 0x9ddfea08eb382d69;
  return code ^ (code >> 29);
}

size_t cleave::prove::likenessOf(const Summand &summand, const Variables &variables) {
  auto hash = [&](const Index &index) {
    uint64_t parts = 0;
    for (const Index::Part &part : index.getParts()) {
      bool isBound = llvm::is_contained(summand.bound, part.var);
      int64_t digit = isBound ? variables.getSize(part.var) : part.var;
      parts += mix(mix(2 * digit + isBound, part.coefficient), 1);
    }
    return mix(parts, index.getConstant());
  };
  uint64_t guards = 0;
  for (const Guard &guard : summand.guards)
    guards += mix(mix(hash(guard.index), guard.low), guard.high);
  uint64_t code = mix(summand.reference.term, guards);
  for (const Index &index : summand.reference.indices)
    code = mix(code, hash(index));
  return code;
}

void Terms::combine(Meaning &meaning) {
  // Only those of one term may be alike, and of these few are: the others need no text.
  llvm::SmallDenseMap<TermId, unsigned> terms;
  for (const Summand &summand : meaning)
    ++terms[summand.reference.term];
  if (terms.size() == meaning.size())
    return;
  SmallVector<size_t> codes;
  llvm::SmallDenseMap<size_t, unsigned> counts;
  for (const Summand &summand : meaning)
    ++counts[codes.emplace_back(likenessOf(summand, variables))];
  if (counts.size() == meaning.size())
    return;
  llvm::StringMap<unsigned> places;
  Meaning combined;
  for (auto [code, summand] : llvm::zip(codes, meaning)) {
    if (counts.lookup(code) == 1) {
      combined.push_back(std::move(summand));
      continue;
    }
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
    else if (!breaks(Lemma::LikeTerms))
      combined[place->second].coefficient += summand.coefficient;
  }
  llvm::erase_if(combined, [](const Summand &summand) { return summand.coefficient.num == 0; });
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
      total = total + Index(breaks(Lemma::PlacesAdd) ? 0 : *asInteger(summand.coefficient));
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

Meaning Terms::flatten(Meaning meaning) {
  Meaning result;
  result.reserve(meaning.size());
  for (Summand &summand : meaning)
    normalizeSummand(std::move(summand), result);
  combine(result);
  while (
      joinIntervals(result) ||
      (areParts && !arePieces && (joinPlace(result) || joinNext(result) || joinFactors(result))) ||
      (arePieces && joinDifferences(result)) || ((areShares || arePieces) && joinBlocks(result)) ||
      joinPrefix(result)) {
    // What holds everywhere is no condition.
    llvm::erase_if(result, [&](Summand &summand) { return !simplifyGuards(summand); });
    combine(result);
  }
  combinePositions(result);
  return result;
}

Meaning Terms::normalize(Meaning meaning) {
  if (meaning.size() == 1 && isFolded(meaning[0]))
    return meaning[0].coefficient == Rational(0) ? Meaning() : meaning;
  if (std::optional<Meaning> sum = addToFolded(meaning))
    return std::move(*sum);
  return fold(flatten(std::move(meaning)));
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
    substitute(summand, digits);
  }
  return normalize(std::move(meaning));
}

Meaning Terms::add(Meaning left, const Meaning &right) {
  llvm::append_range(left, right);
  return normalize(std::move(left));
}

Meaning Terms::scale(Meaning meaning, const Rational &factor) {
  if (isSame(factor, Rational(1)))
    return meaning;
  for (Summand &summand : meaning)
    summand.coefficient *= factor;
  // Only a multiple of a place has another normal form.
  bool hasPlaces = llvm::any_of(
      meaning, [&](const Summand &summand) { return summand.reference.term == identity; });
  return factor.num == 0 || hasPlaces ? normalize(std::move(meaning)) : meaning;
}

/// Whether both are written alike, with the same digits.
static bool isWrittenAlike(const Summand &a, const Summand &b) {
  return a.reference.term == b.reference.term && isSame(a.coefficient, b.coefficient) &&
         a.bound == b.bound && a.reference.indices == b.reference.indices &&
         llvm::equal(a.guards, b.guards, [](const Guard &own, const Guard &other) {
           return own.low == other.low && own.high == other.high && own.index == other.index;
         });
}

bool Terms::areEqual(const Meaning &left, const Meaning &right) {
  if (llvm::equal(left, right, isWrittenAlike))
    return !late;
  // A single value that is not a sum has one form.
  auto isFinal = [&](const Meaning &meaning) {
    TermId term = meaning.size() == 1 ? meaning[0].reference.term : identity;
    return term != identity && term != one && terms[term].kind != Term::Kind::Sum &&
           meaning[0].bound.empty() && !isPartOfParts(meaning[0].reference);
  };
  if (isFinal(left) && isFinal(right) && left[0].reference.term != right[0].reference.term)
    return false;
  Meaning difference;
  difference.reserve(left.size() + right.size());
  llvm::append_range(difference, right);
  for (Summand &summand : difference)
    summand.coefficient = -summand.coefficient;
  llvm::append_range(difference, left);
  Meaning rest = flatten(std::move(difference));
  if (rest.empty() || late)
    return !late;
  // What was put together before an op, and after it; and what is taken at places that depend on
  // one another, once conditions say so.
  Meaning opened;
  bool isOpened = false;
  for (Summand &summand : rest)
    if (sumByPart(summand, opened, /*anywhere=*/true) || remake(summand, opened))
      isOpened = true;
    else
      opened.push_back(std::move(summand));
  return isOpened && flatten(std::move(opened)).empty() && !late;
}

//===----------------------------------------------------------------------===//
// Parts of terms
//===----------------------------------------------------------------------===//

std::vector<Meaning> Terms::getOperands(const Reference &reference,
                                        llvm::SmallVectorImpl<Var> *read) {
  const Term &term = terms[reference.term];
  Substitution digits;
  for (unsigned i = 0; i < term.numKept; ++i)
    digits[i] = reference.indices[i];
  for (auto [i, size] : llvm::enumerate(term.readSizes)) {
    Var fresh = variables.make(size);
    digits[term.sizes.size() + i] = Index::of(fresh);
    if (read)
      read->push_back(fresh);
  }
  // Operands are normal in the term's own digits.
  bool isNormal = !arePieces && isWhole(ArrayRef(reference.indices).take_front(term.numKept),
                                        ArrayRef(term.sizes).take_front(term.numKept));
  std::vector<Meaning> operands;
  operands.reserve(term.operands.size());
  for (const Reference &operand : term.operands) {
    Meaning meaning = instantiate(operand, digits);
    if (!isNormal || !openNormal(meaning))
      meaning = normalize(std::move(meaning));
    operands.push_back(std::move(meaning));
  }
  return operands;
}

/// Of the value of a term that is normal: its summands, if it is a short sum. False if more is
/// needed.
bool Terms::openNormal(Meaning &meaning) {
  TermId term = meaning[0].reference.term;
  if (term == identity || term == one)
    return false;
  if (terms[term].kind != Term::Kind::Sum || isFolded(meaning[0]))
    return true;
  if (!isWhole(meaning[0].reference))
    return false;
  Meaning parts;
  unfold(meaning[0], parts);
  if (llvm::any_of(parts, [&](const Summand &part) {
        return terms[part.reference.term].kind == Term::Kind::Sum ||
               part.reference.term == identity;
      }))
    return false;
  meaning = std::move(parts);
  return true;
}

std::optional<Index> Terms::asPosition(const Meaning &meaning) const {
  if (meaning.empty())
    return Index();
  if (meaning.size() != 1 || !meaning[0].bound.empty() || !meaning[0].guards.empty())
    return std::nullopt;
  std::optional<int64_t> coefficient = asInteger(meaning[0].coefficient);
  if (!coefficient)
    return std::nullopt;
  if (meaning[0].reference.term == one)
    return Index(*coefficient);
  if (meaning[0].reference.term == identity)
    return meaning[0].reference.indices[0] * *coefficient;
  return std::nullopt;
}

bool Terms::mentions(const Meaning &meaning, Var var) const {
  auto has = [&](const Index &index) { return index.getCoefficient(var) != 0; };
  return llvm::any_of(meaning, [&](const Summand &summand) {
    return llvm::any_of(summand.reference.indices, has) ||
           llvm::any_of(summand.guards, [&](const Guard &guard) { return has(guard.index); });
  });
}

bool Terms::dependsOn(const Meaning &meaning, const llvm::StringSet<> &leaves) const {
  llvm::SmallDenseSet<TermId> seen;
  SmallVector<TermId> reached;
  auto reach = [&](TermId term) {
    if (seen.insert(term).second)
      reached.push_back(term);
  };
  for (const Summand &summand : meaning)
    reach(summand.reference.term);
  while (!reached.empty()) {
    const Term &term = terms[reached.pop_back_val()];
    if (term.kind == Term::Kind::Leaf && leaves.contains(term.core.key))
      return true;
    for (const Reference &operand : term.operands)
      reach(operand.term);
    for (const Summand &summand : term.body)
      reach(summand.reference.term);
  }
  return false;
}
