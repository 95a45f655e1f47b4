//===- SplitAxes.cpp - places of ranks as more digits -----------------------===//
//
// Where a value is cut inside of an axis, ranks' places get one more digit. All values that are
// known are the same functions of the finer digits, so that the walk goes on. An op whose operands
// read them as one number is evaluated in one digit, as if the axis were not cut: what goes round a
// ring is one block or another one by the place as a whole.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Prover.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Cuts the axis where `strides` say; `digits` gets the old digits as numbers of the new ones.
/// False where it is cut so already, or cannot be.
static bool split(Axis &axis, ArrayRef<int64_t> strides, Variables &variables,
                  Substitution &digits) {
  SmallVector<Digit, 2> old = digitsOf(axis.digits, variables);
  SmallVector<int64_t> cuts(strides);
  for (const Digit &digit : old)
    cuts.push_back(digit.stride);
  auto chain = chainOf(cuts, axis.size);
  if (!chain || chain->size() <= old.size())
    return false;
  SmallVector<Digit> finer;
  int64_t end = axis.size;
  for (int64_t stride : llvm::reverse(*chain)) {
    finer.push_back({variables.make(end / stride), end / stride, stride});
    end = stride;
  }
  for (const Digit &digit : old)
    if (std::optional<Index> index = expressDigit(digit, finer))
      digits[digit.var] = *index;
    else
      return false;
  axis.digits.clear();
  for (const Digit &digit : finer)
    axis.digits.push_back(digit.var);
  return true;
}

bool Prover::splitAxes() {
  // A log says at its beginning which digits there are, and classes have axes of their own.
  if (missingCuts.empty() || log || !classes.empty())
    return false;
  // What is known of rows in an order is said in the old digits: the proof begins again.
  for (auto *values : {&localValues, &globalValues})
    for (auto &entry : *values)
      if (entry.second.rows)
        return false;
  Substitution digits;
  for (Axis &axis : axes) {
    auto found = missingCuts.find(axis.name);
    if (found == missingCuts.end())
      continue;
    SmallVector<int64_t> strides(found->second.begin(), found->second.end());
    split(axis, strides, terms.variables, digits);
  }
  for (Axis &axis : batchAxes)
    axis = *localEvaluator->findAxis(axis.name);
  missingCuts.clear();
  if (digits.empty())
    return false;
  auto rewrite = [&](Tensor &value) { substitute(value.meaning, digits); };
  for (auto *values : {&localValues, &globalValues})
    for (auto &entry : *values)
      rewrite(entry.second);
  for (auto &entry : arguments) {
    rewrite(entry.second.global);
    rewrite(entry.second.local);
  }
  for (auto *named : {&globalResults, &stageSums})
    for (auto &entry : *named)
      rewrite(entry.second);
  for (auto &entry : buckets)
    for (auto &member : entry.second.members)
      rewrite(member.second);
  for (Result &result : results)
    rewrite(result.member);
  globalEvaluator->readAxes();
  localEvaluator->readAxes();
  return true;
}

/// Whether all indices of the values count the place on the axis as one number.
static bool isOneNumber(const Axis &axis, ArrayRef<const Tensor *> values,
                        const Variables &variables) {
  Index place = axis.getPlace(variables);
  auto isOne = [&](const Index &index) {
    int64_t unit = index.getCoefficient(axis.digits.back());
    return llvm::all_of(axis.digits, [&](Var digit) {
      return index.getCoefficient(digit) == unit * place.getCoefficient(digit);
    });
  };
  return llvm::all_of(values, [&](const Tensor *value) {
    return llvm::all_of(value->meaning, [&](const Summand &summand) {
      return llvm::all_of(summand.reference.indices, isOne) &&
             llvm::all_of(summand.guards, [&](const Guard &guard) { return isOne(guard.index); });
    });
  });
}

std::vector<Tensor> Evaluator::evaluateOnWholes(Operation *op, ArrayRef<const Tensor *> given) {
  std::vector<Axis> wholes(axes.begin(), axes.end());
  Substitution toWhole, back;
  for (Axis &axis : wholes) {
    if (axis.digits.size() < 2 || !isOneNumber(axis, given, terms.variables))
      continue;
    back[axis.whole] = axis.getPlace(terms.variables);
    // Wrong: the last digit alone.
    if (terms.breaks(Lemma::WholePlace))
      back[axis.whole] = Index::of(axis.digits.back());
    for (Var digit : axis.digits)
      toWhole[digit] = Index();
    toWhole[axis.digits.back()] = Index::of(axis.whole);
    axis.digits.assign({axis.whole});
  }
  auto hasRows = [](const Tensor *value) { return value->rows != nullptr; };
  if (back.empty() || llvm::any_of(given, hasRows))
    return {};
  std::vector<Tensor> operands;
  SmallVector<const Tensor *> taken;
  operands.reserve(given.size());
  for (const Tensor *value : given) {
    operands.push_back(*value);
    substitute(operands.back().meaning, toWhole);
    taken.push_back(&operands.back());
  }
  // Cuts that an axis has already are no missing ones.
  AxisCuts before = missing;
  llvm::SaveAndRestore<ArrayRef<Axis>> ownAxes(axes, wholes);
  llvm::SaveAndRestore<SmallVector<Var>> ownPlaces(places, placesOf(wholes));
  std::string unknown;
  std::vector<Tensor> results = evaluatePlain(op, taken, unknown);
  missing = std::move(before);
  if (!unknown.empty())
    return {};
  for (Tensor &result : results)
    substitute(result.meaning, back);
  return results;
}
