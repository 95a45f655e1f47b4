//===- Term.h - values of the whole program, made unique ------------*- C++ -*-===//
//
// A term is a tensor of the program for one device, seen without its shape: a function of as many
// digits as it depends on. It is a leaf (an argument), an op of other terms, or a sum. What one
// element of a value is, on any rank, is a *meaning*: a sum of coefficient times sum over bound
// digits times a term at an index. Two values with one meaning are equal over the reals, whatever
// the arguments; the converse does not hold.
//
// Terms have one form for all ways to cut them: digits are merged wherever all uses permit it and
// numbered by their first use, and sums over digits move inwards through ops that are linear. A
// long sum without conditions, such as a residual stream, is one summand: the term of the sum.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_TERM_H
#define CLEAVE_LIB_PROVE_TERM_H

#include "lib/prove/Index.h"
#include "lib/prove/Lemma.h"

#include "mlir/Analysis/Presburger/Fraction.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <chrono>
#include <deque>

namespace cleave::prove {

using Rational = mlir::presburger::Fraction;
/// Whether both are one number: most that are compared are written alike, which is cheaper to see.
inline bool isSame(const Rational &a, const Rational &b) {
  return (a.num == b.num && a.den == b.den) || a == b;
}
/// The number itself: every double is a fraction. Not of infinities and NaN.
Rational exactly(double number);

using TermId = unsigned;

/// Stands for the size of a mesh axis that is `?`, which has any number of ranks.
constexpr int64_t kOpenSize = (int64_t(1) << 31) - 1;

/// Adds the digits of an index to those that are there.
inline void collectVars(const Index &index, llvm::SmallVectorImpl<Var> &vars) {
  for (const Index::Part &part : index.getParts())
    if (!llvm::is_contained(vars, part.var))
      vars.push_back(part.var);
}

/// `term` at an index for each of its digits.
struct Reference {
  TermId term = 0;
  llvm::SmallVector<Index, 6> indices;
};

/// 1 where `low <= index < high`, else 0.
struct Guard {
  Index index;
  int64_t low, high;
};

/// The same condition, on the index with the other sign.
inline Guard withOtherSign(const Guard &guard) {
  return {guard.index * -1, 1 - guard.high, 1 - guard.low};
}
/// Of a condition on an index and that on the same with the other sign: one of them, which does not
/// depend on how digits are numbered, as far as possible. `bound`: those that are summed over.
void chooseSign(Guard &guard, llvm::ArrayRef<Var> bound);

struct Summand {
  Rational coefficient = Rational(1);
  llvm::SmallVector<Var, 2> bound;
  llvm::SmallVector<Guard, 1> guards;
  Reference reference;

