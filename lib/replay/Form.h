//===- Form.h - values as sums of terms, and when two are equal -----*- C++ -*-===//
//
// An element of a tensor is a sum of factor times sum over bound digits times a term at an index,
// as far as conditions on places hold. A term is what the log defines: an argument, an op of terms,
// or a sum. All are total functions of integers, so that a definition cannot be wrong, only of no
// use. What is checked is that two forms are equal: by arithmetic of indices, by unfolding
// definitions, and by linearity, where the log has the term that a sum of values becomes.
//
// Nothing here is of the prover; both follow docs/proof.md.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_REPLAY_FORM_H
#define CLEAVE_LIB_REPLAY_FORM_H

#include "mlir/Analysis/Presburger/Fraction.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cleave::replay {

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using Rational = mlir::presburger::Fraction;
using Var = unsigned;
using TermId = unsigned;

/// A constant and integer multiples of digits.
struct Index {
  std::map<Var, int64_t> parts;
  int64_t constant = 0;

  Index() = default;
  Index(int64_t constant) : constant(constant) {}
  static Index of(Var var, int64_t factor = 1) { return Index().plus(var, factor); }
  Index plus(Var var, int64_t factor) const;
  Index plus(const Index &other, int64_t factor = 1) const;
  int64_t at(Var var) const;
  bool operator==(const Index &) const = default;
};
using Digits = llvm::DenseMap<Var, Index>;
Index replace(const Index &index, const Digits &digits);
/// Whether any arithmetic left the range of 64 bits since the start: nothing is checked then.
bool hasOverflowed();

struct Reference {
  TermId term = 0;
  SmallVector<Index, 4> at;
};
/// 1 where low <= index < high, else 0.
struct Guard {
  Index index;
  int64_t low, high;
};
struct Summand {
  Rational factor = Rational(1);
  SmallVector<Var, 2> bound;
  SmallVector<Guard, 1> guards;
  Reference value;
};
using Form = std::vector<Summand>;
void replace(Form &form, const Digits &digits);
/// Digits that are numbered as these are.
Digits digitsAt(ArrayRef<Index> indices);
/// Those of the term's place, and of conditions.
template <typename Of, typename Visit> void forEachIndex(Of &summand, Visit visit) {
  for (auto &index : summand.value.at)
    visit(index);
  for (auto &guard : summand.guards)
    visit(guard.index);
}
bool mentions(const Summand &summand, Var var);
Form formOf(Reference value, Rational factor = Rational(1));
/// The part as often, and where, as what it is a part of counts.
Summand within(Summand part, const Summand &whole);
/// The form where conditions hold, and nothing elsewhere.
Form where(Form form, ArrayRef<Guard> guards);

struct Term {
  enum Kind : uint8_t { Leaf, Op, Sum } kind = Leaf;
  /// The name of a leaf; what an op computes.
  std::string key;
  /// Sizes of its digits, numbered from 0: of an op, those that its operands have, then its own.
  SmallVector<int64_t, 4> sizes;
  unsigned kept = 0;
  /// Digits that an op reads its operands along, by factor, numbered behind `sizes`.
  SmallVector<std::pair<unsigned, int64_t>, 2> read;
  std::vector<Reference> operands;
  /// Of a sum; its bound digits have these sizes, and are numbered behind `sizes`.
  Form body;
  SmallVector<int64_t, 2> boundSizes;
};

/// What is known of an op's function on elements: from the op, never from the log.
struct Function {
  std::string key;
  SmallVector<SmallVector<unsigned, 2>, 2> linear;
  bool isProduct = false, isRoot = false, isIndicator = false;
  /// It may be infinite, or no number, of what are numbers; of these only -inf, if `isFromBelow`.
  bool isUnbounded = false, isFromBelow = false;
  /// It is one of its operands.
  bool isChoice = false;
  /// The operand of which a softmax is: a share of -inf is 0.
  std::optional<unsigned> scores;
  /// It holds where its integer lies there, from the first on and before the second.
  std::optional<std::pair<int64_t, int64_t>> marks;
  /// It is its first operand, or this number where the mark that is its second one holds.
  std::optional<int64_t> fills;
  /// It holds where one of its operands does.
  bool isAnyOf = false;
};

class Forms {
public:
  Forms();
  /// Takes the log's next term; false if it is not well-formed.
  bool define(Term term);
  const Term &get(TermId term) const { return terms[term]; }
  size_t numTerms() const { return terms.size(); }
  std::optional<TermId> findLeaf(StringRef name) const;

  /// Stands for the number of ranks of an axis that is `?`.
  static constexpr int64_t kOpen = (int64_t(1) << 31) - 1;
  /// Whether a value was taken as many times.
  bool countsOpen = false;

