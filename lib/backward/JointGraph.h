//===- JointGraph.h - what of a microbatch is forward, what backward --*- C++ -*-===//
//
// Found from roles and data flow alone: what depends on the gradient that a backward starts from is
// backward, what a result of the forward needs is forward. `train.backward`, which says what the
// exporter saw, is not asked: passes move and make ops.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_JOINTGRAPH_H
#define CLEAVE_LIB_BACKWARD_JOINTGRAPH_H

#include "dialects/train/Program.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave::backward {

/// Sorts the ops of one function of phase microbatch.
class JointGraph {
public:
  /// Fails, with an error on the function, where it has no backward and `mayLackBackward` does not
  /// allow that, or no two functions could hold its results.
  static llvm::FailureOr<JointGraph> create(mlir::func::FuncOp function,
                                            bool mayLackBackward = false);

  mlir::func::FuncOp getFunction() const { return function; }
  /// Numbers of results, in order.
  llvm::ArrayRef<unsigned> getForwardResults() const { return forwardResults; }
  llvm::ArrayRef<unsigned> getBackwardResults() const { return backwardResults; }

  /// Depends on the seed, an accumulator or a gradient: can only be computed in the backward.
  bool isTangent(mlir::Value value) const { return tangents.contains(value); }
  bool isTangent(mlir::Operation *op) const;
  /// Some result of the forward needs the op.
  bool isForward(mlir::Operation *op) const { return forward.contains(op); }
  /// A buffer whose new value is a result: its old value is not an argument of another function.
  bool isUpdatedBuffer(mlir::Value value) const { return updatedBuffers.contains(value); }
  /// Arguments that the backward may have too; what they hold costs nothing to keep. Not so what
  /// another pipeline stage passes.
  bool isFreeArgument(mlir::Value value) const {
    return llvm::isa<mlir::BlockArgument>(value) && !isUpdatedBuffer(value) && !isTangent(value) &&
           !crossings.contains(value);
  }
  /// Place in the function, from 0.
  unsigned getOrder(mlir::Operation *op) const { return order.lookup(op); }

private:
  explicit JointGraph(mlir::func::FuncOp function) : function(function) {}
  void findTangents();
  llvm::LogicalResult sortResults(bool mayLackBackward);
  void findForward();

  mlir::func::FuncOp function;
  llvm::SmallVector<unsigned> forwardResults, backwardResults;
  llvm::DenseSet<mlir::Value> tangents, updatedBuffers, crossings;
  llvm::DenseSet<mlir::Operation *> forward;
  llvm::DenseMap<mlir::Operation *, unsigned> order;
};

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_JOINTGRAPH_H
