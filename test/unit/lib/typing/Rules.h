//===- Rules.h - sharding rules written by hand --------------------*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_LIB_TYPING_RULES_H
#define CLEAVE_TEST_UNIT_LIB_TYPING_RULES_H

#include "lib/typing/AxisInference.h"

namespace cleave::placement::test {

using sharding::FactorId;
using sharding::ShardingRule;
using sharding::TensorFactors;

/// A rule whose factors all have this size; tensors are lists of dimensions, each a list of
/// factors.
inline ShardingRule makeRule(unsigned factors, int64_t size, std::vector<TensorFactors> operands,
                             std::vector<TensorFactors> results) {
  ShardingRule rule;
  rule.factors.resize(factors);
  for (sharding::Factor &factor : rule.factors)
    factor.size = size;
  rule.operands.assign(operands.begin(), operands.end());
  rule.results.assign(results.begin(), results.end());
  return rule;
}

inline sharding::LinearGroup group(std::initializer_list<unsigned> operands, bool moves = false) {
  return {operands, {0}, moves};
}

constexpr int64_t kSize = 2;

/// a + b with the same shape
inline ShardingRule addRule() {
  ShardingRule rule = makeRule(2, kSize, {{{0}, {1}}, {{0}, {1}}}, {{{0}, {1}}});
  rule.linear = {group({0, 1})};
  rule.broadcasts = true;
  return rule;
}
/// a * b with the same shape
inline ShardingRule mulRule() {
  ShardingRule rule = addRule();
  rule.linear = {group({0}), group({1})};
  return rule;
}
/// a / b with the same shape
inline ShardingRule divRule() {
  ShardingRule rule = addRule();
  rule.linear = {group({0})};
  return rule;
}
/// a matrix and a row that is broadcast
inline ShardingRule addRowRule() {
  ShardingRule rule = makeRule(2, kSize, {{{0}, {1}}, {{1}}}, {{{0}, {1}}});
  rule.linear = {group({0, 1})};
  rule.broadcasts = true;
  return rule;
}
inline ShardingRule mulRowRule() {
  ShardingRule rule = addRowRule();
  rule.linear = {group({0}), group({1})};
  return rule;
}
/// mk, kn -> mn
inline ShardingRule mmRule() {
  ShardingRule rule = makeRule(3, kSize, {{{0}, {1}}, {{1}, {2}}}, {{{0}, {2}}});
  rule.factors[1].reduction = sharding::FactorReduction::Sum;
  rule.linear = {group({0}), group({1})};
  return rule;
}
/// n + mk, kn -> mn
inline ShardingRule addmmRule() {
  ShardingRule rule = makeRule(3, kSize, {{{2}}, {{0}, {1}}, {{1}, {2}}}, {{{0}, {2}}});
  rule.factors[1].reduction = sharding::FactorReduction::Sum;
  rule.factors[1].addends = {0};
  rule.linear = {group({0, 1}), group({0, 2})};
  rule.broadcasts = true;
  return rule;
}
/// A function of each element
inline ShardingRule unaryRule(bool isLinear) {
  ShardingRule rule = makeRule(2, kSize, {{{0}, {1}}}, {{{0}, {1}}});
  if (isLinear)
    rule.linear = {group({0})};
  return rule;
}
/// A reduction of the rows
inline ShardingRule reduceRule(sharding::FactorReduction reduction) {
  ShardingRule rule = makeRule(2, kSize, {{{0}, {1}}}, {{{1}}});
  rule.factors[0].reduction = reduction;
  if (reduction == sharding::FactorReduction::Sum || reduction == sharding::FactorReduction::Avg)
    rule.linear = {group({0})};
  return rule;
}
inline ShardingRule transposeRule() {
  ShardingRule rule = makeRule(2, kSize, {{{0}, {1}}}, {{{1}, {0}}});
  rule.linear = {group({0}, /*moves=*/true)};
  return rule;
}
/// 2x2 as 4
inline ShardingRule flattenRule() {
  ShardingRule rule = makeRule(2, kSize, {{{0}, {1}}}, {{{0, 1}}});
  rule.linear = {group({0}, /*moves=*/true)};
  return rule;
}
/// 4 as 2x2
inline ShardingRule unflattenRule() {
  ShardingRule rule = makeRule(2, kSize, {{{0, 1}}}, {{{0}, {1}}});
  rule.linear = {group({0}, /*moves=*/true)};
  return rule;
}

} // namespace cleave::placement::test

#endif // CLEAVE_TEST_UNIT_LIB_TYPING_RULES_H