  Var make(int64_t size) {
    sizes.push_back(size);
    return sizes.size() - 1;
  }
  int64_t sizeOf(Var var) const { return sizes[var]; }
  std::pair<int64_t, int64_t> rangeOf(const Index &index) const;

  Form number(const Rational &number) const;
  Form position(const Index &index);
  Form normal(const Form &form);
  /// `byCase`: whatever digits are of which conditions speak.
  bool areEqual(const Form &left, const Form &right, bool byCase = false);
  Form add(const Form &left, const Form &right, const Rational &factor = Rational(1));
  Form scale(Form form, const Rational &factor);
  /// For messages: the first summands.
  std::string textOf(const Form &form) const;
  Form sum(Form form, ArrayRef<Var> bound);
  /// The form where the condition does not hold.
  Form outside(const Form &form, const Guard &guard) const;
  /// 1 where the condition holds, else 0.
  Form isWithin(const Guard &guard);
  /// The form over other digits instead of these, which it returns.
  SmallVector<Var, 2> renew(Form &form, ArrayRef<Var> vars);
  /// The function of forms, read along groups of digits, at places of its result alone. Nothing
  /// where the log does not define it.
  std::optional<Form> apply(const Function &function, ArrayRef<Form> operands,
                            ArrayRef<SmallVector<Var, 2>> read = {}, ArrayRef<Index> results = {},
                            ArrayRef<int64_t> resultSizes = {});
  /// The same, of which `fails` is said where there is none.
  Form applyOr(bool &fails, const Function &function, ArrayRef<Form> operands);
  /// The function and the operands that the form is, if it reads them at one place.
  std::optional<std::pair<Function, std::vector<Form>>> asOp(const Form &form);
  /// The operands of an op's value; those read along digits are over new ones, which `read` takes.
  std::vector<Form> operandsOf(const Reference &value, llvm::SmallVectorImpl<Var> *read = nullptr);
  /// An op's value, made again of its operands after a `change`.
  std::optional<Form> makeAgain(
      const Reference &value,
      llvm::function_ref<void(std::vector<Form> &)> change = [](std::vector<Form> &) {});
  /// The form as a multiple of one term: the multiple is 1 if it must be `exact`.
  std::optional<std::pair<Rational, Reference>> asTerm(const Form &form, bool exact);
  /// The index that the form is.
  std::optional<Index> asPosition(const Form &form) const;
  const Function *functionOf(const Reference &value) const;
  /// Whether it is never -inf, and never inf, where arguments are numbers. Of sums in which inf and
  /// -inf may meet nothing is said.
  struct Bounds {
    bool low = true, high = true;
    bool isReal() const { return low && high; }
  };
  Bounds boundsOf(const Form &form);

private:
  std::vector<Term> terms;
  std::vector<int64_t> sizes;
  llvm::StringMap<Function> functions;
  llvm::StringMap<TermId> leaves;
  /// Ops by what they are applied to, and sums by the terms that they have.
  llvm::StringMap<SmallVector<TermId, 1>> ops, sums;
  llvm::DenseMap<TermId, Bounds> known;
  Bounds boundsOf(TermId id);
  unsigned depth = 0;
  bool isTooDeep = false;

  using Known = SmallVector<std::optional<Index>, 8>;
  static bool solve(ArrayRef<std::pair<Index, Index>> equations, Known &known);
  bool isWhole(const Reference &value) const;
  Form unfold(const Reference &value);
  bool isZeroByCase(const Form &form);
  std::optional<Form> writeOut(const Form &form, const llvm::DenseSet<TermId> &of);
  Form makeAllAgain(const Form &form);
  /// Of each digit of a term whether conditions inside of it depend on it.
  llvm::DenseMap<TermId, std::vector<bool>> conditions;
  const std::vector<bool> &conditionsOf(TermId id);
  bool simplifyGuards(Summand &summand) const;
  void simplify(Summand summand, Form &result);
  bool pushInwards(const Summand &summand, Form &result);
  bool nameRows(const Summand &summand, Form &result);
  std::string keyOf(const Summand &summand) const;
  /// Of what terms: sums are known by theirs, in any order.
  static std::string signatureOf(const Form &form);
  static std::string signatureOf(StringRef key, ArrayRef<Reference> operands);
  bool matchSum(const Term &sum, const Form &form, bool exact, Rational &factor, Reference &value);
  std::optional<Form> multiply(const Function &function, std::vector<Reference> factors);
  bool isNotNegative(const Form &form) const;
  std::optional<Reference> find(const Function &function, ArrayRef<Reference> operands,
                                ArrayRef<SmallVector<Var, 2>> read, ArrayRef<Index> results,
                                ArrayRef<int64_t> resultSizes);
};

} // namespace cleave::replay

#endif // CLEAVE_LIB_REPLAY_FORM_H
