//===- EmptyMeaning.cpp - sums of exponentials of which nothing is left -----===//
//
// A mask may take all keys of a row from a block. Then the block's sum of exponentials is 0, and
// its logarithm -inf, which kernels do not give: they take 1 for the sum. Ranks that merge blocks
// put -inf there, where the mask's greatest number is -inf, and keep what they subtract and divide
// by numbers: 0 where a maximum is -inf, 1 where a sum is 0.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "lib/prove/Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Whether elements are 0, or -inf.
std::optional<Tensor> Evaluator::isLimit(Operation *op, const Tensor &value) {
  Type element = tensorOf(op->getOperand(0).getType()).getElementType();
  auto number = op->getAttrOfType<FloatAttr>("other");
  if (!number || !isa<FloatType>(element))
    return std::nullopt;
  bool isZero = number.getValue().isZero(), isBottom = number.getValueAsDouble() == -INFINITY;
  if (!isZero && !isBottom)
    return std::nullopt;
  Tensor result{value.dims, {}};
  Fractions fractions = fractionsOf(element);
  if (!terms.breaks(Lemma::NoBottom) &&
      (isZero ? fractions.isPositive(value.meaning) : fractions.boundsOf(value.meaning).isReal()))
    return result;
  Core core = functionOf(isZero ? "is 0" : "is -inf", element);
  core.tag = isZero ? Core::Tag::IsNothing : Core::Tag::IsBottom;
  result.meaning = terms.apply(core, value.meaning, {}, {}, {});
  return result;
}

/// Whether `total` is a sum of exponentials of numbers and a mask, of which `greatest` is the
/// greatest number along what is summed.
bool Evaluator::isBottomWhereZero(const Meaning &greatest, const Meaning &total) {
  SmallVector<Var> read;
  Meaning mask = greatest;
  // Of one key, and of a mask that is the same for all keys, it is the number itself.
  if (greatest.size() == 1 && greatest[0].coefficient == Rational(1) && greatest[0].bound.empty() &&
      greatest[0].guards.empty() &&
      terms.get(greatest[0].reference.term).core.tag == Core::Tag::Max)
    mask = terms.getOperands(greatest[0].reference, &read)[0];
  std::optional<std::vector<Case>> regions = listCases(terms, {&mask, &total}, places);
  return regions && llvm::all_of(*regions, [&](const Case &region) {
           Meaning sum = within(terms, total, region), there = within(terms, mask, region);
           if (sum.size() != 1 || !(sum[0].coefficient > Rational(0)) || !sum[0].guards.empty() ||
               terms.get(sum[0].reference.term).core.tag != Core::Tag::Exp)
             return false;
           // Any digits of what is summed will do that make the rest a number.
           Substitution alike;
           SmallVector<Var> summed = llvm::to_vector(ArrayRef<Var>(sum[0].bound));
           for (Var own : read) {
             auto *same = llvm::find_if(summed, [&](Var var) {
               return terms.variables.getSize(var) == terms.variables.getSize(own);
             });
             if (same == summed.end())
               return false;
             alike[own] = Index::of(*same);
             summed.erase(same);
           }
           substitute(there, alike);
           Meaning power = terms.getOperands(sum[0].reference)[0];
           Meaning rest = terms.add(std::move(power), terms.scale(there, Rational(-1)));
           return fractionsOf(Type()).boundsOf(rest).isReal();
         });
}

/// `value`, or `number` where the mark holds, if the mark says where something is 0 or -inf.
std::optional<Meaning> Evaluator::fillLimit(const Meaning &value, const Meaning &mark,
                                            double number, Type element) {
  if (mark.empty())
    return value;
  const Term *term = asOp(mark);
  if (!term)
    return std::nullopt;
  const Core::Tag tag = term->core.tag;
  if (tag != Core::Tag::IsNothing && tag != Core::Tag::IsBottom)
    return std::nullopt;
  Meaning asked = terms.getOperands(mark[0].reference)[0];
  Fractions fractions = fractionsOf(element);
  bool isSame = terms.areEqual(value, asked);
  if (tag == Core::Tag::IsNothing)
    return isSame && number == 1 && fractions.isNotNegative(value)
               ? std::optional(fractions.orOne(value))
               : std::nullopt;
  if (isSame && number == 0)
    return fractions.orZero(value);
  // The logarithm of a sum, as the kernel gives it.
  const Term *logarithm = number == -INFINITY ? asOp(value) : nullptr;
  if (!logarithm || logarithm->core.tag != Core::Tag::Log || terms.breaks(Lemma::NothingLeft))
    return std::nullopt;
  Meaning total = terms.getOperands(value[0].reference)[0];
  const Term *whole = asOp(total);
  if (!whole || whole->core.tag != Core::Tag::OrOne)
    return std::nullopt;
  total = terms.getOperands(total[0].reference)[0];
  if (!isBottomWhereZero(asked, total))
    return std::nullopt;
  return fractions.logarithm(total);
}
