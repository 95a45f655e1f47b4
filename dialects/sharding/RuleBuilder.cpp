//===- RuleBuilder.cpp - writing an op's sharding rule ------------------------===//

#include "dialects/sharding/RuleBuilder.h"
#include "dialects/sharding/Reshape.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave::sharding;

// A dimension that has not been spoken of, before `finish`.
static constexpr FactorId open = ~0u;

static ArrayRef<int64_t> shapeOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getShape() : ArrayRef<int64_t>();
}

RuleBuilder::RuleBuilder(Operation *op) : op(op) {
  rule.operands.reserve(op->getNumOperands());
  for (Type type : op->getOperandTypes())
    rule.operands.emplace_back(shapeOf(type).size(), DimFactors{open});
  rule.results.reserve(op->getNumResults());
  for (Type type : op->getResultTypes())
    rule.results.emplace_back(shapeOf(type).size(), DimFactors{open});
}

ArrayRef<int64_t> RuleBuilder::operandShape(unsigned operand) const {
  return shapeOf(op->getOperand(operand).getType());
}

ArrayRef<int64_t> RuleBuilder::resultShape(unsigned result) const {
  return shapeOf(op->getResult(result).getType());
}

//===----------------------------------------------------------------------===//
// Dimension by dimension
//===----------------------------------------------------------------------===//

FactorId RuleBuilder::factor(int64_t size, FactorReduction reduction) {
  FactorId id = rule.factors.size();
  Factor &factor = rule.factors.emplace_back();
  factor.size = size;
  factor.reduction = reduction;
  return id;
}

FactorId RuleBuilder::whole(int64_t size, const char *reason) {
  FactorId id = factor(size);
  rule.factors[id].wholeReason = reason;
  return id;
}

void RuleBuilder::makeWhole(FactorId factor, const char *reason) {
  rule.factors[factor].wholeReason = reason;
}

void RuleBuilder::makeWholeLetter(char letter, const char *reason) {
  for (Factor &factor : rule.factors)
    if (factor.name.size() == 1 && factor.name[0] == letter)
      factor.wholeReason = reason;
}

void RuleBuilder::addend(FactorId factor, unsigned operand) {
  rule.factors[factor].addends.push_back(operand);
}

void RuleBuilder::unaffected(FactorId factor, unsigned result) {
  rule.factors[factor].unaffected.push_back(result);
}

void RuleBuilder::operandDim(unsigned operand, unsigned dim, ArrayRef<FactorId> factors) {
  rule.operands[operand][dim].assign(factors.begin(), factors.end());
}

void RuleBuilder::resultDim(unsigned result, unsigned dim, ArrayRef<FactorId> factors) {
  rule.results[result][dim].assign(factors.begin(), factors.end());
}

FactorId RuleBuilder::keep(unsigned operand, unsigned operandAt, unsigned result,
                           unsigned resultAt) {
  FactorId id = factor(resultShape(result)[resultAt]);
  operandDim(operand, operandAt, id);
  resultDim(result, resultAt, id);
  return id;
}

void RuleBuilder::wholeOperandDim(unsigned operand, unsigned dim, const char *reason) {
  operandDim(operand, dim, whole(operandShape(operand)[dim], reason));
}

void RuleBuilder::wholeResultDim(unsigned result, unsigned dim, const char *reason) {
  resultDim(result, dim, whole(resultShape(result)[dim], reason));
}

