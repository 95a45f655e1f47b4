//===- Rules.h - how derivative rules are attached to ops ----------*- C++ -*-===//

#ifndef CLEAVE_LIB_AUTODIFF_RULES_H
#define CLEAVE_LIB_AUTODIFF_RULES_H

#include "dialects/derivative/DerivativeInterface.h"
#include "lib/autodiff/Backward.h"

namespace cleave::autodiff {

/// Whether `op` has complex numbers as operands or results.
bool takesComplex(mlir::Operation *op);

/// The interface's model for `OpTy`: `rule` is a function of the op and a `Backward`, which returns
/// nothing or a LogicalResult.
template <typename OpTy, auto rule, bool isForComplex>
struct RuleModel : DerivativeInterface::ExternalModel<RuleModel<OpTy, rule, isForComplex>, OpTy> {
  mlir::LogicalResult differentiate(mlir::Operation *op, Backward &backward) const {
    if (!isForComplex && takesComplex(op))
      return backward.refuse("on complex numbers");
    if constexpr (std::is_void_v<decltype(rule(mlir::cast<OpTy>(op), backward))>) {
      rule(mlir::cast<OpTy>(op), backward);
      return mlir::success();
    } else {
      return rule(mlir::cast<OpTy>(op), backward);
    }
  }
};

/// For a rule of real numbers.
template <typename OpTy, auto rule> void attach(mlir::MLIRContext &context) {
  OpTy::template attachInterface<RuleModel<OpTy, rule, false>>(context);
}

/// For a rule that holds for complex numbers too: of a linear op, or one that conjugates what it
/// multiplies gradients with. A gradient is that of the conjugate, as in PyTorch: the direction in
/// which the loss grows.
template <typename OpTy, auto rule> void attachForComplex(mlir::MLIRContext &context) {
  OpTy::template attachInterface<RuleModel<OpTy, rule, true>>(context);
}

/// The model of ops that no gradient passes: `detach`, zeros in the shape of an operand, random
/// numbers.
template <typename OpTy>
struct CutModel : DerivativeInterface::ExternalModel<CutModel<OpTy>, OpTy> {
  mlir::LogicalResult differentiate(mlir::Operation *, Backward &) const { return mlir::success(); }
  bool carriesGradient(mlir::Operation *, unsigned) const { return false; }
};

template <typename... Ops> void attachCut(mlir::MLIRContext &context) {
  (Ops::template attachInterface<CutModel<Ops>>(context), ...);
}

/// Dimensions counted from the front, all of them where `dims` is absent or empty.
aten::Shape dimsOrAll(std::optional<llvm::ArrayRef<int64_t>> dims, int64_t rank);
inline int64_t fromFront(int64_t dim, int64_t rank) {
  return dim < 0 ? dim + rank : dim;
}

// One function for each category of ops, in `rules/CATEGORY.cpp`.
void attachPointwiseRules(mlir::MLIRContext &context);
void attachActivationRules(mlir::MLIRContext &context);
void attachContractionRules(mlir::MLIRContext &context);
void attachReductionRules(mlir::MLIRContext &context);
void attachViewRules(mlir::MLIRContext &context);
void attachCopyRules(mlir::MLIRContext &context);
void attachNormalizationRules(mlir::MLIRContext &context);
void attachAttentionRules(mlir::MLIRContext &context);
void attachComplexRules(mlir::MLIRContext &context);
void attachIndexingRules(mlir::MLIRContext &context);
void attachLossRules(mlir::MLIRContext &context);
void attachRandomRules(mlir::MLIRContext &context);
void attachConvolutionRules(mlir::MLIRContext &context);
void attachCallRules(mlir::MLIRContext &context);
void attachDistReductionRules(mlir::MLIRContext &context);
void attachDistMovementRules(mlir::MLIRContext &context);
void attachDistConversionRules(mlir::MLIRContext &context);

} // namespace cleave::autodiff

#endif // CLEAVE_LIB_AUTODIFF_RULES_H
