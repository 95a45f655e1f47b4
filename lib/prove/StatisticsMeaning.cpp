//===- StatisticsMeaning.cpp - norms, variances, normalized batches ---------===//
//
// All are sums and products: a norm is the root of a sum of squares, a variance the mean of squares
// without the square of the mean. So norms of parts, and statistics that ranks join, are those of
// the whole.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Normalization.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/prove/Evaluator.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Whether all tensors are of the same real numbers.
static bool isOfReals(Operation *op) {
  Type element;
  auto fits = [&](Type type) {
    RankedTensorType tensor = tensorOf(type);
    if (!tensor)
      return true;
    if (!element)
      element = tensor.getElementType();
    return tensor.getElementType() == element;
  };
  return llvm::all_of(op->getOperandTypes(), fits) && llvm::all_of(op->getResultTypes(), fits) &&
         element && (element.isF32() || element.isF64());
}

Core cleave::prove::rootOf(Type element) {
  Core core = functionOf("root", element);
  core.tag = Core::Tag::Root;
  return core;
}

Meaning Evaluator::product(const Meaning &left, const Meaning &right, Type element) {
  return terms.apply(productOf(element), {left, right}, {}, {}, {});
}

/// Of values of which one at a time is not zero, as guards say, the squares; else the product.
Meaning Evaluator::square(const Meaning &meaning, Type element) {
  auto isApart = [&](const Summand &a, const Summand &b) {
    return a.guards[0].index == b.guards[0].index &&
           (a.guards[0].high <= b.guards[0].low || b.guards[0].high <= a.guards[0].low);
  };
  bool isPiecewise = !meaning.empty();
  for (auto [i, summand] : llvm::enumerate(meaning)) {
    isPiecewise &= summand.guards.size() == 1 && summand.bound.empty();
    for (unsigned j = 0; isPiecewise && j < i; ++j)
      isPiecewise &= isApart(summand, meaning[j]);
  }
  if (!isPiecewise)
    return product(meaning, meaning, element);
  Meaning squares;
  for (const Summand &summand : meaning) {
    Summand value = summand;
    value.guards.clear();
    for (Summand &part : product({value}, {value}, element)) {
      llvm::append_range(part.guards, summand.guards);
      squares.push_back(std::move(part));
    }
  }
  return terms.normalize(std::move(squares));
}

std::optional<Tensor> Evaluator::stack(Operation *op, ArrayRef<const Tensor *> operands) {
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  if (!llvm::all_of(op->getOperandTypes(), [&](Type operand) {
        return tensorOf(operand).getElementType() == type.getElementType();
      }))
    return std::nullopt;
  auto attribute = op->getAttrOfType<IntegerAttr>("dim");
  int64_t dim = attribute ? attribute.getInt() : 0;
  dim += dim < 0 ? type.getRank() : 0;
  Tensor first = *operands[0];
  // Twice: a later operand may cut what earlier ones were given.
  Meaning parts;
  Var place = terms.variables.make(operands.size());
  for (bool isLast : {false, true})
    for (auto [number, operand] : llvm::enumerate(operands)) {
      Tensor value = *operand;
      Substitution alike;
      for (unsigned i = 0; i < first.dims.size(); ++i)
        if (!cutAlike(terms, first, i, value, i, alike))
          return std::nullopt;
      if (!isLast)
        continue;
      substitute(value.meaning, alike);
      for (Summand &summand : value.meaning) {
        int64_t at = terms.breaks(Lemma::Stack) ? 0 : int64_t(number);
        summand.guards.push_back({Index::of(place), at, at + 1});
        parts.push_back(std::move(summand));
      }
    }
  Tensor result{first.dims, terms.normalize(std::move(parts))};
  llvm::SmallVector<Var, 2> digits;
  if (operands.size() > 1)
    digits.push_back(place);
  result.dims.insert(result.dims.begin() + dim, digits);
  return result;
}

SmallVector<Var> cleave::prove::splitDims(Operation *op, const Tensor &value, Tensor &result) {
  auto dims = op->getAttrOfType<DenseI64ArrayAttr>("dim");
  auto keeps = op->getAttrOfType<BoolAttr>("keepdim");
  SmallVector<bool> isReduced(value.dims.size(), !dims || dims.empty());
  if (dims)
    for (int64_t dim : dims.asArrayRef())
      isReduced[dim < 0 ? dim + int64_t(value.dims.size()) : dim] = true;
  SmallVector<Var> over;
  for (auto [dim, digits] : llvm::enumerate(value.dims)) {
    if (!isReduced[dim])
      result.dims.push_back(digits);
    else
      llvm::append_range(over, digits);
    if (isReduced[dim] && keeps && keeps.getValue())
      result.dims.emplace_back();
  }
  return over;
}

