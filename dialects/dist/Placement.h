//===- Placement.h - how a value varies along one mesh axis --------*- C++ -*-===//
//
// The algebra of docs/types.md without ops: what stands for one axis in `#dist.on<...>`, and what
// may be asked of a type.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_DIST_PLACEMENT_H
#define CLEAVE_DIALECTS_DIST_PLACEMENT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include "dialects/dist/DistEnums.h.inc"

namespace cleave::dist {

class PlacementAttr;

/// How a value varies along an axis. The letters are those of the types' text.
enum class PlacementKind {
  R, ///< replicated: same data, each rank may use it differently
  P, ///< partial: operands of a pending reduction
  I, ///< invariant: same data and same computation everywhere
  V, ///< varying: different data, no known reassembly
  S, ///< sharded: different data, concatenates along a dimension
};

/// "R", "P", "I", "V", "S".
llvm::StringRef stringifyPlacementKind(PlacementKind kind);

/// One axis' placement. What a kind does not use has its default, so that equal placements compare
/// equal.
struct AxisPlacement {
  PlacementKind kind = PlacementKind::R;
  Reduction reduction = Reduction::Sum; ///< of P: sum, avg, max, min or product
  int64_t dim = 0;                      ///< of S: the tensor's dimension
  int64_t order = 0; ///< of S: 0 the major one of the axes that shard the dimension

  static AxisPlacement replicate() { return {}; }
  static AxisPlacement partial(Reduction reduction = Reduction::Sum) {
    return {PlacementKind::P, reduction, 0, 0};
  }
  static AxisPlacement invariant() { return {PlacementKind::I, Reduction::Sum, 0, 0}; }
  static AxisPlacement varying() { return {PlacementKind::V, Reduction::Sum, 0, 0}; }
  static AxisPlacement shard(int64_t dim, int64_t order = 0) {
    return {PlacementKind::S, Reduction::Sum, dim, order};
  }

  bool isReplicate() const { return kind == PlacementKind::R; }
  bool isPartial() const { return kind == PlacementKind::P; }
  bool isPartialSum() const { return isPartial() && reduction == Reduction::Sum; }
  bool isInvariant() const { return kind == PlacementKind::I; }
  bool isVarying() const { return kind == PlacementKind::V; }
  bool isShard() const { return kind == PlacementKind::S; }
  bool isShard(int64_t d) const { return isShard() && dim == d; }
  /// Whether all ranks along the axis hold the same data: R or I.
  bool isSameOnAllRanks() const { return isReplicate() || isInvariant(); }

  bool operator==(const AxisPlacement &) const = default;
};

llvm::hash_code hash_value(const AxisPlacement &placement);

/// `R`, `P`, `P(max)`, `I`, `V`, `S(0)`; where several axes shard the dimension, `S(0, 1)`.
std::string toString(const AxisPlacement &placement, bool withOrder = false);
llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const AxisPlacement &placement);
mlir::Diagnostic &operator<<(mlir::Diagnostic &diagnostic, const AxisPlacement &placement);

/// The placement of the cotangent (gradient) of a value with this one. Failure, without a message,
/// for a pending reduction other than a sum: no gradient passes.
llvm::FailureOr<AxisPlacement> dual(const AxisPlacement &placement);

/// An axis' name and the placement on it.
struct AxisEntry {
  mlir::StringAttr axis;
  AxisPlacement placement;

  bool operator==(const AxisEntry &) const = default;
};
llvm::hash_code hash_value(const AxisEntry &entry);

/// The entries in the order in which `PlacementAttr` keeps them: by name.
llvm::SmallVector<AxisEntry> sortedByAxis(llvm::ArrayRef<AxisEntry> entries);

/// A statically shaped tensor of integers, booleans or floating-point numbers: what lies on a mesh.
bool isTensor(mlir::Type type);

/// Whether values of this element type can be reduced so: `sum`, `product`, `max` and `min` take
/// numbers, `avg` and `premul_sum` floating-point ones, bitwise reductions integers and booleans.
bool isReducible(Reduction reduction, mlir::Type elementType);

/// The placement of a tensor type (or of a future's tensor type); null if it has none.
PlacementAttr getPlacement(mlir::Type type);
/// The same shape and element type with this placement; a null placement erases it.
mlir::RankedTensorType withPlacement(mlir::RankedTensorType type, PlacementAttr placement);
/// The type without placement; types that are not ranked tensors stay unchanged.
mlir::Type erasePlacement(mlir::Type type);
/// T for `!dist.future<T>` and `!dist.host<T>`, else the type itself.
mlir::Type valueTypeOf(mlir::Type type);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_PLACEMENT_H
