//===- MakeTerm.cpp - terms of ops and of sums ------------------------------===//

#include "lib/prove/TermText.h"

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::DynamicAPInt;
using llvm::SmallVector;
using llvm::SmallVectorImpl;

/// Finds the digits on which conditions inside of it depend.
void Terms::findConditions(Term &term) const {
  if (!areParts)
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

/// Gives operands as few digits as their indices permit.
void Terms::settleDigits(Operands &operands, bool extends) {
  SmallVector<Index *> indices;
  for (Reference &operand : operands.references)
    for (Index &index : operand.indices)
      indices.push_back(&index);
  mergeDigits(indices, operands.vars, operands.outer);
  if (!extends)
    return;
  SmallVector<Use> uses;
  for (Reference &operand : operands.references)
    collectUses(operand, uses);
  extendDigits(uses, operands.vars, operands.outer);
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
  if (areParts) {
    SmallVector<Use> uses;
    for (Summand &summand : body) {
      collectUses(summand.reference, uses);
      for (Guard &guard : summand.guards)
        uses.push_back({&guard.index, 0});
    }
    extendDigits(uses, vars, outer);
  }
  // Digits that became one may have changed it.
  if (arePieces)
    for (Summand &summand : body)
      for (Guard &guard : summand.guards)
        chooseSign(guard, summand.bound);

  Names names;
  SmallVector<std::pair<std::string, unsigned>> texts;
  auto encode = [&](const Meaning &body, ArrayRef<Var> vars) {
    unsigned next = 0;
    names.clear();
    texts.clear();
    auto isFree = [&](Var var) { return llvm::is_contained(vars, var); };
    for (auto &[term, text, i] : order) {
      for (const Index &index : body[i].reference.indices)
        nameByUse(index, names, next, isFree);
      for (const Guard &guard : body[i].guards)
        nameByUse(guard.index, names, next, isFree);
    }
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
    SmallVector<int64_t> sizes(vars.size());
    for (Var var : vars)
      sizes[names.lookup(var)] = variables.getSize(var);
    std::string key = "sum";
    for (int64_t size : sizes)
      key += ' ' + std::to_string(size);
    for (auto &[text, i] : texts)
      key += '|' + text;
    return key;
  };
  std::string key = encode(body, vars);
  bool isPlain = llvm::all_of(body, [](const Summand &summand) { return summand.guards.empty(); });
  if (!ranks.empty() && isPlain && !numbers.contains(key)) {
    Operands own{{}, vars, outer};
    for (const Summand &summand : body)
      own.references.push_back(summand.reference);
    bool isKnown = false;
    auto takeKnown = [&](Operands &separate) {
      Meaning made = body;
      for (auto [summand, reference] : llvm::zip(made, separate.references))
        summand.reference = reference;
      std::string otherKey = encode(made, separate.vars);
      isKnown = numbers.contains(otherKey);
      if (isKnown) {
        body = std::move(made);
        vars = separate.vars;
        outer = std::move(separate.outer);
        key = otherKey;
      }
      return isKnown;
    };
    for (Operands &separate : separateRanks(own, bound))
      if (takeKnown(separate))
        break;
    if (!isKnown)
      visitElements(own, takeKnown);
    if (!isKnown)
      visitWholes(own, takeKnown);
    if (!isKnown)
      encode(body, vars);
  }

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
  for (auto &[text, i] : texts) {
    Summand one = std::move(body[i]);
    if (one.bound.empty()) {
      substitute(one, digits);
    } else {
      Substitution all = digits;
      for (Var &var : one.bound) {
        Var slot = term.sizes.size() + term.boundSizes.size();
        term.boundSizes.push_back(variables.getSize(var));
        all[var] = Index::of(slot);
        var = slot;
      }
      substitute(one, all);
    }
    term.body.push_back(std::move(one));
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
  Operands own;
  own.references = std::move(term.operands);
  SmallVector<Index *> indices;
  for (Reference &operand : own.references)
    for (Index &index : operand.indices) {
      indices.push_back(&index);
      collectVars(index, own.vars);
    }
  auto isRead = [&](Var var) {
    return llvm::any_of(read, [&](ArrayRef<Var> group) { return llvm::is_contained(group, var); });
  };
  llvm::erase_if(own.vars, isRead);
  settleDigits(own, areParts);
  SmallVector<Var> readVars;
  SmallVector<unsigned> readGroups;
  for (auto [i, group] : llvm::enumerate(read)) {
    SmallVector<Var> digits(group.begin(), group.end());
    // A maximum is the same in any order.
    bool areOrdered = core.tag != Core::Tag::Max && !breaks(Lemma::ReadInOrder);
    mergeDigits(indices, digits, own.outer, areOrdered);
    llvm::append_range(readVars, digits);
    readGroups.append(digits.size(), unsigned(i));
  }

  unsigned numResults = results.size();
  Names names;
  auto encode = [&](const Operands &operands, Names &names) {
    unsigned next = 0, numKept = operands.vars.size();
    for (const Reference &operand : operands.references)
      for (const Index &index : operand.indices)
        nameByUse(index, names, next,
                  [&](Var var) { return llvm::is_contained(operands.vars, var); });
    for (auto [i, var] : llvm::enumerate(readVars))
      names[var] = numKept + numResults + i;
    std::string key;
    llvm::raw_string_ostream stream(key);
    stream << "op " << core.key << '(';
    for (const Reference &operand : operands.references) {
      stream << operand.term << '[';
      for (const Index &index : operand.indices)
        write(stream, index, names);
      stream << ']';
    }
    stream << ')';
    SmallVector<int64_t> sizes(numKept);
    for (Var var : operands.vars)
      sizes[names.lookup(var)] = variables.getSize(var);
    for (int64_t size : sizes)
      stream << size << ' ';
    for (auto [var, group] : llvm::zip(readVars, readGroups))
      stream << '<' << group << ':' << variables.getSize(var) << '>';
    for (int64_t size : resultSizes)
      stream << '{' << size << '}';
    return key;
  };
  // Of equal terms at several indices, the order with the least text.
  auto encodeInOrder = [&](Operands &operands, Names &names) {
    std::string key = encode(operands, names);
    auto &references = operands.references;
    for (unsigned i = 0; core.isProduct && i + 1 < references.size(); ++i)
      for (unsigned j = i + 1; j < references.size() && references[i].term == references[j].term;
           ++j) {
        Names otherNames;
        Operands swapped = operands;
        std::swap(swapped.references[i], swapped.references[j]);
        std::string otherKey = encode(swapped, otherNames);
        if (otherKey < key) {
          operands = std::move(swapped);
          names = otherNames;
          key = otherKey;
        }
      }
    return key;
  };
  std::string key = encodeInOrder(own, names);
  // As one device makes it, if it does.
  if (!ranks.empty() && !numbers.contains(key)) {
    auto takeKnown = [&](Operands &separate) {
      Names otherNames;
      std::string otherKey = encodeInOrder(separate, otherNames);
      if (!numbers.contains(otherKey))
        return false;
      own = std::move(separate);
      names = otherNames;
      key = otherKey;
      return true;
    };
    bool isKnown = llvm::any_of(separateRanks(own, readVars), takeKnown);
    auto take = [&](Operands &separate) { return isKnown = takeKnown(separate); };
    if (!isKnown)
      visitElements(own, take);
    if (!isKnown)
      visitWholes(own, take);
  }

  Summand summand;
  summand.coefficient = coefficient;
  unsigned numKept = own.vars.size();
  summand.reference.indices.resize(numKept);
  term.sizes.resize(numKept);
  term.numKept = numKept;
  Substitution slots;
  for (Var var : own.vars) {
    unsigned slot = names.lookup(var);
    term.sizes[slot] = variables.getSize(var);
    summand.reference.indices[slot] = own.outer.lookup(var);
    slots[var] = Index::of(slot);
  }
  llvm::append_range(term.sizes, resultSizes);
  llvm::append_range(summand.reference.indices, results);
  for (auto [i, var] : llvm::enumerate(readVars)) {
    term.readSizes.push_back(variables.getSize(var));
    term.readGroups.push_back(readGroups[i]);
    slots[var] = Index::of(numKept + numResults + i);
  }
  term.operands = std::move(own.references);
  for (Reference &operand : term.operands)
    for (Index &index : operand.indices)
      index = substitute(index, slots);
  findConditions(term);
  summand.reference.term = intern(key, std::move(term));
  return {summand};
}
