//===- Wholes.cpp - what is made of parts, as a part of what is made of wholes -===//
//
// An op on parts of values that begin at one place makes a part of what it makes of the values, and
// so does one on elements of them. What one device makes of the whole is looked for; where parts
// are taken as such everywhere, their digits are those of the wholes.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Term.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::SmallVectorImpl;

/// Where all of `uses` read digits as one number, in digits of one size: they read one of that size
/// there. So what is made of a part of values, or of a block that came from another rank, is a part
/// of what is made of the whole.
void Terms::extendDigits(ArrayRef<Use> uses, llvm::SmallVectorImpl<Var> &vars,
                         llvm::DenseMap<Var, Index> &outer) {
  // The one index that reads the digit, if there is but one; its first use.
  auto onlyUseOf = [&](Var var) -> const Use * {
    const Use *only = nullptr;
    for (const Use &use : uses) {
      if (use.index->getCoefficient(var) == 0)
        continue;
      if (use.size == 0 || (only && (use.size != only->size || *use.index != *only->index)))
        return nullptr;
      only = only ? only : &use;
    }
    return only;
  };
  for (unsigned i = 0; i < vars.size(); ++i) {
    Var var = vars[i];
    const Use *use = onlyUseOf(var);
    if (!use)
      continue;
    Index read = *use->index;
    ArrayRef<Index::Part> parts = read.getParts();
    if (read == Index::of(var) && use->size == variables.getSize(var))
      continue;
    if (!llvm::all_of(parts, [&](const Index::Part &part) {
          const Use *other = llvm::is_contained(vars, part.var) ? onlyUseOf(part.var) : nullptr;
          return other && *other->index == read;
        }))
      continue;
    Var whole = variables.make(use->size);
    outer[whole] = substitute(read, Substitution(outer));
    if (breaks(Lemma::PartsAlike))
      outer[whole] = outer[whole] - Index(read.getConstant());
    for (const Use &other : uses)
      if (*other.index == read)
        *other.index = Index::of(whole);
    vars[i] = whole;
    llvm::erase_if(vars, [&](Var old) { return old != whole && read.getCoefficient(old) != 0; });
    // Others may have stood before it.
    i = llvm::find(vars, whole) - vars.begin();
  }
}

/// Whether the digit is of the row of which the term says whether it is named: not of what names
/// it.
bool Terms::isOfRow(const Term &term, unsigned digit) const {
  if (term.core.tag != Core::Tag::IsZero)
    return false;
  return llvm::any_of(term.operands, [&](const Reference &operand) {
    const Term &difference = terms[operand.term];
    // Of another form nothing is known.
    if (difference.kind != Term::Kind::Sum)
      return true;
    return llvm::any_of(difference.body, [&](const Summand &part) {
      return part.reference.term == identity &&
             llvm::any_of(part.reference.indices[0].getParts(), [&](const Index::Part &place) {
               return place.var < operand.indices.size() &&
                      operand.indices[place.var].getCoefficient(digit) != 0;
             });
    });
  });
}

/// The indices of a reference, and the sizes of the digits that they are; 0 where a part of the
/// digit is not one of what it is of. What says which row of a part is named is not one of the rows
/// (see `narrow`).
void Terms::collectUses(Reference &reference, SmallVectorImpl<Use> &uses, bool narrowsRows) {
  const Term &term = terms[reference.term];
  // What is no simpler at a part of its places is a part of it.
  bool isSimpler = isPartOfParts(reference) && !staysPart(reference);
  for (auto [i, index] : llvm::enumerate(reference.indices)) {
    bool hasConditions = isSimpler && i < term.hasConditions.size() && term.hasConditions[i] &&
                         !isAsWide(index, term.sizes[i]);
    bool isNarrow = narrowsRows && isOfRow(term, i);
    uses.push_back({&index, hasConditions || isNarrow ? 0 : term.sizes[i]});
  }
}