std::optional<Tensor> Evaluator::vectorNorm(Operation *op, const Tensor &value) {
  auto order = op->getAttrOfType<FloatAttr>("ord");
  auto whole = op->getAttrOfType<IntegerAttr>("ord");
  bool isEuclidean = order   ? order.getValueAsDouble() == 2.0
                     : whole ? whole.getInt() == 2
                             : !op->hasAttr("ord");
  if (!isEuclidean)
    return std::nullopt;
  Tensor result;
  SmallVector<Var> over = splitDims(op, value, result);
  Type element = tensorOf(op->getResult(0).getType()).getElementType();
  result.meaning = terms.apply(
      rootOf(element),
      {terms.sum(terms.breaks(Lemma::Norm) ? value.meaning : square(value.meaning, element), over)},
      {}, {}, {});
  return result;
}

std::optional<Tensor> Evaluator::variance(Operation *op, const Tensor &value) {
  int64_t correction = 1;
  if (Attribute given = op->getAttr("correction")) {
    auto whole = dyn_cast<IntegerAttr>(given);
    auto real = dyn_cast<FloatAttr>(given);
    if (!whole && !(real && (real.getValueAsDouble() == 0.0 || real.getValueAsDouble() == 1.0)))
      return std::nullopt;
    correction = whole ? whole.getInt() : int64_t(real.getValueAsDouble());
  }
  Tensor result;
  SmallVector<Var> over = splitDims(op, value, result);
  int64_t count = sizeOf(over, terms.variables);
  if (count <= correction)
    return std::nullopt;
  Type element = tensorOf(op->getResult(0).getType()).getElementType();
  Meaning total = terms.sum(value.meaning, over);
  Meaning squares = terms.sum(square(value.meaning, element), over);
  Rational share = Rational(terms.breaks(Lemma::Variance) ? 0 : -1) / Rational(count);
  Meaning ofMean = terms.scale(square(total, element), share);
  result.meaning = terms.scale(terms.add(std::move(squares), ofMean),
                               Rational(1) / Rational(count - correction));
  return result;
}

//===----------------------------------------------------------------------===//
// Batch normalization
//===----------------------------------------------------------------------===//

/// What the op is given as `value`; null where that is none of its operands, or null.
static const Tensor *findOperand(Operation *op, ArrayRef<const Tensor *> operands,
                                 mlir::Value value) {
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (value && operand == value)
      return operands[i];
  return nullptr;
}

/// The digits of all dimensions but that of channels.
static SmallVector<Var> listOtherDigits(const Tensor &input) {
  SmallVector<Var> over;
  for (auto [dim, digits] : llvm::enumerate(input.dims))
    if (dim != 1)
      llvm::append_range(over, digits);
  return over;
}

/// The values of channels, over the digits of the input's. A null one takes no part. Fails if they
/// have no digits in common; a later one may cut what earlier ones were given, hence twice.
static bool takeOfChannels(Terms &terms, Tensor &input, ArrayRef<const Tensor *> given,
                           MutableArrayRef<Meaning> taken) {
  for (bool isLast : {false, true})
    for (auto [i, operand] : llvm::enumerate(given)) {
      if (!operand)
        continue;
      Tensor value = *operand;
      Substitution alike;
      if (!cutAlike(terms, input, 1, value, 0, alike))
        return false;
      if (isLast) {
        substitute(value.meaning, alike);
        taken[i] = std::move(value.meaning);
      }
    }
  return true;
}

bool Evaluator::batchNorm(Operation *op, ArrayRef<const Tensor *> operands,
                          std::vector<Tensor> &results) {
  auto training = dyn_cast<aten::NativeBatchNormLegitFunctionalOp>(op);
  auto given = dyn_cast<aten::NativeBatchNormLegitNoTrainingOp>(op);
  if ((!training && !given) || (training && !training.getTraining()))
    return false;
  Type element = tensorOf(op->getResult(0).getType()).getElementType();
  auto at = [&](mlir::Value value) { return findOperand(op, operands, value); };
  Tensor input = *operands[0];
  const Tensor *ofChannels[] = {at(training ? training.getWeight() : given.getWeight()),
                                at(training ? training.getBias() : given.getBias()),
                                at(training ? training.getRunningMean() : given.getRunningMean()),
                                at(training ? training.getRunningVar() : given.getRunningVar())};
  Meaning taken[4];
  if (!takeOfChannels(terms, input, ofChannels, taken))
    return false;

  Meaning mean = taken[2], variance = taken[3];
  SmallVector<Var> over = listOtherDigits(input);
  int64_t count = sizeOf(over, terms.variables);
  Rational share = Rational(1) / Rational(count);
  if (training) {
    if (count < 2)
      return false;
    mean = terms.scale(terms.sum(input.meaning, over),
                       terms.breaks(Lemma::BatchNorm) ? Rational(1) : share);
    variance = terms.add(terms.scale(terms.sum(square(input.meaning, element), over), share),
                         terms.scale(square(mean, element), Rational(-1)));
  }
  double eps = (training ? training.getEps() : given.getEps()).convertToDouble();
  Meaning inverse = terms.apply(functionOf("rsqrt", element),
                                {terms.add(variance, terms.number(exactly(eps)))}, {}, {}, {});
  auto times = [&](const Meaning &a, const Meaning &b) { return product(a, b, element); };
  Meaning output = times(terms.add(input.meaning, terms.scale(mean, Rational(-1))), inverse);
  if (ofChannels[0])
    output = times(output, taken[0]);
  if (ofChannels[1])
    output = terms.add(std::move(output), taken[1]);
  results.push_back({input.dims, std::move(output)});
  if (!training) {
    for (unsigned i : {1, 2})
      results.push_back(opaque(op->getResult(i).getType()));
    return true;
  }
  auto perChannel = [&](Meaning meaning) {
    results.push_back({{input.dims[1]}, std::move(meaning)});
  };
  perChannel(mean);
  perChannel(inverse);
  // Numbers as kernels have them: one of double precision.
  double momentum = training.getMomentum().convertToDouble();
  auto moved = [&](const Meaning &running, const Meaning &batch, double correction) {
    return terms.add(terms.scale(running, exactly(1.0 - momentum)),
                     terms.scale(batch, exactly(momentum * correction)));
  };
  perChannel(moved(taken[2], mean, 1.0));
  perChannel(moved(taken[3], variance, double(count) / double(count - 1)));
  return true;
}

