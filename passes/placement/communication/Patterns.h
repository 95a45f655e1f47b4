//===- Patterns.h - the parts of --simplify-communication -----------*- C++ -*-===//

#ifndef CLEAVE_PASSES_PLACEMENT_COMMUNICATION_PATTERNS_H
#define CLEAVE_PASSES_PLACEMENT_COMMUNICATION_PATTERNS_H

#include "dialects/dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace cleave::placement {

// Each pattern has one of these as its label, by which the pass counts what it has done.
constexpr llvm::StringLiteral kGathersDropped = "gathers-dropped";
constexpr llvm::StringLiteral kConversionsFolded = "conversions-folded";
constexpr llvm::StringLiteral kReductionsMerged = "reductions-merged";

// Each adds the patterns of one file.
void addGatherPatterns(mlir::RewritePatternSet &patterns);
void addConversionPatterns(mlir::RewritePatternSet &patterns);
void addReductionPatterns(mlir::RewritePatternSet &patterns);

/// Carries partial values through linear ops where fewer bytes are reduced then. Time is linear in
/// the size of the function. Returns how many reductions were delayed.
unsigned delayReductions(mlir::func::FuncOp function);

/// A communication of one value that is waited for at once: its operand; null for any other.
template <typename Op> mlir::Value getOnlyOperand(Op op) {
  if (!op || op->getNumOperands() != 1 || op.isStarted())
    return {};
  return op->getOperand(0);
}
/// The op of this kind that makes `value`, if it is a communication of one value, waited for at
/// once.
template <typename Op> Op getProducer(mlir::Value value) {
  auto op = value.getDefiningOp<Op>();
  return getOnlyOperand(op) ? op : Op();
}

/// The axis along which a communication runs, null if it runs along several.
mlir::StringAttr getOnlyAxis(dist::CommunicationOpInterface op);

/// Whether the types make the same transition along all axes, as one communication does (or say
/// nothing about it).
bool makesOneTransition(mlir::Type from, mlir::Type to, llvm::ArrayRef<mlir::Attribute> axes);

/// `value` as `type`, which is its own type, or one that a `dist.convert` leads to; null where
/// there is no such conversion. `dim` is that of a V.
mlir::Value convertTo(mlir::RewriterBase &rewriter, mlir::Location location, mlir::Value value,
                      mlir::Type type, std::optional<int64_t> dim = std::nullopt);

} // namespace cleave::placement

#endif // CLEAVE_PASSES_PLACEMENT_COMMUNICATION_PATTERNS_H
