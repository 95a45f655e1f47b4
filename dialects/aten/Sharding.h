//===- Sharding.h - writing the sharding rules of aten ops ----------*- C++ -*-===//
//
// Names instead of operand numbers, and the families that only aten has.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_ATEN_SHARDING_H
#define CLEAVE_DIALECTS_ATEN_SHARDING_H

#include "dialects/aten/Aten.h"
#include "dialects/sharding/RuleText.h"

namespace cleave::aten {

using sharding::DimFactors;
using sharding::FactorId;
using sharding::FactorReduction;
using sharding::TensorFactors;

class RuleBuilder : public sharding::RuleBuilder {
public:
  explicit RuleBuilder(mlir::Operation *op);

  /// The operand of the tensor argument `name`, as the op's record calls it; none if it is
  /// absent.
  std::optional<unsigned> operand(llvm::StringRef name) const;

  /// Writes the factors of a text, whose tensors are the op's tensor arguments (no lists).
  void text(const sharding::RuleText &text);

  using sharding::RuleBuilder::linear;
  using sharding::RuleBuilder::moves;
  /// A group by the names of its arguments: "self, other", or "value -> 0" with its results.
  void linear(llvm::StringRef group);
  void moves(llvm::StringRef group);

  /// Result 0 is operand 0 reduced over `dims` (none: all dimensions). Without a reduction, the
  /// reduced dimensions must be whole, because `reason`.
  void reduce(llvm::ArrayRef<int64_t> dims, bool keepDims, std::optional<FactorReduction> reduction,
              const char *reason = nullptr);
  /// All operands and results have one rank, and what corresponds is in the same place, but for
  /// dimension `dim` (negative: from the end), which must be whole in each.
  void allBut(int64_t dim, const char *reason);
  /// Each result has the dimensions of operand 0 in their order, without those that `dropped` names
  /// and with those that `added` names (counted from the front); these must be whole.
  void sameDims(llvm::ArrayRef<int64_t> dropped, llvm::ArrayRef<int64_t> added, const char *reason);

private:
  llvm::ArrayRef<ArgumentSpec> specs;
  llvm::SmallVector<int32_t, 4> segments;

  bool readGroup(llvm::StringRef group, llvm::SmallVectorImpl<unsigned> &operands,
                 llvm::SmallVectorImpl<unsigned> &results);
};

/// Whether a `Scalar` is the number 0; whether it is neither infinite nor NaN.
bool isZero(mlir::Attribute scalar);
bool isFinite(mlir::Attribute scalar);

/// `dim` counted from the front, as verified.
inline int64_t wrapped(int64_t dim, int64_t rank) {
  return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim;
}

} // namespace cleave::aten

#endif // CLEAVE_DIALECTS_ATEN_SHARDING_H
