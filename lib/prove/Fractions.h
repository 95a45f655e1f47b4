//===- Fractions.h - exponentials, logarithms, and shares of sums -----*- C++ -*-===//
//
// What softmax, its logarithm and attention are made of, and what they are merged from: a sum of
// exponentials stands for itself, for its logarithm, and below what is shared out. Maxima that only
// keep numbers small cancel, and shares of parts add up to those of the whole.
//
// Exponentials and logarithms are those of the extended reals: log 0 is -inf, and exp(-inf) is 0.
// Each rule says what must be real or positive for it to hold, and looks for that in how the value
// is made.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_FRACTIONS_H
#define CLEAVE_LIB_PROVE_FRACTIONS_H

#include "lib/prove/Cases.h"

#include "mlir/IR/Types.h"

#include <array>

namespace cleave::prove {

/// Of a term, whether it is never -inf, and never inf, where arguments are numbers.
struct Bounds {
  bool low = true, high = true;
  bool isReal() const { return low && high; }
};
/// What is known of terms.
struct KnownTerms {
  llvm::DenseMap<TermId, Bounds> bounds;
  /// Whether, wherever they are taken, they are not below 0; and whether they are above.
  std::array<llvm::DenseMap<TermId, bool>, 2> signs;
};

class Fractions {
public:
  /// Of elements of this type; `places` are the digits of ranks' places.
  Fractions(Terms &terms, mlir::Type element, llvm::ArrayRef<Var> places, KnownTerms &known)
      : terms(terms), element(element), places(places), known(known) {}

  Meaning exponential(const Meaning &value);
  Meaning logarithm(const Meaning &value);
  Meaning quotient(const Meaning &above, const Meaning &below);
  /// The product of each two elements.
  Meaning product(const Meaning &left, const Meaning &right);
  /// The product of any two values: a fraction where one of them is.
  Meaning productOfAny(const Meaning &left, const Meaning &right);
  /// A sum, in which shares of one whole are one.
  Meaning sum(Meaning value);
  Meaning maximum(const Meaning &left, const Meaning &right);
  /// The value, or 1 where it is 0: of a value that is not below 0, and finite.
  Meaning orOne(const Meaning &value);
  /// The value, or 0 where it is -inf. Nothing if it may be inf, or no number.
  std::optional<Meaning> orZero(const Meaning &value);

  /// Whether rules of fractions may say something of the value.
  bool isFraction(const Meaning &value);
  /// Whether it is above 0 and finite at all places.
  bool isPositive(const Meaning &value);
  /// Whether it is finite and not below 0 at all places.
  bool isNotNegative(const Meaning &value);
  /// Whether it is 0 wherever `whole` is, which is not below 0 and of which it, or a factor of it,
  /// is a part.
  bool vanishesWith(const Meaning &value, const Meaning &whole);
  Bounds boundsOf(const Meaning &value);

private:
  Terms &terms;
  mlir::Type element;
  llvm::ArrayRef<Var> places;
  KnownTerms &known;

  /// A product of factors above and below, where conditions hold.
  struct Monomial {
    Rational coefficient = Rational(1);
    llvm::SmallVector<Guard, 1> guards;
    std::vector<Meaning> above, below;
  };

  bool hasTag(const Summand &summand, Core::Tag tag) const;
  /// The only operand of an op.
  Meaning operandOf(const Summand &summand);
  Bounds boundsOf(TermId id);
  /// Whether both are one value, of two in their normal form: others are alike then.
  bool areEqual(const Meaning &left, const Meaning &right);
  bool isNotNegative(const Summand &summand, bool strictly);
  bool isMadeNotNegative(const Summand &summand, bool strictly);
  bool isPositive(const Summand &summand) { return isNotNegative(summand, /*strictly=*/true); }
  bool isSomewhere(const Summand &summand) const;
  void factorize(const Meaning &value, Monomial &result, bool isBelow);
  void cancel(Monomial &monomial);
  bool isShareOfNothing(const Monomial &monomial, unsigned below, unsigned above);
  Meaning takeScales(const Meaning &above, const Meaning &below, Monomial &result);
  bool isNumberOrBottom(const Meaning &value);
  Meaning build(Monomial monomial);
  Meaning multiplyAll(llvm::ArrayRef<Meaning> factors);
};

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_FRACTIONS_H
