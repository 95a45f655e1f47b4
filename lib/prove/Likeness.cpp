//===- Likeness.cpp - values of ranks beside those of one device ------------===//
//
// A value of LOCAL may be one that GLOBAL has, in some way to lie over the axes, or that times a
// number, or a part of one.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Blame.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

RankedTensorType Blame::numbersOf(mlir::Value value) {
  auto type = dyn_cast<RankedTensorType>(dist::valueTypeOf(value.getType()));
  return type && !isa<IntegerType>(type.getElementType()) ? type : RankedTensorType();
}

/// Whether `found` is `factor` times `expected`, in some way to lie over the axes from
/// `layout.size()` on.
bool Blame::liesAs(const Tensor &found, ArrayRef<int64_t> shape, const Tensor &expected,
                   SmallVector<int64_t> whole, Rational factor, SmallVectorImpl<int> &layout) {
  if (layout.size() == prover.axes.size()) {
    if (ArrayRef<int64_t>(whole) != shape)
      return false;
    Tensor value = found, scaled = expected;
    SmallVector<Var> summed;
    for (auto [axis, on] : llvm::zip(prover.axes, layout))
      if (on == Status::kTerm)
        llvm::append_range(summed, axis.digits);
    if (!summed.empty())
      value.meaning = terms.sum(std::move(value.meaning), summed);
    scaled.meaning = terms.normalize(terms.scale(std::move(scaled.meaning), factor));
    return areEqual(terms, value, scaled);
  }
  const Axis &axis = prover.axes[layout.size()];
  auto tryOn = [&](int on, const Tensor &part, SmallVector<int64_t> size) {
    layout.push_back(on);
    if (liesAs(found, shape, part, std::move(size), factor, layout))
      return true;
    layout.pop_back();
    return false;
  };
  if (tryOn(Status::kSame, expected, whole))
    return true;
  if (axis.size == 1)
    return false;
  for (unsigned dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] >= whole[dim] || whole[dim] % (shape[dim] * axis.size))
      continue;
    if (std::optional<Tensor> part = prover.localEvaluator->shard(expected, dim, axis)) {
      SmallVector<int64_t> size(whole);
      size[dim] /= axis.size;
      if (tryOn(int(dim), *part, std::move(size)))
        return true;
    }
  }
  // What does not depend on the rank is no term.
  return llvm::any_of(axis.digits,
                      [&](Var digit) {
                        return llvm::any_of(found.meaning, [&](const Summand &summand) {
                          return llvm::any_of(summand.reference.indices,
                                              [&](const Index &index) {
                                                return index.getCoefficient(digit) != 0;
                                              }) ||
                                 llvm::any_of(summand.guards, [&](const Guard &guard) {
                                   return guard.index.getCoefficient(digit) != 0;
                                 });
                        });
                      }) &&
         tryOn(Status::kTerm, expected, whole);
}

/// Whether it is a term inside of a value of GLOBAL, of which each index takes all places in order
/// or those of a rank; or is made of such terms row by row.
bool Blame::isInner(const Tensor &found) const {
  // Rows in an order that only LOCAL has.
  if (found.rows)
    return !isNew(found.rows->value.meaning);
  if (found.meaning.size() != 1 || found.meaning.front().reference.term >= prover.numGlobalTerms)
    return false;
  const Summand &summand = found.meaning.front();
  const Term &term = terms.get(summand.reference.term);
  if (term.kind == Term::Kind::Leaf || !summand.guards.empty() ||
      !(summand.coefficient == Rational(1)))
    return false;
  return terms.isWhole(summand.reference);
}

/// Whether it has terms that GLOBAL has not.
bool Blame::isNew(const Meaning &meaning) const {
  return llvm::any_of(meaning, [&](const Summand &summand) {
    return summand.reference.term >= prover.numGlobalTerms;
  });
}

/// As it is, or as a term of a sum over an axis, or over all.
Blame::Status Blame::compare(const Tensor &found, RankedTensorType type) {
  Status status = compareToWholes(found, type);
  if (status.likeness != Likeness::Unlike || found.meaning.empty() || !comparesTotals)
    return status;
  auto tryTotal = [&](ArrayRef<unsigned> summed) {
    auto sum = [&](Meaning meaning) {
      for (unsigned axis : summed)
        meaning = terms.sum(std::move(meaning), prover.axes[axis].digits);
      return meaning;
    };
    // One summand often shows that no value of GLOBAL is the sum.
    if (isNew(sum(terms.partOf(found.meaning))))
      return false;
    Tensor total = found;
    total.meaning = sum(std::move(total.meaning));
    Status other = compareToWholes(total, type);
    if (other.likeness != Likeness::Alike || other.layout.empty())
      return false;
    for (unsigned axis : summed)
      other.layout[axis] = Status::kTerm;
    status = other;
    return true;
  };
  SmallVector<unsigned> all;
  for (unsigned axis = 0; axis < prover.axes.size(); ++axis)
    if (prover.axes[axis].size > 1 && mayBeTermOf(found, prover.axes[axis].digits)) {
      all.push_back(axis);
      if (tryTotal(axis))
        return status;
    }
  if (all.size() > 1)
    tryTotal(all);
  return status;
}

