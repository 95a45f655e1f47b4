//===- ActivationGradients.h - the chain of gradients of activations -*- C++ -*-===//
//
// A first stage has no gradient to pass on: its input is tokens. Where its backward shall be split
// all the same, the gradients of activations inside it take the place of the inputs' gradients.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_ACTIVATIONGRADIENTS_H
#define CLEAVE_LIB_BACKWARD_ACTIVATIONGRADIENTS_H

#include "lib/backward/GradientRoles.h"

#include "llvm/ADT/SetVector.h"

namespace cleave::backward {

/// Tells gradients of activations from the ends of gradients of parameters.
///
/// The *end* of a parameter's gradient is what only that parameter needs: backwards from the result
/// through accumulation, views, sums and elementwise ops up to and with the first op that is none
/// of these (a matrix product, an embedding's or a normalization's backward). What enters an end
/// and depends on the tangents is the gradient of an activation.
class ActivationGradients {
public:
  ActivationGradients(mlir::func::FuncOp function, const GradientResults &results,
                      llvm::ArrayRef<mlir::Value> tangents);

  /// All of them, in the order of the function.
  llvm::SetVector<mlir::Value> all() const;

  /// Those that leave the modules (module paths as in locations) for others. Empty if there is
  /// none.
  llvm::SetVector<mlir::Value> leaving(llvm::ArrayRef<llvm::StringRef> modules) const;

  /// The modules of ops that compute gradients, each once.
  llvm::SmallVector<llvm::StringRef> modules() const;

private:
  void findReach(const GradientResults &results);
  void walkEnd(mlir::Value gradient);

  mlir::func::FuncOp function;
  llvm::DenseSet<mlir::Value> gradients; ///< depend on the tangents
  /// The one result, a parameter's gradient, that a value is for; kSeveral for more or others.
  llvm::DenseMap<mlir::Value, int> reach;
  llvm::DenseSet<mlir::Value> ends;
  llvm::DenseSet<mlir::Value> entering;
};

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_ACTIVATIONGRADIENTS_H
