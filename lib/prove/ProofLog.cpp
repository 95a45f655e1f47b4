//===- ProofLog.cpp - what a proof says, for a checker ----------------------===//

#include "lib/prove/ProofLog.h"

#include "lib/prove/TermText.h"

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::raw_ostream;

static void writeSizes(raw_ostream &os, ArrayRef<int64_t> sizes) {
  if (sizes.empty())
    os << '-';
  llvm::interleave(sizes, os, ",");
}

static void writeIndex(raw_ostream &os, const Index &index, const Names &names) {
  llvm::StringRef separator;
  for (const Index::Part &part : index.getParts()) {
    auto found = names.find(part.var);
    os << separator << part.coefficient << '*' << (found == names.end() ? part.var : found->second);
    separator = "+";
  }
  if (index.isConstant() || index.getConstant())
    os << separator << index.getConstant();
}

static void writeReference(raw_ostream &os, const Reference &reference, const Names &names) {
  os << reference.term << '[';
  llvm::interleave(
      reference.indices, os, [&](const Index &index) { writeIndex(os, index, names); }, ",");
  os << ']';
}

/// `sizeOf` has the sizes of bound digits.
static void writeMeaning(raw_ostream &os, const Meaning &meaning, const Names &names,
                         llvm::function_ref<int64_t(Var)> sizeOf) {
  if (meaning.empty())
    os << '.';
  llvm::StringRef separator;
  for (const Summand &summand : meaning) {
    os << separator;
    separator = " ";
    write(os, reduce(summand.coefficient));
    for (Var var : summand.bound) {
      auto found = names.find(var);
      os << '<' << (found == names.end() ? var : found->second) << ':' << sizeOf(var) << '>';
    }
    for (const Guard &guard : summand.guards) {
      os << '{' << guard.low << ':' << guard.high << ':';
      writeIndex(os, guard.index, names);
      os << '}';
    }
    os << '*';
    writeReference(os, summand.reference, names);
  }
}

/// The summands of `sum` at `indices`, and for a sum among them its own: by these the checker knows
/// it. Digits that they bind are numbered behind `numDigits`, and `boundSizes` gets their sizes.
static void collectSummands(const Terms &terms, const Term &sum, ArrayRef<Index> indices,
                            const Rational &factor, unsigned numDigits, Meaning &parts,
                            llvm::SmallVectorImpl<int64_t> &boundSizes) {
  Substitution digits;
  for (auto [i, index] : llvm::enumerate(indices))
    digits[i] = index;
  for (Summand part : sum.body) {
    for (Var &bound : part.bound) {
      Var slot = numDigits + boundSizes.size();
      boundSizes.push_back(sum.boundSizes[bound - sum.sizes.size()]);
      digits[bound] = Index::of(slot);
      bound = slot;
    }
    part.coefficient *= factor;
    substitute(part, digits);
    const Term &term = terms.get(part.reference.term);
    if (term.kind == Term::Kind::Sum)
      collectSummands(terms, term, part.reference.indices, part.coefficient, numDigits, parts,
                      boundSizes);
    else
      parts.push_back(std::move(part));
  }
}

ProofLog::ProofLog(const Terms &terms, ArrayRef<Axis> axes, std::string &text)
    : terms(terms), os(text) {
  os << "cleave-proof 1\n";
  for (const Axis &axis : axes) {
    os << "axis " << axis.name << ' ';
    llvm::SmallVector<int64_t> sizes;
    for (Var digit : axis.digits) {
      sizes.push_back(terms.variables.getSize(digit));
      rankDigits.push_back(digit);
    }
    writeSizes(os, sizes);
    os << '\n';
  }
}

void ProofLog::writeTerms() {
  const Names none;
  for (; numTerms < terms.size(); ++numTerms) {
    const Term &term = terms.get(numTerms);
    switch (term.kind) {
    case Term::Kind::Leaf:
      os << "leaf ";
      writeSizes(os, term.sizes);
      os << ' ' << term.core.key << '\n';
      break;
    case Term::Kind::Op:
      os << "op " << term.numKept << ' ';
      writeSizes(os, term.sizes);
      os << ' ';
      for (auto [group, size] : llvm::zip(term.readGroups, term.readSizes))
        os << group << ':' << size << ',';
      os << ' ';
      for (const Reference &operand : term.operands) {
        writeReference(os, operand, none);
        os << ' ';
      }
      os << ": " << term.core.key << '\n';
      break;
    case Term::Kind::Sum: {
      os << "sum ";
      writeSizes(os, term.sizes);
      os << ' ';
      llvm::SmallVector<Index> indices;
      for (unsigned i = 0; i < term.sizes.size(); ++i)
        indices.push_back(Index::of(i));
      Meaning parts;
      llvm::SmallVector<int64_t> boundSizes;
      collectSummands(terms, term, indices, Rational(1), term.sizes.size(), parts, boundSizes);
      writeMeaning(os, parts, none, [&](Var var) { return boundSizes[var - term.sizes.size()]; });
      os << '\n';
      break;
    }
    }
  }
}

void ProofLog::beginProgram(bool isLocal) {
  os << (isLocal ? "local\n" : "global\n");
}

void ProofLog::beginFunction(llvm::StringRef name) {
  os << "func " << name << '\n';
}

void ProofLog::add(llvm::StringRef step, const Tensor &value) {
  writeTerms();
  if (value.meaning.size() == 1) {
    const Term &term = terms.get(value.meaning[0].reference.term);
    if (term.kind == Term::Kind::Leaf && llvm::StringRef(term.core.key).starts_with("unknown ") &&
        unknowns.insert(value.meaning[0].reference.term).second)
      step = "unknown";
  }
  os << "value " << step << ' ';
  Names names;
  unsigned next = 0;
  for (Var digit : rankDigits)
    names[digit] = next++;
  for (const auto &dim : value.dims) {
    llvm::SmallVector<int64_t> sizes;
    for (Var digit : dim) {
      sizes.push_back(terms.variables.getSize(digit));
      names[digit] = next++;
    }
    writeSizes(os, sizes);
    os << ';';
  }
  os << ' ';
  if (value.meaning.empty())
    os << '.';
  llvm::StringRef separator;
  for (const Summand &summand : value.meaning) {
    os << separator;
    separator = " ";
    // Sums may bind the same digits: here each has its own.
    for (Var var : summand.bound)
      names[var] = next++;
    writeMeaning(os, {summand}, names, [&](Var var) { return terms.variables.getSize(var); });
  }
  os << '\n';
}

void ProofLog::end() {
  writeTerms();
  os << "end\n";
}
