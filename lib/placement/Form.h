//===- Form.h - ops whose parts have to communicate -----------------*- C++ -*-===//
//
// A sharding rule says what parts of an op may run without communication. A *form* is another way:
// it says how operands and results lie along an axis, and builds the local ops, collectives
// included, that compute the op so. Forms are registered by op name in Forms.cpp, one file an idea
// in lib/placement/forms.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_FORM_H
#define CLEAVE_LIB_PLACEMENT_FORM_H

#include "lib/placement/Strategy.h"

#include "dialects/dist/Dist.h"

#include "mlir/IR/Builders.h"

namespace cleave::placement {

/// What a form builds with: `forms/LocalBuilder.h` makes typed ops of it.
class FormBuilder {
public:
  FormBuilder(mlir::OpBuilder &builder, dist::MeshOp mesh, llvm::ArrayRef<MeshAxis> axes,
              bool holdsGradients)
      : builder(builder), mesh(mesh), axes(axes), holdsGradients(holdsGradients) {}

  mlir::OpBuilder &builder;
  dist::MeshOp mesh;
  /// The axes along which the form runs, major first.
  llvm::ArrayRef<MeshAxis> axes;
  /// Whether the function has its gradients. If not, --autodiff may yet make them of what is built.
  bool holdsGradients;
};

class Form {
public:
  virtual ~Form() = default;

  /// For messages and `--explain`: "vocabulary-sharded embedding".
  virtual llvm::StringRef name() const = 0;
  /// Whether one op may run by this form along several axes at once, by the same of its strategies
  /// or by different ones. An op never runs by two forms.
  virtual bool takesSeveralAxes() const { return false; }
  /// Appends the strategies that this form offers `op` along `axis`; none if it does not apply.
  virtual void getStrategies(mlir::Operation *op, MeshAxis axis,
                             llvm::SmallVectorImpl<AxisStrategy> &strategies) const = 0;
  /// Builds the op's local form before `op`, once for all axes that run by this form:
  /// `strategies` are those of `form.axes`, in this order. `operands` are local values, placed as
  /// the strategies say on the form's axes and as other strategies say on the others. `op` has its
  /// global shapes. Returns a local value a result (null for one of type `none`), of the
  /// strategies' placements on the form's axes; where several of them shard one dimension of a
  /// result, they do so in the order in which they shard the operands, or else in that of
  /// `form.axes`. Failure after an error at `op`.
  virtual mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  build(mlir::Operation *op, mlir::ValueRange operands, llvm::ArrayRef<AxisStrategy> strategies,
        FormBuilder &form) const = 0;
};

/// The forms registered for ops of this name, in order of registration.
llvm::ArrayRef<const Form *> getForms(mlir::OperationName name);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_FORM_H