void RuleBuilder::closeWhole(const char *reason) {
  auto close = [&](auto &tensors, auto shape) {
    for (auto [i, tensor] : llvm::enumerate(tensors))
      for (auto [dim, factors] : llvm::enumerate(tensor))
        if (factors.size() == 1 && factors[0] == open)
          factors[0] = whole(shape(i)[dim], reason);
  };
  close(rule.operands, [&](unsigned i) { return operandShape(i); });
  close(rule.results, [&](unsigned i) { return resultShape(i); });
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

void RuleBuilder::broadcastOperand(unsigned operand, ArrayRef<DimFactors> to) {
  ArrayRef<int64_t> shape = operandShape(operand);
  ArrayRef<DimFactors> aligned = to.take_back(shape.size());
  for (auto [dim, size] : llvm::enumerate(shape)) {
    int64_t product = 1;
    for (FactorId id : aligned[dim])
      product *= rule.factors[id].size;
    if (product == size)
      operandDim(operand, dim, aligned[dim]);
    else
      operandDim(operand, dim, {});
  }
  rule.broadcasts = true;
}

void RuleBuilder::pointwise() {
  TensorFactors dims;
  for (int64_t size : resultShape(0))
    dims.push_back({factor(size)});
  for (unsigned operand = 0; operand < rule.operands.size(); ++operand)
    broadcastOperand(operand, dims);
  for (TensorFactors &result : rule.results)
    result = dims;
  rule.broadcasts = rule.operands.size() > 1;
}

void RuleBuilder::unrelated() {
  for (auto [i, tensor] : llvm::enumerate(rule.operands))
    for (auto [dim, size] : llvm::enumerate(operandShape(i)))
      tensor[dim] = {factor(size)};
  for (auto [i, tensor] : llvm::enumerate(rule.results))
    for (auto [dim, size] : llvm::enumerate(resultShape(i)))
      tensor[dim] = {factor(size)};
}

void RuleBuilder::reshape() {
  reshapeFactors(operandShape(0), resultShape(0), rule);
}

//===----------------------------------------------------------------------===//
// The rest of a rule
//===----------------------------------------------------------------------===//

static bool isNumber(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && !tensor.getElementType().isInteger(1);
}

void RuleBuilder::addGroup(LinearGroup group) {
  if (group.results.empty())
    llvm::append_range(group.results, llvm::seq<unsigned>(op->getNumResults()));
  llvm::erase_if(group.results, [&](unsigned result) {
    return !isa<RankedTensorType>(op->getResult(result).getType());
  });
  // Results that are left out depend on nothing: any operand may be partial that they alone need.
  if (!group.operands.empty())
    rule.linear.push_back(std::move(group));
}

void RuleBuilder::linear(ArrayRef<unsigned> operands, ArrayRef<unsigned> results) {
  // In integers a division or a conversion to them cuts off digits; between floating-point dtypes
  // what is lost is rounding, as in any sum.
  auto loses = [&](unsigned operand, unsigned result) {
    auto element = [](Type type) { return cast<RankedTensorType>(type).getElementType(); };
    Type from = element(op->getOperand(operand).getType());
    Type to = element(op->getResult(result).getType());
    return isa<FloatType, ComplexType>(from) && !isa<FloatType, ComplexType>(to);
  };
  for (unsigned operand : operands)
    if (!isNumber(op->getOperand(operand).getType()))
      return;
  for (unsigned result = 0; result < op->getNumResults(); ++result) {
    if (!isa<RankedTensorType>(op->getResult(result).getType()) ||
        (!results.empty() && !llvm::is_contained(results, result)))
      continue;
    if (!isNumber(op->getResult(result).getType()) ||
        llvm::any_of(operands, [&](unsigned operand) { return loses(operand, result); }))
      return;
  }
  addGroup({llvm::to_vector<2>(operands), llvm::to_vector<2>(results), false});
}

void RuleBuilder::moves(ArrayRef<unsigned> operands, ArrayRef<unsigned> results) {
  addGroup({llvm::to_vector<2>(operands), llvm::to_vector<2>(results), true});
}

void RuleBuilder::sizeIsResultShape(const char *attribute, unsigned result) {
  rule.sizeAttributes.push_back({attribute, SizeAttribute::ResultShape, result});
}

void RuleBuilder::sizeIsFactor(const char *attribute, FactorId factor) {
  rule.sizeAttributes.push_back({attribute, SizeAttribute::FactorSize, factor});
}

ShardingRule RuleBuilder::finish() {
  if (opaqueReason)
    return ShardingRule::opaque(op, opaqueReason);
  closeWhole("its rule does not mention this dimension");

  for (auto [id, factor] : llvm::enumerate(rule.factors)) {
    bool isReduced = false;
    for (auto [i, result] : llvm::enumerate(rule.results))
      isReduced |=
          isa<RankedTensorType>(op->getResult(i).getType()) && !ShardingRule::contains(result, id);
    if (!isReduced || factor.isWhole()) {
      factor.reduction = FactorReduction::None;
      factor.addends.clear();
      factor.unaffected.clear();
    }
  }

  llvm::SmallDenseSet<char> taken;
  for (const Factor &factor : rule.factors)
    if (!factor.name.empty())
      taken.insert(factor.name[0]);
  unsigned next = 0;
  for (Factor &factor : rule.factors) {
    if (!factor.name.empty())
      continue;
    while (next < 26 && taken.contains('a' + next))
      ++next;
    factor.name =
        next < 26 ? std::string(1, char('a' + next)) : llvm::formatv("z{0}", next - 25).str();
    ++next;
  }
  return std::move(rule);
}