/// What ranks make of two parts, each at the rank's own place, is a part of what one device makes
/// of both wholes: an index then is a place of its own. Of operands in which a rank's place is read
/// in several ways: each of these by itself, and all.
std::vector<Terms::Operands> Terms::separateRanks(const Operands &given, ArrayRef<Var> read) {
  auto isRank = [&](Var var) {
    return llvm::any_of(given.outer.lookup(var).getParts(), [&](const Index::Part &part) {
      return llvm::is_contained(ranks, part.var);
    });
  };
  Operands own = given;
  SmallVector<Use> uses;
  for (Reference &operand : own.references)
    collectUses(operand, uses, /*narrowsRows=*/false);
  SmallVector<std::pair<Index, int64_t>> ways;
  for (Var var : given.vars) {
    SmallVector<std::pair<Index, int64_t>> own;
    for (const Use &use : uses)
      if (use.index->getCoefficient(var) != 0 &&
          !llvm::is_contained(own, std::pair(*use.index, use.size)))
        own.push_back({*use.index, use.size});
    if (own.size() > 1 && isRank(var))
      for (const auto &way : own)
        if (!llvm::is_contained(ways, way))
          ways.push_back(way);
  }
  // What has conditions at some places is not one value at all of them, and what is read along is
  // no place.
  llvm::erase_if(ways, [&](const auto &way) {
    return way.second == 0 ||
           llvm::any_of(read, [&](Var along) { return way.first.getCoefficient(along) != 0; });
  });
  std::vector<Operands> made;
  if (breaks(Lemma::PartsOfWholes))
    return made;
  for (unsigned chosen = 0; chosen < ways.size() + (ways.size() > 2); ++chosen) {
    Operands separate = given;
    SmallVector<Use> indices;
    for (Reference &operand : separate.references)
      collectUses(operand, indices, /*narrowsRows=*/false);
    for (auto [number, way] : llvm::enumerate(ways)) {
      if (chosen < ways.size() && chosen != number)
        continue;
      Var place = variables.make(way.second);
      separate.outer[place] = substitute(way.first, Substitution(given.outer));
      for (Use &use : indices)
        if (*use.index == way.first && use.size == way.second)
          *use.index = Index::of(place);
    }
    separate.vars.clear();
    for (const Use &use : indices)
      collectVars(*use.index, separate.vars);
    llvm::erase_if(separate.vars, [&](Var var) { return llvm::is_contained(read, var); });
    settleDigits(separate, areParts);
    made.push_back(std::move(separate));
  }
  return made;
}

/// What is made of elements at one place is the element there of what is made of the wholes, as one
/// device makes it: which of the elements are at a place of the whole, and which are at the same
/// one, is tried out. Visits operands until `visit` returns true.
void Terms::visitElements(const Operands &given, llvm::function_ref<bool(Operands &)> visit) {
  Operands own = given;
  SmallVector<Use> uses, elements;
  for (Reference &operand : own.references)
    collectUses(operand, uses, /*narrowsRows=*/false);
  for (const Use &use : uses)
    if (int64_t place = use.index->getConstant();
        use.index->isConstant() && use.size > 1 && place >= 0 && place < use.size)
      elements.push_back(use);
  if (elements.empty())
    return;
  SmallVector<Index> places;
  for (const Use &use : elements)
    places.push_back(*use.index);
  // The digit of each: one that an earlier one has, the next one, or none. All in one come first.
  SmallVector<std::pair<Var, unsigned>> digits;
  // A number that a digit is a part of has it at the same place: of a whole that lies in one digit
  // an element of another one. False if there is none.
  auto takeInNumbers = [&](Operands &made) {
    bool isTaken = false;
    SmallVector<Use> numbers;
    for (Reference &operand : made.references)
      collectUses(operand, numbers, /*narrowsRows=*/false);
    for (auto [digit, first] : digits) {
      int64_t place = places[first].getConstant(), size = elements[first].size;
      for (const Use &use : numbers) {
        int64_t begin = use.index->getConstant();
        if (place == 0 || begin == 0 || begin % place || use.size <= size)
          continue;
        Index number = *use.index + Index::of(digit, begin / place) - Index(begin);
        auto [least, greatest] = variables.getRange(number);
        if (use.index->isConstant() || use.index->getCoefficient(digit) || least < 0 ||
            greatest >= use.size)
          continue;
        *use.index = number;
        isTaken = true;
      }
    }
    return isTaken;
  };
  auto visitOwn = [&]() {
    for (bool inNumbers : {false, true}) {
      Operands made = own;
      if (inNumbers && !takeInNumbers(made))
        continue;
      for (auto [digit, first] : digits) {
        made.vars.push_back(digit);
        made.outer[digit] = breaks(Lemma::ElementsAlike) ? Index() : places[first];
      }
      settleDigits(made, areParts);
      if (visit(made))
        return true;
    }
    return false;
  };
  auto digitOf = [&](unsigned number) {
    for (auto [digit, first] : digits)
      if (elements[first].size == elements[number].size && places[first] == places[number])
        return digit;
    digits.push_back({variables.make(elements[number].size), number});
    return digits.back().first;
  };
  // Of more there are too many ways: those at one place are of one digit.
  constexpr unsigned kMost = 5;
  if (elements.size() > kMost) {
    for (auto [number, use] : llvm::enumerate(elements))
      *use.index = Index::of(digitOf(number));
    visitOwn();
    return;
  }
  auto tryFrom = [&](auto &self, unsigned number) -> bool {
    if (number == elements.size())
      return !digits.empty() && visitOwn();
    const Use &use = elements[number];
    for (unsigned i = 0; i < digits.size(); ++i) {
      auto [digit, first] = digits[i];
      if (elements[first].size != use.size || places[first] != places[number])
        continue;
      *use.index = Index::of(digit);
      if (self(self, number + 1))
        return true;
    }
    digits.push_back({variables.make(use.size), number});
    *use.index = Index::of(digits.back().first);
    if (self(self, number + 1))
      return true;
    digits.pop_back();
    *use.index = places[number];
    return self(self, number + 1);
  };
  tryFrom(tryFrom, 0);
}

