//===- TermText.h - texts of terms: what is equal has one -----------*- C++ -*-===//

#ifndef CLEAVE_LIB_PROVE_TERMTEXT_H
#define CLEAVE_LIB_PROVE_TERMTEXT_H

#include "lib/prove/Term.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave::prove {

/// Numbers for the variables of one text.
using Names = llvm::DenseMap<Var, unsigned>;

inline void write(llvm::raw_ostream &os, const Rational &number) {
  os << number.num << '/' << number.den;
}

inline void write(llvm::raw_ostream &os, const Index &index, const Names &names) {
  llvm::SmallVector<std::pair<unsigned, int64_t>, 4> parts;
  for (const Index::Part &part : index.getParts())
    parts.push_back({names.lookup(part.var), part.coefficient});
  llvm::sort(parts);
  for (auto [name, coefficient] : parts)
    os << coefficient << '*' << name << '+';
  os << index.getConstant() << ';';
}

/// Numbers the variables for which `isWanted`, by first use, what counts most first, and what is
/// added before what is taken off.
template <typename Wanted>
void nameByUse(const Index &index, Names &names, unsigned &next, Wanted isWanted) {
  llvm::SmallVector<Index::Part, 4> parts(index.getParts());
  llvm::stable_sort(parts, [](const Index::Part &a, const Index::Part &b) {
    return std::pair(std::abs(a.coefficient), a.coefficient) >
           std::pair(std::abs(b.coefficient), b.coefficient);
  });
  for (const Index::Part &part : parts)
    if (isWanted(part.var) && names.try_emplace(part.var, next).second)
      ++next;
}

inline void writeSummand(llvm::raw_ostream &os, const Summand &summand, const Names &names,
                         const Variables &variables) {
  os << summand.reference.term << '[';
  for (const Index &index : summand.reference.indices)
    write(os, index, names);
  os << ']';
  llvm::SmallVector<std::string, 2> guards;
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
  llvm::SmallVector<std::pair<unsigned, int64_t>, 2> bound;
  for (Var var : summand.bound)
    bound.push_back({names.lookup(var), variables.getSize(var)});
  llvm::sort(bound);
  for (auto [name, size] : bound)
    os << '<' << name << ':' << size << '>';
}

/// Numbers for the bound digits, from `next` on.
inline void nameBound(const Summand &summand, Names &names, unsigned next) {
  auto isBound = [&](Var var) { return llvm::is_contained(summand.bound, var); };
  for (const Index &index : summand.reference.indices)
    nameByUse(index, names, next, isBound);
  for (const Guard &guard : summand.guards)
    nameByUse(guard.index, names, next, isBound);
}

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_TERMTEXT_H
