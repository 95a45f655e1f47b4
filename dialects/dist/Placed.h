//===- Placed.h - global programs that say where their tensors live -*- C++ -*-===//
//
// The placed global program of docs/placements.md: shapes and types are those of one device, and
// attributes say how each tensor lies on the mesh. Before `--propagate-placements` they are the
// user's constraints, which may leave axes or whole values open; after it every value has one, with
// every axis of the mesh.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_DIST_PLACED_H
#define CLEAVE_DIALECTS_DIST_PLACED_H

#include "dialects/dist/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::dist {

/// On arguments and results of a function: `dist.placement = #dist.on<@mesh, dp = S(0)>`.
constexpr llvm::StringLiteral kPlacementAttr = "dist.placement";
/// On ops, an array with an entry a result: how the result is made. `unit` leaves it open.
constexpr llvm::StringLiteral kResultsAttr = "dist.results";
/// On ops, an array with an entry an operand: how the op takes it. Where that is not how the value
/// was made, the value is redistributed for this use. `unit` leaves it open.
constexpr llvm::StringLiteral kOperandsAttr = "dist.operands";

/// On ops that draw random numbers: the sizes of the whole tensor, of which a rank draws a part.
constexpr llvm::StringLiteral kWholeShapeAttr = "dist.whole_shape";

/// On ops that access a partitioned row buffer, its number of parts: one per rank, of fixed
/// capacity; the used rows of a part come first, the rest are zero. `aten.index_put` scatters rows
/// into a zero buffer, `aten.index` gathers them; indices are row numbers and unique. A row beyond
/// the capacity of part p has an out-of-bounds index: buffer size + p * number of rows + its
/// position in the part. Groups of `aten._grouped_mm` are in the part of the rank that owns their
/// matrices.
constexpr llvm::StringLiteral kPartsAttr = "dist.parts";

/// The one mesh of the module, null if it has none. A module of several meshes is not placed.
dist::MeshOp getMesh(mlir::ModuleOp module);

/// How a value is made: of an argument or an op's result. Null if nothing is said; axes that are
/// not mentioned are open.
dist::PlacementAttr getPlacementOf(mlir::Value value);
/// How the op takes the operand; a return's operands are placed as the function's results. Null
/// where nothing is said.
dist::PlacementAttr getPlacementOf(mlir::OpOperand &operand);

void setPlacementOf(mlir::Value value, dist::PlacementAttr placement);
void setPlacementOf(mlir::OpOperand &operand, dist::PlacementAttr placement);

/// Whether anything in the function is placed by attribute.
bool isPlaced(mlir::func::FuncOp function);
/// Takes all three attributes off.
void erasePlacements(mlir::func::FuncOp function);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_PLACED_H
