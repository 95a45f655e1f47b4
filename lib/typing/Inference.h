//===- Inference.h - the placements of an op's results --------------*- C++ -*-===//
//
// Rules 1 to 5 of docs/types.md for one op, over all axes of the mesh. The type checker compares
// what they give with what a program declares; who builds typed programs asks for the types.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_TYPING_INFERENCE_H
#define CLEAVE_LIB_TYPING_INFERENCE_H

#include "dialects/dist/Dist.h"
#include "lib/typing/AxisInference.h"

namespace cleave::placement {

struct InferenceOptions {
  /// Whether a gradient will flow to a value (rule 3); without it, to none.
  llvm::function_ref<bool(mlir::Value)> carriesGradient = nullptr;
  /// By result: the placement to take where the rules leave a choice, null for any. May be shorter
  /// than the list of results.
  llvm::ArrayRef<dist::PlacementAttr> preferred = {};
  /// By operand: what to take in place of its type's placement, null for that. May be shorter than
  /// the list of operands.
  llvm::ArrayRef<dist::PlacementAttr> operands = {};
  /// Gives mesh and axes to an op without placed operands. Null: such an op has no placement.
  dist::PlacementAttr like = nullptr;
  /// Where the rules leave the choice of R or I and nothing is preferred, take I.
  bool preferInvariant = false;
  /// Fail without an error: the caller only asks whether.
  bool quiet = false;
};

/// The placements of the results of `op`, an op that computes (`aten`, `train`), whose operands are
/// placed on one mesh and set of axes. By result; null for what is not a tensor, and for all where
/// no operand has a placement. The results' types are looked at for their shapes only. Where the
/// rules leave a choice and nothing is preferred, constants are I: they carry no gradient, so I
/// joins anything.
///
/// Emits an error at `op` (unless `quiet`) where the rules do not allow these operands together: it
/// names the axis, the operands and their types, says what to insert, and has a note at the
/// operand's origin.
llvm::FailureOr<llvm::SmallVector<dist::PlacementAttr>>
inferPlacements(mlir::Operation *op, const InferenceOptions &options = {});

/// The same, and gives the types of the results these placements.
llvm::LogicalResult placeResults(mlir::Operation *op, const InferenceOptions &options = {});

} // namespace cleave::placement

#endif // CLEAVE_LIB_TYPING_INFERENCE_H