bool Evaluator::batchNormBackward(Operation *op, ArrayRef<const Tensor *> operands,
                                  std::vector<Tensor> &results) {
  auto backward = cast<aten::NativeBatchNormBackwardOp>(op);
  if (!backward.getTrain() || !backward.getSaveMean() || !backward.getSaveInvstd())
    return false;
  Type element = tensorOf(backward.getInput().getType()).getElementType();
  auto at = [&](mlir::Value value) { return findOperand(op, operands, value); };
  Tensor input = *at(backward.getInput());
  const Tensor *ofChannels[] = {at(backward.getWeight()), at(backward.getSaveMean()),
                                at(backward.getSaveInvstd())};
  // Before and after the channels' values are taken: each may cut what the other was given.
  Meaning gradient, taken[3];
  auto takeGradient = [&] {
    Tensor value = *at(backward.getGradOut());
    Substitution alike;
    for (unsigned dim = 0; dim < input.dims.size(); ++dim)
      if (!cutAlike(terms, input, dim, value, dim, alike))
        return false;
    substitute(value.meaning, alike);
    gradient = std::move(value.meaning);
    return true;
  };
  if (!takeGradient() || !takeOfChannels(terms, input, ofChannels, taken) || !takeGradient())
    return false;
  SmallVector<Var> over = listOtherDigits(input);
  Rational share = Rational(-1) / Rational(sizeOf(over, terms.variables));
  auto times = [&](const Meaning &a, const Meaning &b) { return product(a, b, element); };
  Meaning normal = times(terms.add(input.meaning, terms.scale(taken[1], Rational(-1))), taken[2]);
  Meaning ofBias = terms.sum(gradient, over), ofWeight = terms.sum(times(gradient, normal), over);
  Meaning rest = terms.add(terms.add(gradient, terms.scale(ofBias, share)),
                           terms.scale(times(normal, ofWeight), share));
  rest = times(rest, taken[2]);
  if (ofChannels[0])
    rest = times(rest, taken[0]);
  results.push_back({input.dims, std::move(rest)});
  results.push_back({{input.dims[1]}, std::move(ofWeight)});
  results.push_back({{input.dims[1]}, std::move(ofBias)});
  return true;
}

bool Evaluator::evaluateStatistics(Operation *op, ArrayRef<const Tensor *> operands,
                                   std::vector<Tensor> &results) {
  std::optional<Tensor> value;
  if (isa<aten::StackOp>(op)) {
    value = stack(op, operands);
  } else if (!isa<aten::LinalgVectorNormOp, aten::VarCorrectionOp,
                  aten::NativeBatchNormLegitFunctionalOp, aten::NativeBatchNormLegitNoTrainingOp,
                  aten::NativeBatchNormBackwardOp>(op) ||
             !isOfReals(op)) {
    return false;
  } else if (isa<aten::LinalgVectorNormOp>(op)) {
    value = vectorNorm(op, *operands[0]);
  } else if (isa<aten::VarCorrectionOp>(op)) {
    value = variance(op, *operands[0]);
  } else {
    bool isKnown = isa<aten::NativeBatchNormBackwardOp>(op)
                       ? batchNormBackward(op, operands, results)
                       : batchNorm(op, operands, results);
    if (!isKnown)
      results.clear();
    for (Tensor &result : results)
      coarsen(terms, result);
    return isKnown;
  }
  if (!value)
    return false;
  coarsen(terms, *value);
  results.push_back(std::move(*value));
  return true;
}
