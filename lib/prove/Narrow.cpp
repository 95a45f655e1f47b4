//===- Narrow.cpp - values at a part of their places -------------------------===//
//
// Where a condition inside of a value is decided by the places at which it is taken, it is made
// again there, and is a simpler one. Where none is, it stays a part of the whole.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/TermText.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;

/// How many values the index may have.
static int64_t widthOf(const Index &index, const Variables &variables) {
  auto [least, greatest] = variables.getRange(index);
  return greatest - least + 1;
}

/// Whether the index has at least as many values as the digit, wherever they begin.
bool Terms::isAsWide(const Index &index, int64_t size) const {
  return widthOf(index, variables) >= size;
}

/// Whether it is an op's value at a part of places on which conditions inside of it depend: there
/// it may be a simpler one.
bool Terms::isPartOfParts(const Reference &reference) const {
  const Term &term = terms[reference.term];
  if (term.kind != Term::Kind::Op)
    return false;
  for (auto [i, depends] : llvm::enumerate(term.hasConditions))
    if (depends && !isAsWide(reference.indices[i], term.sizes[i]))
      return true;
  return false;
}

/// The op applied again, to its operands as they are at these indices.
Meaning Terms::makeAt(const Reference &reference) {
  const Term &term = terms[reference.term];
  SmallVector<Var> vars;
  std::vector<Meaning> operands = getOperands(reference, &vars);
  SmallVector<SmallVector<Var, 2>> read;
  for (auto [var, group] : llvm::zip(vars, term.readGroups)) {
    read.resize(std::max<size_t>(read.size(), group + 1));
    read[group].push_back(var);
  }
  ArrayRef<Index> indices = reference.indices;
  return apply(term.core, operands, read, indices.drop_front(term.numKept),
               ArrayRef(term.sizes).drop_front(term.numKept));
}

/// Makes the value of an op again that is taken at two places which depend on one digit: then it
/// has fewer.
bool Terms::remake(const Summand &summand, Meaning &result) {
  const Term &term = terms[summand.reference.term];
  SmallVector<Var> seen;
  auto isAgain = [&](const Index &index) {
    bool isAgain = llvm::any_of(index.getParts(), [&](const Index::Part &part) {
      return llvm::is_contained(seen, part.var);
    });
    collectVars(index, seen);
    return isAgain;
  };
  // What says which row is named is another value of a part of the rows.
  bool isPart =
      areParts && !llvm::all_of(llvm::zip(term.sizes, summand.reference.indices), [&](auto entry) {
        auto [size, index] = entry;
        return widthOf(index, variables) == size;
      });
  if (term.kind != Term::Kind::Op || breaks(Lemma::MadeAgain) ||
      (!isPart && llvm::none_of(summand.reference.indices, isAgain)))
    return false;
  for (Summand &part : makeAt(summand.reference)) {
    part.coefficient *= summand.coefficient;
    llvm::append_range(part.bound, summand.bound);
    llvm::append_range(part.guards, summand.guards);
    normalizeSummand(std::move(part), result);
  }
  return true;
}

/// What the term is made of, whatever the sizes of its digits: equal for two of which one is the
/// other at fewer places, with the same sums and conditions.
uint64_t Terms::shapeOf(TermId id) {
  if (shapes.size() < terms.size())
    shapes.resize(terms.size());
  if (shapes[id])
    return *shapes[id];
  const Term &term = terms[id];
  uint64_t shape = 0;
  if (term.kind == Term::Kind::Leaf) {
    shape = llvm::hash_combine(id);
  } else if (term.kind == Term::Kind::Op) {
    SmallVector<uint64_t> operands;
    for (const Reference &operand : term.operands)
      operands.push_back(shapeOf(operand.term));
    // The order of factors is that of terms.
    if (term.core.isProduct)
      llvm::sort(operands);
    uint64_t numRead = 1;
    for (int64_t size : term.readSizes)
      numRead *= size;
    shape = llvm::hash_combine(term.core.key, numRead,
                               llvm::hash_combine_range(operands.begin(), operands.end()));
  } else {
    auto sizeOf = [&](Var bound) { return term.boundSizes[bound - term.sizes.size()]; };
    for (const Summand &summand : term.body) {
      uint64_t own = shapeOf(summand.reference.term);
      uint64_t numBound = 1;
      for (Var bound : summand.bound)
        numBound *= sizeOf(bound);
      std::string coefficient;
      llvm::raw_string_ostream os(coefficient);
      write(os, summand.coefficient);
      // A block of a long sum is its summands.
      bool isBlock = summand.bound.empty() && summand.guards.empty() &&
                     summand.coefficient == Rational(1) &&
                     terms[summand.reference.term].kind == Term::Kind::Sum;
      shape +=
          isBlock ? own
                  : uint64_t(llvm::hash_combine(own, numBound, summand.guards.size(), coefficient));
    }
  }
  shapes[id] = shape;
  return shape;
}

