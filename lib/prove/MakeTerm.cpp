//===- MakeTerm.cpp - terms of ops and of sums ------------------------------===//

#include "lib/prove/TermText.h"

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::DynamicAPInt;
using llvm::SmallVector;
using llvm::SmallVectorImpl;

static void collectVars(const Index &index, SmallVector<Var> &vars) {
  for (const Index::Part &part : index.getParts())
    if (!llvm::is_contained(vars, part.var))
      vars.push_back(part.var);
}

/// Finds the digits on which conditions inside of it depend.
void Terms::findConditions(Term &term) const {
  if (!arePieces)
    return;
  auto note = [&](const Index &index) {
    for (const Index::Part &part : index.getParts()) {
      // Others are bound, or read along.
      if (part.var >= term.sizes.size())
        continue;
      term.hasConditions.resize(term.sizes.size());
      term.hasConditions[part.var] = true;
    }
  };
  auto noteInner = [&](const Reference &reference) {
    for (auto [i, depends] : llvm::enumerate(terms[reference.term].hasConditions))
      if (depends)
        note(reference.indices[i]);
  };
  llvm::for_each(term.operands, noteInner);
  for (const Summand &summand : term.body) {
    for (const Guard &guard : summand.guards)
      note(guard.index);
    noteInner(summand.reference);
  }
}

/// Where all of `uses` read a digit as itself, so much later, in digits of one size: they read one
/// of that size there. So what is made of a part of values, or of a block that came from another
/// rank, is a part of what is made of the whole.
void Terms::extendDigits(ArrayRef<Use> uses, llvm::SmallVectorImpl<Var> &vars,
                         llvm::DenseMap<Var, Index> &outer) {
  for (Var &var : vars) {
    std::optional<int64_t> later, size;
    bool isAlike = true;
    for (const Use &use : uses) {
      int64_t factor = use.index->getCoefficient(var);
      if (factor == 0)
        continue;
      int64_t constant = use.index->getConstant();
      isAlike &= use.size > 0 && factor == 1 && use.index->getParts().size() == 1 &&
                 later.value_or(constant) == constant && size.value_or(use.size) == use.size;
      later = constant;
      size = use.size;
    }
    if (!isAlike || !size || (*later == 0 && *size == variables.getSize(var)))
      continue;
    Var whole = variables.make(*size);
    for (const Use &use : uses)
      if (use.index->getCoefficient(var) != 0)
        *use.index = Index::of(whole);
    outer[whole] = outer.lookup(var) + Index(*later);
    var = whole;
  }
}

/// The indices of a reference, and the sizes of the digits that they are; 0 where a part of the
/// digit is not one of what it is of.
void Terms::collectUses(Reference &reference, SmallVectorImpl<Use> &uses) {
  const Term &term = terms[reference.term];
  for (auto [i, index] : llvm::enumerate(reference.indices)) {
    bool hasConditions = i < term.hasConditions.size() && term.hasConditions[i];
    uses.push_back(
        {&index, hasConditions || term.core.tag == Core::Tag::IsZero ? 0 : term.sizes[i]});
  }
}