  Summand() = default;
  Summand(const Summand &) = default;
  Summand &operator=(const Summand &) = default;
  // Lists of summands move them where they grow, and do not copy them.
  Summand(Summand &&) noexcept = default;
  Summand &operator=(Summand &&) noexcept = default;
};

/// Whether both hold under the same conditions, written alike.
inline bool hasSameGuards(const Summand &a, const Summand &b) {
  return llvm::equal(a.guards, b.guards, [](const Guard &own, const Guard &other) {
    return own.index == other.index && own.low == other.low && own.high == other.high;
  });
}

/// A sum; none is 0.
using Meaning = std::vector<Summand>;
void substitute(Summand &summand, const Substitution &substitution);
void substitute(Meaning &meaning, const Substitution &substitution);
/// The same for summands that are alike but for their coefficient, in whatever order they name the
/// digits that they bind.
size_t likenessOf(const Summand &summand, const Variables &variables);
/// For each of `digits` the one of `others` that is used alike; nothing if there is none.
std::optional<Substitution> matchDigits(llvm::ArrayRef<Var> digits, const Reference &reference,
                                        llvm::ArrayRef<Var> others, const Reference &other,
                                        const Variables &variables);

/// What an op computes on one element of each dimension that it keeps.
struct Core {
  /// Name, attributes, and types: cores with one key are one function.
  std::string key;
  /// Operands in which it is linear together.
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 2> linear;
  /// The product of its operands, in any order.
  bool isProduct = false;
  /// What lemmas ask: a maximum over what is read; a comparison of an integer with `number`; an
  /// integer that is `number` where a mark holds; 1 where the operand is 0, or where it holds; the
  /// square root; the greater of two; an exponential; a logarithm; a quotient; inf, or -inf where
  /// `number` is below 0; whether a number of floating point is 0, or -inf; such a number, or 1
  /// where it is 0; or 0 where it is -inf. Of rows in an order (Rows.h): an index along a dimension
  /// of `number`; an integer divided by `number`, rounded down; what an index takes of a value; the
  /// place of a row in the order of keys; whether an integer is at least another; an integer that
  /// is brought between 0 and `number`; the integer 1 where a mark holds, else 0; what an integer
  /// leaves that is divided by `number`, from 0 on.
  enum class Tag : uint8_t {
    None,
    Max,
    Less,
    AtLeast,
    Equal,
    Or,
    Fill,
    IsZero,
    Marked,
    Root,
    Maximum,
    Exp,
    Log,
    Quotient,
    Infinite,
    IsNothing,
    IsBottom,
    OrOne,
    OrZero,
    Choice,
    Divided,
    Taken,
    PlaceInOrder,
    AtLeastOther,
    Clamped,
    AsNumber,
    Rest
  };
  Tag tag = Tag::None;
  int64_t number = 0;
  /// Its value is an integer, and so finite, whatever its operands are.
  bool isInteger = false;
  /// It may be infinite, or no number, where its operands are numbers.
  bool isUnbounded = false;
  /// Of these it is only -inf.
  bool isFromBelow = false;
};

struct Term {
  enum class Kind : uint8_t { Leaf, Op, Sum };
  Kind kind = Kind::Leaf;
  Core core;
  /// Sizes of its digits: of an op, first those that its operands have, then those of its result
  /// alone. 0: any integer.
  llvm::SmallVector<int64_t, 4> sizes;
  /// Of an op: operands are indexed by its digits, numbered from 0, and by digits of their own,
  /// numbered behind all of them: the op reads its operands along these.
  llvm::SmallVector<int64_t, 2> readSizes;
  llvm::SmallVector<unsigned, 2> readGroups;
  unsigned numKept = 0;
  std::vector<Reference> operands;
  /// Of a sum: its bound digits are numbered behind its own.
  Meaning body;
  llvm::SmallVector<int64_t, 2> boundSizes;
  /// Of a sum without conditions: its summands, with those of sums among them, and the last of
  /// their terms. 0 of others.
  unsigned numSummands = 0;
  TermId lastTerm = 0;
  /// By digit, whether a condition inside depends on it; empty where none does.
  llvm::SmallVector<bool, 4> hasConditions;
  /// Whether it is made of what may be infinite, or no number, where arguments are numbers.
  bool mayBeInfinite = false;
};

class Terms {
public:
  Terms();

  Variables variables;

  /// The leaf of this name, whose digits have these sizes, at `indices`.
  Meaning leaf(llvm::StringRef name, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<Index> indices);
  Meaning number(const Rational &number);
  /// The index as a number.
  Meaning position(const Index &index);
  /// `core` on operands that it reads along groups of digits (each is read by no other op), at
  /// `results`, which are digits of these sizes of its result alone.
  Meaning apply(const Core &core, llvm::ArrayRef<Meaning> operands,
                llvm::ArrayRef<llvm::SmallVector<Var, 2>> read, llvm::ArrayRef<Index> results,
                llvm::ArrayRef<int64_t> resultSizes);
  /// The sum over these digits.
  Meaning sum(Meaning meaning, llvm::ArrayRef<Var> bound);
  Meaning add(Meaning left, const Meaning &right);
  /// Of a normal form, the normal form.
  Meaning scale(Meaning meaning, const Rational &factor);
  Meaning normalize(Meaning meaning);
  bool areEqual(const Meaning &left, const Meaning &right);
  /// The summands, or one of them, of a long sum too.
  Meaning partsOf(const Meaning &meaning);
  Meaning partOf(const Meaning &meaning);

