//===- RuleBuilder.h - writing an op's sharding rule ----------------*- C++ -*-===//
//
// Families of ops have their whole rule here (pointwise, views); an op of fixed rank has a text
// like "mk, kn -> mn" (`RuleText.h`); the others say dimension by dimension what corresponds. A
// dimension of which nothing is said must be whole.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_SHARDING_RULEBUILDER_H
#define CLEAVE_DIALECTS_SHARDING_RULEBUILDER_H

#include "dialects/sharding/ShardingRule.h"

#include "mlir/IR/BuiltinTypes.h"

namespace cleave::sharding {

class RuleBuilder {
public:
  explicit RuleBuilder(mlir::Operation *op);

  //===--------------------------------------------------------------------===//
  // Dimension by dimension
  //===--------------------------------------------------------------------===//

  /// A new factor, which may be sharded.
  FactorId factor(int64_t size, FactorReduction reduction = FactorReduction::None);
  /// A new factor that must not be sharded, because `reason`.
  FactorId whole(int64_t size, const char *reason);
  /// Makes `factor` one that must not be sharded.
  void makeWhole(FactorId factor, const char *reason);
  /// The same for the factor that a text calls `letter`.
  void makeWholeLetter(char letter, const char *reason);
  /// `operand` is added to the sum over `factor`, which it has not.
  void addend(FactorId factor, unsigned operand);
  /// Result `result`, which lacks `factor`, does not depend on it.
  void unaffected(FactorId factor, unsigned result);

  void operandDim(unsigned operand, unsigned dim, llvm::ArrayRef<FactorId> factors);
  void resultDim(unsigned result, unsigned dim, llvm::ArrayRef<FactorId> factors);
  /// A new factor that is dimension `operandDim` of an operand and `resultDim` of a result.
  FactorId keep(unsigned operand, unsigned operandDim, unsigned result, unsigned resultDim);
  /// A new whole factor for a dimension.
  void wholeOperandDim(unsigned operand, unsigned dim, const char *reason);
  void wholeResultDim(unsigned result, unsigned dim, const char *reason);
  /// A new whole factor for each dimension of which nothing has been said.
  void closeWhole(const char *reason);

  //===--------------------------------------------------------------------===//
  // Families
  //===--------------------------------------------------------------------===//

  /// All operands broadcast, aligned at the last dimension, to the shape that all results have.
  void pointwise();
  /// One operand, aligned at the last dimension with factors that stand for result dimensions.
  void broadcastOperand(unsigned operand, llvm::ArrayRef<DimFactors> to);
  /// Operands and results have nothing to do with each other; each dimension may be sharded.
  void unrelated();
  /// Result 0 is operand 0 in another shape, in row-major order.
  void reshape();

  //===--------------------------------------------------------------------===//
  // The rest of a rule
  //===--------------------------------------------------------------------===//

  /// The op is linear in `operands` together; without `results`, all results follow. Ignored where
  /// an operand or result is not a number (bool).
  void linear(llvm::ArrayRef<unsigned> operands, llvm::ArrayRef<unsigned> results = {});
  /// Each element of the results is one of `operands`'.
  void moves(llvm::ArrayRef<unsigned> operands, llvm::ArrayRef<unsigned> results = {});
  /// The attribute repeats the shape of a result, or the size of a factor.
  void sizeIsResultShape(const char *attribute, unsigned result = 0);
  void sizeIsFactor(const char *attribute, FactorId factor);
  void kind(OpKind kind) { rule.kind = kind; }
  void shapeOnly(unsigned operand) { rule.shapeOnly.push_back(operand); }
  /// Gives up: the op is opaque.
  void opaque(const char *reason) { opaqueReason = reason; }

  llvm::ArrayRef<int64_t> operandShape(unsigned operand) const;
  llvm::ArrayRef<int64_t> resultShape(unsigned result) const;
  ShardingRule &get() { return rule; }
  ShardingRule finish();

protected:
  mlir::Operation *op;
  ShardingRule rule;
  const char *opaqueReason = nullptr;

private:
  void addGroup(LinearGroup group);
};

} // namespace cleave::sharding

#endif // CLEAVE_DIALECTS_SHARDING_RULEBUILDER_H