Blame::Status Blame::compareToWholes(const Tensor &found, RankedTensorType type) {
  Status status;
  if (found.meaning.empty())
    return status;
  if (isNew(found.meaning))
    return status;
  Rational first;
  auto like = counterparts.find(signatureOf(found.meaning, first));
  if (like == counterparts.end()) {
    if (isInner(found))
      status.likeness = Likeness::Alike;
    return status;
  }
  // One that is the value is preferred to one that is a multiple.
  constexpr size_t kTried = 16;
  for (mlir::Value other : ArrayRef(like->second).take_front(kTried)) {
    RankedTensorType whole = numbersOf(other);
    if (whole.getRank() != type.getRank() ||
        llvm::any_of(llvm::zip(whole.getShape(), type.getShape()), [](auto sizes) {
          return std::get<1>(sizes) == 0 || std::get<0>(sizes) % std::get<1>(sizes);
        }))
      continue;
    const Tensor &expected = prover.globalValues.find(other)->second;
    Rational theirs;
    signatureOf(expected.meaning, theirs);
    Rational factor = first / theirs;
    SmallVector<int> layout;
    if (!liesAs(found, type.getShape(), expected, SmallVector<int64_t>(whole.getShape()), factor,
                layout))
      continue;
    // Terms of an average are as many times as large.
    Rational average(1);
    for (auto [axis, on] : llvm::zip(prover.axes, layout))
      if (on == Status::kTerm)
        average = average * Rational(axis.size);
    bool isAlike = factor == Rational(1) || factor == average;
    if (status.likeness == Likeness::Scaled && !isAlike)
      continue;
    status.likeness = isAlike ? Likeness::Alike : Likeness::Scaled;
    for (auto [axis, on] : llvm::zip(prover.axes, layout))
      status.isShare |= !isAlike && on == Status::kSame && axis.size > 1 &&
                        factor * Rational(axis.size) == Rational(1);
    status.factor = factor;
    status.counterpart = other;
    status.layout.assign(layout.begin(), layout.end());
    if (isAlike) {
      status.isShare = false;
      break;
    }
  }
  if (status.likeness == Likeness::Unlike && isInner(found))
    status.likeness = Likeness::Alike;
  return status;
}

Blame::Status Blame::statusOf(mlir::Value value) {
  value = sourceOf(value);
  if (auto found = known.find(value); found != known.end())
    return found->second;
  Status status;
  RankedTensorType type = numbersOf(value);
  if (!type) {
    status.likeness = Likeness::Means;
  } else {
    const Tensor &found = prover.localValues[value];
    status = compare(found, type);
    // 0 is what it is, where nothing was multiplied by it.
    Operation *op = value.getDefiningOp();
    if (found.meaning.empty() && (!op || op->getNumOperands() == 0 ||
                                  llvm::all_of(op->getOperands(), [&](mlir::Value operand) {
                                    return !numbersOf(operand) || statusOf(operand).isFine();
                                  })))
      status.likeness = op && op->hasAttr("other") ? Likeness::Unlike : Likeness::Alike;
    // The signature is believed.
    if (isa<BlockArgument>(value) && status.likeness == Likeness::Unlike)
      status.likeness = Likeness::Alike;
  }
  known[value] = status;
  return status;
}

/// Compares what these values depend on, as far back as it is unlike. Sums over axes are long to
/// take in deep programs: they are compared of what is unlike first.
void Blame::compareBackwards(ArrayRef<mlir::Value> values) {
  constexpr size_t kTotals = 512;
  Values unlike;
  comparesTotals = false;
  auto add = [&](mlir::Value value) {
    if (!statusOf(value).isFine())
      unlike.insert(sourceOf(value));
  };
  llvm::for_each(values, add);
  for (unsigned i = 0; i < unlike.size(); ++i)
    if (Operation *op = unlike[i].getDefiningOp())
      llvm::for_each(op->getOperands(), add);
  comparesTotals = true;
  SmallVector<mlir::Value> order(unlike.begin(), unlike.end());
  auto placeOf = [&](mlir::Value value) {
    Operation *op = value.getDefiningOp();
    return op ? places.lookup(op) : 0;
  };
  llvm::stable_sort(order, [&](mlir::Value a, mlir::Value b) { return placeOf(a) < placeOf(b); });
  order.resize(std::min(order.size(), kTotals));
  for (mlir::Value value : order)
    known.erase(value);
  for (mlir::Value value : order)
    statusOf(value);
}
