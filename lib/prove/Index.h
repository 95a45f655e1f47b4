//===- Index.h - places in tensors as sums of digits ----------------*- C++ -*-===//
//
// A variable is a digit: an integer from 0 to its size, exclusive. A dimension of a tensor is a
// list of digits, major first; a rank's place along a mesh axis is one digit. An index is an
// integer combination of digits, so that shards, reshapes and transposes are substitutions.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_INDEX_H
#define CLEAVE_LIB_PROVE_INDEX_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::prove {

using Var = unsigned;

/// `constant` plus the sum of coefficient times variable; terms are sorted by variable, and no
/// coefficient is 0.
class Index {
public:
  struct Part {
    Var var;
    int64_t coefficient;
    bool operator==(const Part &) const = default;
  };

  Index() = default;
  explicit Index(int64_t constant) : constant(constant) {}
  static Index of(Var var, int64_t coefficient = 1);

  llvm::ArrayRef<Part> getParts() const { return parts; }
  int64_t getConstant() const { return constant; }
  int64_t getCoefficient(Var var) const;
  bool isConstant() const { return parts.empty(); }

  Index operator+(const Index &other) const;
  Index operator*(int64_t factor) const;
  Index operator-(const Index &other) const { return *this + other * -1; }
  bool operator==(const Index &) const = default;

private:
  llvm::SmallVector<Part, 2> parts;
  int64_t constant = 0;
};

/// What variables become; those that are not in it stay.
using Substitution = llvm::DenseMap<Var, Index>;
Index substitute(const Index &index, const Substitution &substitution);

/// The sizes of all variables; one that is made is like no other.
class Variables {
public:
  Var make(int64_t size) {
    sizes.push_back(size);
    return sizes.size() - 1;
  }
  int64_t getSize(Var var) const { return sizes[var]; }
  /// The least and the greatest value of `index`.
  std::pair<int64_t, int64_t> getRange(const Index &index) const;

private:
  std::vector<int64_t> sizes;
};

/// A digit of a dimension: worth `stride` elements, from 0 to `size`.
struct Digit {
  Var var;
  int64_t size;
  int64_t stride;
};

/// The digits of a dimension with these variables, major first.
llvm::SmallVector<Digit, 2> digitsOf(llvm::ArrayRef<Var> vars, const Variables &variables);

/// The strides at which a dimension of `size` elements is cut: `cuts`, sorted, with 1, without
/// `size`. Nothing if they are no chain in which each divides the next.
std::optional<llvm::SmallVector<int64_t, 4>> chainOf(llvm::ArrayRef<int64_t> cuts, int64_t size);

/// `digit` as a combination of finer digits of the same dimension. Nothing if they do not cut it.
std::optional<Index> expressDigit(const Digit &digit, llvm::ArrayRef<Digit> finer);

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_INDEX_H