/// What is made of parts that begin at one place, as one device makes it: in all of what reads a
/// digit, and in whatever way, the place in the wholes stands for it. Visits operands until `visit`
/// returns true.
void Terms::visitWholes(const Operands &given, llvm::function_ref<bool(Operands &)> visit) {
  auto forEach = [&](Operands &operands, auto use) {
    for (Reference &operand : operands.references)
      for (auto [index, size] : llvm::zip(operand.indices, terms[operand.term].sizes))
        use(index, size);
  };
  // Of a digit what begins at `begin`, of a whole of `size`.
  struct Part {
    Var digit;
    int64_t begin, size;
  };
  SmallVector<Part> parts;
  Operands own = given;
  forEach(own, [&](const Index &index, int64_t size) {
    ArrayRef<Index::Part> digits = index.getParts();
    if (digits.size() != 1 || digits[0].coefficient != 1 ||
        size <= variables.getSize(digits[0].var) || !llvm::is_contained(given.vars, digits[0].var))
      return;
    if (llvm::none_of(parts, [&](const Part &part) { return part.digit == digits[0].var; }))
      parts.push_back({digits[0].var, index.getConstant(), size});
  });
  auto replace = [&](Operands &operands, const Part &part) {
    Var whole = variables.make(part.size);
    Substitution change;
    change[part.digit] = Index::of(whole) - Index(part.begin);
    bool fits = true;
    forEach(operands, [&](Index &index, int64_t size) {
      if (index.getCoefficient(part.digit) == 0)
        return;
      index = substitute(index, change);
      auto [least, greatest] = variables.getRange(index);
      fits &= size == 0 || (least >= 0 && greatest < size);
    });
    *llvm::find(operands.vars, part.digit) = whole;
    operands.outer[whole] =
        operands.outer.lookup(part.digit) + Index(breaks(Lemma::PartsAlike) ? 0 : part.begin);
    return fits;
  };
  // All of them, and each alone.
  for (unsigned chosen = 0; chosen < parts.size() + (parts.size() > 1); ++chosen) {
    Operands made = given;
    bool fits = true;
    for (auto [i, part] : llvm::enumerate(parts))
      if (parts.size() == 1 || chosen == 0 || chosen == i + 1)
        fits = fits && replace(made, part);
    if (!fits)
      continue;
    settleDigits(made, areParts);
    if (visit(made))
      return;
  }
}
