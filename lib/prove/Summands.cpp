//===- Summands.cpp - the normal form of one summand -------------------------===//
//
// Sums over digits move inwards through what is linear.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/TermText.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;

Meaning Terms::instantiate(const Reference &reference, const Substitution &digits) {
  Summand summand;
  summand.reference = reference;
  Meaning meaning{std::move(summand)};
  substitute(meaning, digits);
  return meaning;
}

bool Terms::pushInwards(const Summand &summand, Meaning &result) {
  const Term &term = terms[summand.reference.term];
  auto linear = ArrayRef(term.core.linear);
  const SmallVector<unsigned, 2> all{0};
  if (breaks(Lemma::SumInwards) && term.operands.size() == 1)
    linear = all;
  if (term.kind != Term::Kind::Op || linear.empty())
    return false;
  ArrayRef<Index> indices = summand.reference.indices;
  for (Var var : summand.bound) {
    if (llvm::any_of(summand.guards,
                     [&](const Guard &guard) { return guard.index.getCoefficient(var) != 0; }) ||
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
    const auto *group = llvm::find_if(linear, [&](ArrayRef<unsigned> operands) {
      return llvm::all_of(users, [&](unsigned i) { return llvm::is_contained(operands, i); });
    });
    if (group == linear.end())
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
    Core core = term.core;
    core.linear.assign(linear.begin(), linear.end());
    Meaning pushed = apply(core, operands, read, indices.drop_front(term.numKept),
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

/// Of a summand the condition that the digit lies in an interval, which may begin where digits say
/// that the summand binds.
static Guard *intervalOf(Summand &part, Var var) {
  auto *found = llvm::find_if(part.guards, [&](const Guard &guard) {
    return guard.index.getCoefficient(var) == 1 &&
           llvm::all_of(guard.index.getParts(), [&](const Index::Part &digit) {
             return digit.var == var || llvm::is_contained(part.bound, digit.var);
           });
  });
  return found == part.guards.end() ? nullptr : found;
}

/// A sum over the places of an operand that is put together of parts is one sum for each part, over
/// its own places: in whatever digits the whole is read. `anywhere`: so is what is made at other
/// places, where conditions hold.
bool Terms::sumByPart(const Summand &summand, Meaning &result, bool anywhere) {
  const Term &term = terms[summand.reference.term];
  if (!arePartsSummed || term.kind != Term::Kind::Op)
    return false;
  auto isOfParts = [&](const Reference &operand) {
    const Term &sum = terms[operand.term];
    return sum.kind == Term::Kind::Sum &&
           llvm::all_of(sum.body, [](const Summand &part) { return !part.guards.empty(); });
  };
  for (ArrayRef<unsigned> group : term.core.linear) {
    if (group.size() != 1 || !isOfParts(term.operands[group[0]]))
      continue;
    SmallVector<Var> vars;
    std::vector<Meaning> operands = getOperands(summand.reference, &vars);
    Meaning parts = operands[group[0]];
    const auto *var = llvm::find_if(summand.bound, [&](Var var) {
      return llvm::all_of(parts, [&](Summand &part) { return intervalOf(part, var); });
    });
    bool isSummed = var != summand.bound.end();
    auto isRead = [&](const Guard &guard) {
      return llvm::any_of(vars, [&](Var read) { return guard.index.getCoefficient(read) != 0; });
    };
    if (!isSummed && (!anywhere || llvm::any_of(parts, [&](const Summand &part) {
          return llvm::any_of(part.guards, isRead);
        })))
      continue;
    SmallVector<SmallVector<Var, 2>> read;
    for (auto [digit, number] : llvm::zip(vars, term.readGroups)) {
      read.resize(std::max<size_t>(read.size(), number + 1));
      read[number].push_back(digit);
    }
    Core core = term.core;
    SmallVector<int64_t, 4> sizes(ArrayRef(term.sizes).drop_front(term.numKept));
    SmallVector<Index, 6> results(ArrayRef(summand.reference.indices).drop_front(term.numKept));
    // What holds at the same places stays together.
    std::vector<Meaning> pieces;
    for (Summand &part : parts) {
      auto hasOwn = [&](const Summand &other) {
        return llvm::any_of(other.guards, [&](const Guard &guard) {
          return llvm::any_of(other.bound,
                              [&](Var own) { return guard.index.getCoefficient(own) != 0; });
        });
      };
      auto same = isSummed || hasOwn(part)
                      ? pieces.end()
                      : llvm::find_if(pieces, [&](const Meaning &piece) {
                          return !hasOwn(piece[0]) && hasSameGuards(piece[0], part);
                        });
      if (same == pieces.end())
        pieces.push_back({std::move(part)});
      else
        same->push_back(std::move(part));
    }
    for (Meaning &piece : pieces) {
      Summand &part = piece.front();
      SmallVector<Var, 2> bound(summand.bound);
      SmallVector<Guard, 1> guards(summand.guards);
      Substitution digits, ofOthers;
      if (isSummed) {
        Guard *interval = intervalOf(part, *var);
        Index begin = Index(interval->low) + Index::of(*var) - interval->index;
        Var within = variables.make(interval->high - interval->low);
        Index place = begin + Index::of(within);
        *llvm::find(bound, *var) = within;
        // Parts may reach over the ends.
        guards.push_back({place, 0, variables.getSize(*var)});
        digits[*var] = place;
        // Wrong: the other operands where the first part lies.
        ofOthers[*var] = breaks(Lemma::SumByPart) ? Index::of(within) : place;
        part.guards.erase(interval);
      } else {
        guards.append(part.guards);
        for (Summand &other : piece)
          other.guards.clear();
      }
      // Digits that the sum's conditions have are summed there.
      llvm::erase_if(part.bound, [&](Var own) {
        bool isOutside = llvm::any_of(
            guards, [&](const Guard &guard) { return guard.index.getCoefficient(own) != 0; });
        if (isOutside)
          bound.push_back(own);
        return isOutside;
      });
      std::vector<Meaning> given = operands;
      given[group[0]] = piece;
      for (auto [number, operand] : llvm::enumerate(given)) {
        substitute(operand, number == group[0] ? digits : ofOthers);
        operand = normalize(std::move(operand));
      }
      SmallVector<Index, 6> places(results);
      for (Index &place : places)
        place = substitute(place, digits);
      for (Summand &made : apply(core, given, read, places, sizes)) {
        made.coefficient *= summand.coefficient;
        llvm::append_range(made.bound, bound);
        for (const Guard &guard : guards)
          made.guards.push_back({substitute(guard.index, digits), guard.low, guard.high});
        normalizeSummand(std::move(made), result);
      }
    }
    return true;
  }
  return false;
}

/// Drops a bound digit that only one guard uses, where this holds for at most one of its values,
/// and for one wherever the rest is in an interval.
bool Terms::dropChoices(Summand &summand) {
  bool drops = false;
  llvm::erase_if(summand.bound, [&](Var var) {
    auto mentions = [&](const Index &index) { return index.getCoefficient(var) != 0; };
    auto uses = [&](const Guard &guard) { return mentions(guard.index); };
    if (llvm::any_of(summand.reference.indices, mentions) ||
        llvm::count_if(summand.guards, uses) != 1)
      return false;
    auto *guard = llvm::find_if(summand.guards, uses);
    int64_t stride = guard->index.getCoefficient(var), width = guard->high - guard->low;
    if (std::abs(stride) != width || breaks(Lemma::ConditionChosen))
      return false;
    // The multiple of the width that brings the rest between the bounds.
    int64_t last = width * (variables.getSize(var) - 1);
    guard->index = guard->index - Index::of(var, stride);
    (stride < 0 ? guard->high : guard->low) += stride < 0 ? last : -last;
    drops = true;
    return true;
  });
  return drops;
}

/// The sum, over all places of a dimension, of whether an index is that one is 1.
bool Terms::chooseOnce(Summand &summand) {
  const Term &term = terms[summand.reference.term];
  if (term.core.tag != Core::Tag::IsZero || term.operands.size() != 1 || breaks(Lemma::ChosenOnce))
    return false;
  Meaning difference = getOperands(summand.reference)[0];
  const Summand *choice = nullptr;
  Meaning place;
  for (const Summand &part : difference) {
    if (terms[part.reference.term].core.tag != Core::Tag::Choice) {
      place.push_back(part);
      continue;
    }
    if (choice || !part.bound.empty() || !part.guards.empty() ||
        (part.coefficient != Rational(1) && part.coefficient != Rational(-1)))
      return false;
    choice = &part;
  }
  if (!choice)
    return false;
  std::optional<Index> at = asPosition(scale(std::move(place), -choice->coefficient));
  if (!at || at->getParts().size() != 1 || at->getConstant() != 0 ||
      at->getParts()[0].coefficient != 1)
    return false;
  Var var = at->getParts()[0].var;
  auto *bound = llvm::find(summand.bound, var);
  auto mentions = [&](const Index &index) { return index.getCoefficient(var) != 0; };
  if (bound == summand.bound.end() ||
      variables.getSize(var) != terms[choice->reference.term].core.number ||
      llvm::any_of(choice->reference.indices, mentions) ||
      llvm::any_of(summand.guards, [&](const Guard &guard) { return mentions(guard.index); }))
    return false;
  summand.bound.erase(bound);
  summand.reference = {one, {}};
  return true;
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
  if (summand.coefficient.num == 0 || isLate() || !simplifyGuards(summand))
    return;
  Reference &reference = summand.reference;

  if (terms[reference.term].kind == Term::Kind::Sum) {
    bool isNormal = isWholeSum(summand);
    Meaning parts;
    unfold(summand, parts);
    for (Summand &part : parts) {
      // In other digits it is as normal as it was.
      if (isNormal && terms[part.reference.term].kind != Term::Kind::Sum) {
        result.push_back(std::move(part));
        continue;
      }
      llvm::append_range(part.bound, summand.bound);
      llvm::append_range(part.guards, summand.guards);
      normalizeSummand(std::move(part), result);
    }
    return;
  }

  auto isUsed = [&](Var var) {
    auto mentions = [&](const Index &index) { return index.getCoefficient(var) != 0; };
    return llvm::any_of(reference.indices, mentions) ||
           llvm::any_of(summand.guards, [&](const Guard &guard) { return mentions(guard.index); });
  };
  if (dropChoices(summand) && !simplifyGuards(summand))
    return;
  llvm::erase_if(summand.bound, [&](Var var) {
    if (isUsed(var))
      return false;
    countsOpen |= variables.getSize(var) == kOpenSize;
    if (!breaks(Lemma::SumOfUnused))
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
  if (!summand.bound.empty() && chooseOnce(summand)) {
    normalizeSummand(std::move(summand), result);
    return;
  }
  if (!summand.bound.empty() && (pushInwards(summand, result) || separateFactors(summand, result) ||
                                 sumByPart(summand, result, /*anywhere=*/false)))
    return;
  if (narrow(summand, result))
    return;
  result.push_back(std::move(summand));
}
