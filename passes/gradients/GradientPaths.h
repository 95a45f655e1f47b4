//===- GradientPaths.h - from a gradient's op to the optimizer ----*- C++ -*-===//
//
// Follows each parameter's gradient from the op that makes it, through its accumulation and its
// reductions (in the program's reduce function, the update, or both), to where the optimizer takes
// it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_PASSES_GRADIENTS_GRADIENTPATHS_H
#define CLEAVE_PASSES_GRADIENTS_GRADIENTPATHS_H

#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"

namespace cleave::gradients {

/// A parameter's gradient: where it is made, and what happens to it until the optimizer takes it.
struct GradientPath {
  mlir::StringAttr name;
  mlir::RankedTensorType type; ///< of what a microbatch contributes
  mlir::Type element;          ///< in which it is added up and reduced

  mlir::func::FuncOp producer;    ///< a function that runs for each microbatch
  unsigned result = 0;            ///< of `producer`
  mlir::Value value;              ///< what a microbatch contributes
  train::AccumulateOp accumulate; ///< null if the program runs one microbatch per step
  /// The op after which it is contributed (`orderByReadiness`); null: at the beginning.
  mlir::Operation *behind = nullptr;
  bool isBrought = false;                     ///< by communication
  llvm::SmallVector<mlir::Operation *> views; ///< then: of what it brings, in their order

  /// Argument and result of the reduce function, where the gradient passes through it on its way to
  /// the update.
  std::optional<unsigned> reduceArgument, reduceResult;
  /// The update; in a program without one, the reduce function.
  mlir::func::FuncOp consumer;
  unsigned argument = 0; ///< of `consumer`
  /// In order, with the casts between them, and at the end what gives a sum of wider elements the
  /// contribution's type. Empty: nothing to reduce.
  llvm::SmallVector<mlir::Operation *> reductions;
  mlir::FlatSymbolRefAttr mesh;                        ///< null: nothing to reduce
  llvm::SmallVector<mlir::Attribute, 2> axes, scatter; ///< summed over; scattered along
  int64_t scatterDim = 0;                              ///< the dimension that is scattered
  mlir::Value reduced; ///< what the optimizer takes, or is returned; maybe in a narrower type
};

/// The paths of all gradients that the update of `part`, `program` itself or one of its stages,
/// takes (without an update: that its reduce function takes), in the order of its arguments. An
/// error where a gradient's accumulation or reduction is
/// more than plain sums, or is not a floating-point tensor.
llvm::FailureOr<std::vector<GradientPath>> findGradientPaths(const train::ProgramFunctions &program,
                                                             const train::ProgramFunctions &part);

} // namespace cleave::gradients

#endif // CLEAVE_PASSES_GRADIENTS_GRADIENTPATHS_H
