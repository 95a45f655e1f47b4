//===- ShardingRule.h - which dimensions of an op correspond --------*- C++ -*-===//
//
// One rule per op, asked by type checking, propagation, partitioning and cost alike. A rule speaks
// of *factors*. Each dimension of each operand and result is a product of factors, major first; a
// factor that stands in several tensors says that these dimensions correspond. `aten.mm` is
//
//     [m, k], [k, n] -> [m, n]; m = 4, k = 8 (sum), n = 16; linear {0} {1}
//
// and `aten.view` of 8x4 as 2x16 is `[a b, c] -> [a, b c]; a = 2, b = 4, c = 4; moves {0}`.
//
// What a rule claims, for every factor that is not *whole*: cut it in parts, so that each tensor
// that has the factor is cut along it and each without it is given to every part; run the op
// once per part (with attributes as `sizeAttributes` says); then for each result
//   - that has the factor: the parts' results, put together along it, are the result;
//   - without it: reducing the parts' results with the factor's reduction gives the result.
//   With
//     `FactorReduction::None` each part's result is the result: it does not depend on the factor.
// `Avg` needs parts of equal size. An `addends` operand of a factor is *added* to what the factor
// sums up: the parts must get terms of it (a partial value), not copies. And for every linear
// group: the op is linear in these operands together, the others held fixed. Nothing is claimed of
// random numbers (`OpKind::Random`) but their shapes.
//
// Factors are those of the shapes at hand, so rules hold of local shapes as of global ones.
// A dimension of size n that is sharded has its *leading* factors cut: the first, or one after
// factors of size 1 (`leadingFactors`). A factor that is not leading in some tensor has no `S(d)`
// there. Where a dimension has several factors, shards of uneven size of the leading one are not
// the chunks that an uneven `S(d)` of the merged dimension means.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_SHARDING_SHARDINGRULE_H
#define CLEAVE_DIALECTS_SHARDING_SHARDINGRULE_H

#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Operation.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace cleave::sharding {

/// How the parts of a result that lacks a factor become the result.
enum class FactorReduction : uint8_t { None, Sum, Avg, Max, Min, Product };
llvm::StringRef toString(FactorReduction reduction);

/// Index into `ShardingRule::factors`.
using FactorId = unsigned;
/// The factors of one dimension, major first. None: size 1, and never sharded.
using DimFactors = llvm::SmallVector<FactorId, 1>;
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

struct Factor {
  int64_t size = 1;
  /// Unique within the rule: a letter, or a letter and a number.
  std::string name;
  /// Why it must not be sharded, as the end of a sentence ("... because <reason>"); null if it
  /// may.
  const char *wholeReason = nullptr;
  /// For results that lack it, but for `unaffected` ones.
  FactorReduction reduction = FactorReduction::None;
  /// Operands that lack it and are added to the sum over it: where the factor is sharded over a
  /// mesh axis, they must be partial over this axis.
  llvm::SmallVector<unsigned, 1> addends;
  /// Results that lack it and do not depend on it, although others are reduced.
  llvm::SmallVector<unsigned, 1> unaffected;

  bool isWhole() const { return wholeReason != nullptr; }
};

/// The op is linear in `operands` together. Where all of them are partial sums over a mesh axis
/// (and the others are not partial), `results` are partial sums over it; the other results do not
/// depend on `operands`.
struct LinearGroup {
  llvm::SmallVector<unsigned, 2> operands;
  llvm::SmallVector<unsigned, 2> results;
  /// Each element of the results is an element of one of the operands: P(avg), P(max), P(min) and
  /// P(product) pass too, if all operands have it.
  bool moves = false;
};

enum class OpKind : uint8_t {
  Compute, ///< computes, or copies
  View,    ///< the results share the memory of the first operand
  Factory, ///< the results depend on no operand's elements
  Random,  ///< the results are drawn: which numbers depends on where an element is in the whole
};
llvm::StringRef toString(OpKind kind);

/// An integer attribute, or list of them, that repeats sizes of a result; a local op has local
/// ones.
struct SizeAttribute {
  enum Source : uint8_t {
    ResultShape, ///< the shape of result `index`
    FactorSize,  ///< the size of factor `index`
  };
  const char *name;
  Source source;
  unsigned index;
};

struct ShardingRule {
  /// By operand and result number of the op. A result of type `none`, and what is not a ranked
  /// tensor, has no dimensions.
  llvm::SmallVector<TensorFactors, 4> operands;
  llvm::SmallVector<TensorFactors, 2> results;
  llvm::SmallVector<Factor, 6> factors;
  llvm::SmallVector<LinearGroup, 2> linear;
  /// Operands that only lend their shape or dtype: any placement of their elements is right.
  llvm::SmallVector<unsigned, 1> shapeOnly;
  llvm::SmallVector<SizeAttribute, 1> sizeAttributes;
  OpKind kind = OpKind::Compute;
  /// A dimension of size 1 of an operand, held whole, may stretch to a factor that others have
  /// sharded.
  bool broadcasts = false;
  /// Null if the op has a rule, else why it has none. All factors are whole then.
  const char *opaqueReason = nullptr;

  bool isOpaque() const { return opaqueReason != nullptr; }

  /// A rule by which nothing may be sharded and nothing partial may pass.
  static ShardingRule opaque(mlir::Operation *op, const char *reason);

  /// The factors that an `S(dim)` may cut: the first, and those after factors of size 1 up to the
  /// first of another size. Whole ones are listed too.
  llvm::ArrayRef<FactorId> leadingFactors(const DimFactors &dim) const;
  /// The dimension of `tensor` in which `factor` is leading; none if the tensor lacks it, or has
  /// it elsewhere only.
  std::optional<unsigned> leadingDim(const TensorFactors &tensor, FactorId factor) const;
  /// Whether `factor` stands anywhere in `tensor`.
  static bool contains(const TensorFactors &tensor, FactorId factor);
  /// What happens to result `result`, which lacks `factor`, where the factor is sharded.
  FactorReduction reductionAt(FactorId factor, unsigned result) const;
  /// The group whose operands are exactly those that `isPartial` says are partial, or null.
  const LinearGroup *findLinear(llvm::function_ref<bool(unsigned)> isPartial) const;

  /// What is wrong with the rule as one of `op` (a size that is not the product of its factors, a
  /// group of operands that do not exist); empty if nothing is.
  std::string check(mlir::Operation *op) const;

  void print(llvm::raw_ostream &os) const;
  llvm::json::Value toJSON() const;
};

llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const ShardingRule &rule);

/// The rule of any op: an op without `ShardingRuleOpInterface` is opaque.
ShardingRule getShardingRule(mlir::Operation *op);

} // namespace cleave::sharding

#include "dialects/sharding/ShardingRuleInterface.h.inc"

#endif // CLEAVE_DIALECTS_SHARDING_SHARDINGRULE_H
