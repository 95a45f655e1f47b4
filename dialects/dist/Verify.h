//===- Verify.h - what the verifiers of dist ops share -------------*- C++ -*-===//
//
// `verify...` looks at the op alone; `...OnMesh` needs the mesh, and is for `verifySymbolUses`.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_DIST_VERIFY_H
#define CLEAVE_DIALECTS_DIST_VERIFY_H

#include "dialects/dist/Dist.h"

namespace cleave::dist {

/// What an op does with each of its operands: the facts that shared checks need.
struct Redistribution {
  mlir::Operation *op;
  mlir::FlatSymbolRefAttr mesh;
  llvm::SmallVector<mlir::StringAttr> axes;
  std::optional<Reduction> reduction;
  /// The dimension that grows: the source's is what one rank holds of the destination's.
  std::optional<int64_t> gathered;
  /// The dimension that shrinks: the destination's is what one rank holds of the source's.
  std::optional<int64_t> scattered;
};

template <typename Op> Redistribution describe(Op op) {
  Redistribution what{op, op.getMeshAttr(), {}, std::nullopt, std::nullopt, std::nullopt};
  llvm::append_range(what.axes, op.getAxesAttr().template getAsRange<mlir::StringAttr>());
  if constexpr (requires { op.getReductionAttr(); })
    what.reduction = op.getReduction().getKind();
  return what;
}

/// At least one axis, each once.
mlir::LogicalResult verifyAxes(const Redistribution &what);
/// Each operand has one result; all results are futures or none is; futures have values.
mlir::LogicalResult verifyResults(mlir::Operation *op);
/// The element types have the reduction.
mlir::LogicalResult verifyReduction(mlir::Operation *op, Reduction reduction);
/// The attribute `name`, a dimension, is one of each operand.
mlir::LogicalResult verifyDim(mlir::Operation *op, llvm::StringRef name, int64_t dim);
/// Element types and shapes are equal but for the gathered and the scattered dimension.
mlir::LogicalResult verifyShapes(const Redistribution &what);
/// Placements of each operand and its result make a transition that the op has, one on all axes.
mlir::LogicalResult verifyPlacements(const Redistribution &what);
/// The type of a value without counterpart has this kind of placement along the axes.
mlir::LogicalResult verifyPlacement(const Redistribution &what, mlir::Type type,
                                    PlacementKind kind);

/// Along axes that the op does not run along, `to` has the placements of `from`.
mlir::LogicalResult verifyOtherAxes(const Redistribution &what, mlir::Type from, mlir::Type to);

/// All but the last two, in this order.
mlir::LogicalResult verifyRedistribution(const Redistribution &what);

/// The mesh exists and has the axes; types leave out only axes of size 1; gathered and scattered
/// dimensions are what a rank holds (torch.chunk).
mlir::LogicalResult verifyOnMesh(const Redistribution &what, mlir::SymbolTableCollection &symbols);
/// The attribute `name` is the index of a rank along the axes, which may be known (`verifyOnMesh`
/// has to hold).
mlir::LogicalResult verifyRankOnMesh(const Redistribution &what, llvm::StringRef name,
                                     int64_t index, mlir::SymbolTableCollection &symbols);

/// The bits of an element; of a complex number, of both parts.
unsigned getElementBits(mlir::Type element);
/// The bytes of a tensor, or of the tensor of a future.
int64_t bytesOf(mlir::Type type);
/// The bytes of all tensors.
int64_t bytesOf(mlir::TypeRange types);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_VERIFY_H