Reference Terms::wrap(Meaning body) {
  if (body.size() == 1 && body[0].coefficient == Rational(1) && body[0].bound.empty() &&
      body[0].guards.empty())
    return body[0].reference;

  // An order that does not depend on how variables are numbered, as far as possible.
  auto shape = [&](const Summand &summand) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << summand.guards.size() << ' ';
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
  llvm::SmallDenseMap<TermId, unsigned> counts;
  for (const Summand &summand : body)
    ++counts[summand.reference.term];
  SmallVector<std::tuple<TermId, std::string, unsigned>> order;
  for (auto [i, summand] : llvm::enumerate(body)) {
    TermId term = summand.reference.term;
    order.push_back({term, counts.lookup(term) > 1 ? shape(summand) : "", unsigned(i)});
  }
  llvm::sort(order);

  SmallVector<Index *> indices;
  SmallVector<Var> bound, vars;
  for (auto &[term, text, i] : order) {
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
  if (arePieces) {
    SmallVector<Use> uses;
    for (Summand &summand : body) {
      collectUses(summand.reference, uses);
      for (Guard &guard : summand.guards)
        uses.push_back({&guard.index, 0});
    }
    extendDigits(uses, vars, outer);
  }

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
    std::string text;
    llvm::raw_string_ostream stream(text);
    write(stream, summand.coefficient);
    stream << ' ';
    if (summand.bound.empty()) {
      writeSummand(stream, summand, names, variables);
    } else {
      Names own = names;
      nameBound(summand, own, vars.size());
      writeSummand(stream, summand, own, variables);
    }
    texts.push_back({std::move(text), unsigned(i)});
  }
  llvm::sort(texts);
  std::string key = "sum";
  for (int64_t size : term.sizes)
    key += ' ' + std::to_string(size);
  for (auto &[text, i] : texts)
    key += '|' + text;
  for (auto &[text, i] : texts) {
    Meaning one{std::move(body[i])};
    if (one[0].bound.empty()) {
      substitute(one, digits);
    } else {
      Substitution all = digits;
      for (Var &var : one[0].bound) {
        Var slot = term.sizes.size() + term.boundSizes.size();
        term.boundSizes.push_back(variables.getSize(var));
        all[var] = Index::of(slot);
        var = slot;
      }
      substitute(one, all);
    }
    term.body.push_back(std::move(one.front()));
  }
  if (llvm::all_of(term.body, [](const Summand &summand) { return summand.guards.empty(); }))
    for (const Summand &summand : term.body) {
      TermId own = summand.reference.term;
      bool isSum = terms[own].kind == Term::Kind::Sum;
      term.numSummands += isSum ? terms[own].numSummands : 1;
      term.lastTerm = std::max(term.lastTerm, isSum ? terms[own].lastTerm : own);
    }
  findConditions(term);
  reference.term = intern(key, std::move(term));
  return reference;
}

Meaning Terms::apply(const Core &core, ArrayRef<Meaning> given, ArrayRef<SmallVector<Var, 2>> read,
                     ArrayRef<Index> results, ArrayRef<int64_t> resultSizes) {
  std::vector<Meaning> operands(given.begin(), given.end());
  Rational coefficient(1);
  for (ArrayRef<unsigned> group : core.linear) {
    if (llvm::all_of(group, [&](unsigned i) { return operands[i].empty(); }))
      return number(Rational(breaks(Lemma::LinearOfZero) ? 1 : 0));
    SmallVector<const Meaning *> meanings;
    for (unsigned i : group)
      meanings.push_back(&operands[i]);
    Rational content = contentOf(meanings);
    if (!breaks(Lemma::FactorOfLinear))
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
    llvm::erase_if(term.operands, [&](const Reference &operand) {
      return operand.term == one && !breaks(Lemma::ProductWithOne);
    });
    if (std::optional<Meaning> simpler = simplifyProduct(core, term.operands))
      return scale(std::move(*simpler), coefficient);
    if (term.operands.empty())
      return number(coefficient);
    if (term.operands.size() == 1)
      return scale(instantiate(term.operands[0], Substitution()), coefficient);
    term.core.linear.clear();
    for (unsigned i = 0; i < term.operands.size(); ++i)
      term.core.linear.push_back({i});
    llvm::stable_sort(term.operands, [&](const Reference &a, const Reference &b) {
      return a.term < b.term && !breaks(Lemma::ProductCommutes);
    });
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
  if (arePieces && core.tag != Core::Tag::IsZero) {
    SmallVector<Use> uses;
    for (Reference &operand : term.operands)
      collectUses(operand, uses);
    extendDigits(uses, vars, outer);
  }
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
  // Of equal terms at several indices, the order with the least text.
  if (core.isProduct)
    for (unsigned i = 0; i + 1 < term.operands.size(); ++i)
      for (unsigned j = i + 1;
           j < term.operands.size() && term.operands[i].term == term.operands[j].term; ++j) {
        Names otherNames;
        std::string otherKey;
        std::vector<Reference> swapped = term.operands;
        std::swap(swapped[i], swapped[j]);
        encode(swapped, otherNames, otherKey);
        if (otherKey < key) {
          term.operands = std::move(swapped);
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
  findConditions(term);
  summand.reference.term = intern(key, std::move(term));
  return {summand};
}