  /// The operands of an op at these indices; those that it reads along digits are over new ones,
  /// which `read` takes.
  std::vector<Meaning> getOperands(const Reference &reference,
                                   llvm::SmallVectorImpl<Var> *read = nullptr);
  /// The index of which the meaning is the number; nothing if it is no place.
  std::optional<Index> asPosition(const Meaning &meaning) const;
  bool mentions(const Meaning &meaning, Var var) const;
  /// Whether it is made of one of these leaves, however deep inside.
  bool dependsOn(const Meaning &meaning, const llvm::StringSet<> &leaves) const;
  /// The same for meanings that differ only in where they are taken.
  std::string identify(const Meaning &meaning) { return std::to_string(wrap(meaning).term); }

  /// Whether each digit of the term takes all of its values, in order: then what is normal in the
  /// term's own digits is so at these.
  bool isWhole(const Reference &reference) const {
    return isWhole(reference.indices, terms[reference.term].sizes);
  }

  const Term &get(TermId term) const { return terms[term]; }
  /// Terms that are made later have higher numbers.
  size_t size() const { return terms.size(); }

  /// From then on, nothing is complete: `isLate` says so.
  void setDeadline(std::chrono::steady_clock::time_point time) { deadline = time; }
  bool isLate();
  std::chrono::steady_clock::time_point getDeadline() const { return deadline; }

  /// For tests of the tests: makes the lemma wrong.
  void breakLemma(Lemma lemma) { broken = lemma; }
  bool breaks(Lemma lemma) const { return broken == lemma; }
  /// Whether exponentials, softmax and attention are shares of sums (Fractions.h).
  void takeShares() { areShares = true; }
  bool takesShares() const { return areShares; }
  /// Whether a sum over places of what is put together of parts is one for each part.
  void sumByParts() { arePartsSummed = true; }
  bool sumsByPart() const { return arePartsSummed; }
  /// Whether what all products of a sum have as a factor is a factor of the sum (separateFactors).
  void takeFactors() { areFactors = true; }
  /// Whether no rank receives more rows than it has room for: a run in which one does ends.
  void assumeRoom() { hasRoom = true; }
  bool assumesRoom() const { return hasRoom; }
  /// Whether what is made of parts is a part of what is made of the wholes (extendDigits).
  void takeParts() { areParts = true; }
  bool takesParts() const { return areParts; }
  /// Whether concatenations are sums of parts, too (Concatenation.cpp).
  void takePieces() { areParts = arePieces = true; }
  bool takesPieces() const { return arePieces; }

  /// Whether a value was taken as many times as an axis of any size has ranks.
  bool doesCountOpen() const { return countsOpen; }
  void countOpen() { countsOpen = true; }

  /// The digits of ranks' places.
  void nameRanks(llvm::ArrayRef<Var> digits) { ranks.assign(digits.begin(), digits.end()); }

  /// Merges digits among `vars` that all of `indices` use as one, and rewrites these; `outer` has
  /// each digit that remains as a combination of those before. `areOrdered`: the digits are those
  /// of one number, major first, of which only neighbours are one digit.
  void mergeDigits(llvm::ArrayRef<Index *> indices, llvm::SmallVectorImpl<Var> &vars,
                   llvm::DenseMap<Var, Index> &outer, bool areOrdered = false);

private:
  /// They stay where they are.
  std::deque<Term> terms;
  llvm::StringMap<TermId> numbers;
  TermId one, identity;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  bool late = false;
  std::optional<Lemma> broken;
  llvm::SmallVector<Var> ranks;
  bool areShares = false, hasRoom = false, countsOpen = false, areParts = false, arePieces = false,
       arePartsSummed = false, areFactors = false;
  unsigned sinceLook = 0;

