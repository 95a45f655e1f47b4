//===- SplitAxes.cpp - places of ranks as more digits -----------------------===//
//
// Where a value is cut inside of an axis, ranks' places get one more digit. All values that are
// known are the same functions of the finer digits, so that the walk goes on.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Prover.h"

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
  // A log says at its beginning which digits there are.
  if (missingCuts.empty() || log)
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