/// Whether what it is at these places has all of its sums and conditions, and so is no simpler.
bool Terms::staysPart(const Reference &reference) {
  if (breaks(Lemma::PartStays))
    return false;
  Meaning made = partOfParts(reference);
  return made.size() == 1 && made[0].coefficient == Rational(1) && made[0].bound.empty() &&
         made[0].guards.empty() && shapeOf(made[0].reference.term) == shapeOf(reference.term);
}

/// The same, found once for all indices that differ only in their digits: many values of a deep
/// program depend on one.
Meaning Terms::partOfParts(const Reference &reference) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << reference.term;
  Names names;
  unsigned next = 0;
  SmallVector<Var> digits;
  for (const Index &index : reference.indices) {
    for (const Index::Part &part : index.getParts()) {
      if (names.try_emplace(part.var, next).second) {
        ++next;
        digits.push_back(part.var);
      }
      os << ' ' << part.coefficient << '*' << names.lookup(part.var) << ':'
         << variables.getSize(part.var);
    }
    os << '+' << index.getConstant() << ';';
  }
  auto found = knownParts.find(key);
  if (found == knownParts.end()) {
    KnownPart part;
    Substitution own;
    for (Var digit : digits) {
      part.digits.push_back(variables.make(variables.getSize(digit)));
      own[digit] = Index::of(part.digits.back());
    }
    Reference there = reference;
    for (Index &index : there.indices)
      index = substitute(index, own);
    // What is made of operands that stay parts may be the part of this term again.
    part.meaning.emplace_back().reference = there;
    knownParts[key] = part;
    part.meaning.clear();
    for (Summand &summand : makeAt(there))
      normalizeSummand(std::move(summand), part.meaning);
    knownParts[key] = std::move(part);
    found = knownParts.find(key);
  }
  Meaning meaning = found->second.meaning;
  Substitution given;
  for (auto [own, digit] : llvm::zip(found->second.digits, digits))
    given[own] = Index::of(digit);
  for (Summand &summand : meaning) {
    Substitution all = given;
    for (Var &bound : summand.bound) {
      Var fresh = variables.make(variables.getSize(bound));
      all[bound] = Index::of(fresh);
      bound = fresh;
    }
    substitute(summand, all);
  }
  return meaning;
}

/// Of what says which row is named, a part of the rows is that of these rows; and so it is of what
/// is made of parts that were put together.
bool Terms::narrow(const Summand &summand, Meaning &result) {
  const Reference &reference = summand.reference;
  const Term &term = terms[reference.term];
  auto isIndicator = [&](TermId id) { return terms[id].core.tag == Core::Tag::IsZero; };
  auto isOfRows = [&] {
    return !breaks(Lemma::RowsOfPart) && term.kind == Term::Kind::Op && term.readSizes.empty() &&
           term.numKept == term.sizes.size() &&
           (isIndicator(reference.term) ||
            (term.core.isProduct &&
             llvm::any_of(term.operands,
                          [&](const Reference &operand) { return isIndicator(operand.term); }))) &&
           !llvm::all_of(llvm::zip(term.sizes, reference.indices), [&](auto entry) {
             auto [size, index] = entry;
             return widthOf(index, variables) == size;
           });
  };
  bool isPart = isPartOfParts(reference);
  if (isPart ? staysPart(reference) : !isOfRows())
    return false;
  Meaning made = isPart ? partOfParts(reference) : makeAt(reference);
  // At the places of a rank it may be what one device makes, and nothing narrower.
  if (made.size() == 1 && made[0].reference.term == reference.term &&
      llvm::equal(made[0].reference.indices, reference.indices))
    return false;
  for (Summand &part : made) {
    part.coefficient *= summand.coefficient;
    llvm::append_range(part.bound, summand.bound);
    llvm::append_range(part.guards, summand.guards);
    normalizeSummand(std::move(part), result);
  }
  return true;
}