  TermId intern(llvm::StringRef key, Term term);
  /// The reference to a term that is the meaning.
  Reference wrap(Meaning meaning);
  void normalizeSummand(Summand summand, Meaning &result);
  /// Whether the guards may hold; drops those that always do.
  bool simplifyGuards(Summand &summand);
  bool solveGuards(Summand &summand);
  std::optional<Guard> equationOf(const Guard &guard) const;
  bool equatePlaces(Summand &summand);
  bool dropImplied(Summand &summand);
  void findConditions(Term &term) const;
  /// An index of a reference, and the size of the digit that it is.
  struct Use {
    Index *index;
    int64_t size;
  };
  bool isOfRow(const Term &term, unsigned digit) const;
  void collectUses(Reference &reference, llvm::SmallVectorImpl<Use> &uses, bool narrowsRows = true);
  void extendDigits(llvm::ArrayRef<Use> uses, llvm::SmallVectorImpl<Var> &vars,
                    llvm::DenseMap<Var, Index> &outer);
  /// What an op is applied to: references over its own digits, each of which is an index outside.
  struct Operands {
    std::vector<Reference> references;
    llvm::SmallVector<Var> vars;
    llvm::DenseMap<Var, Index> outer;
  };
  void settleDigits(Operands &operands, bool extends);
  std::vector<Operands> separateRanks(const Operands &given, llvm::ArrayRef<Var> read);
  void visitElements(const Operands &given, llvm::function_ref<bool(Operands &)> visit);
  void visitWholes(const Operands &given, llvm::function_ref<bool(Operands &)> visit);
  bool dropChoices(Summand &summand);
  bool chooseOnce(Summand &summand);
  bool pushInwards(const Summand &summand, Meaning &result);
  bool isPlainProduct(TermId id) const;
  void appendFactors(const Reference &reference, std::vector<Reference> &factors) const;
  Meaning multiply(Core core, llvm::ArrayRef<Meaning> factors);
  bool separateFactors(const Summand &summand, Meaning &result);
  bool joinFactors(Meaning &meaning);
  bool sumByPart(const Summand &summand, Meaning &result, bool anywhere);
  bool narrow(const Summand &summand, Meaning &result);
  bool isAsWide(const Index &index, int64_t size) const;
  bool isPartOfParts(const Reference &reference) const;
  Meaning makeAt(const Reference &reference);
  bool remake(const Summand &summand, Meaning &result);
  Meaning partOfParts(const Reference &reference);
  uint64_t shapeOf(TermId id);
  bool staysPart(const Reference &reference);
  /// By term, once it was asked for.
  std::deque<std::optional<uint64_t>> shapes;
  /// What parts of terms are, by term and indices, at digits of their own.
  struct KnownPart {
    llvm::SmallVector<Var> digits;
    Meaning meaning;
  };
  llvm::StringMap<KnownPart> knownParts;
  Meaning instantiate(const Reference &reference, const Substitution &digits);
  bool isWhole(llvm::ArrayRef<Index> indices, llvm::ArrayRef<int64_t> sizes) const;
  bool isWholeSum(const Summand &summand) const;
  bool openNormal(Meaning &meaning);
  bool isFolded(const Summand &summand) const;
  Meaning flatten(Meaning meaning);
  Summand asOne(Meaning meaning);
  Meaning foldInBlocks(Meaning blocks, Meaning rest);
  Meaning fold(Meaning meaning);
  std::optional<Meaning> addToFolded(const Meaning &meaning);
  static Rational contentOf(llvm::ArrayRef<const Meaning *> meanings);
  void unfold(const Summand &folded, Meaning &result);
  void combine(Meaning &meaning);
  bool joinIntervals(Meaning &meaning);
  bool joinPlace(Meaning &meaning);
  Summand withoutIntervals(Summand summand);
  bool joinNext(Meaning &meaning);
  bool joinDifferences(Meaning &meaning);
  bool joinPrefix(Meaning &meaning);
  bool joinBlocks(Meaning &meaning);
  bool joinAround(Meaning &meaning, const Summand &base, Var digit, int64_t from,
                  llvm::ArrayRef<int64_t> unit,
                  const llvm::DenseMap<int64_t, unsigned> &summandsByAway);
  bool isNotNegative(const Meaning &meaning) const;
  /// Factors of a product that are products, roots that are squared, and squares of short sums:
  /// what the product is then, if it is no product of these operands.
  std::optional<Meaning> simplifyProduct(const Core &core, std::vector<Reference> &operands);
  void combinePositions(Meaning &meaning);
};

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_TERM_H
