//===- AtenBuilder.h - makes aten ops, with their result types -----*- C++ -*-===//
//
// What derivative rules are written in: one method for each op they need, which infers the type of
// the result from the operands. In a typed function the placement of every result is inferred too,
// here and nowhere else.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_ATEN_ATENBUILDER_H
#define CLEAVE_LIB_ATEN_ATENBUILDER_H

#include "dialects/aten/Shapes.h"
#include "dialects/dist/Dist.h"
#include "lib/aten/Strides.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave::aten {

using mlir::Value;

/// The type of a value's gradient: of the same shape and dtype, with the dual placement. Null where
/// no gradient passes: a pending reduction other than a sum.
mlir::RankedTensorType gradientTypeOf(mlir::Type type);

class AtenBuilder {
public:
  /// `frame`: any placement on the function's mesh and axes; null in a function without placements.
  AtenBuilder(mlir::OpBuilder &builder, dist::PlacementAttr frame)
      : builder(builder), frame(frame) {}

  //===--------------------------------------------------------------------===//
  // Any op
  //===--------------------------------------------------------------------===//

  /// Creates the op with this name and results of these types (`none` for an undefined result). An
  /// aten op's results get the placements that follow from its operands; types of dist ops are
  /// complete.
  mlir::Operation *create(llvm::StringRef name, mlir::TypeRange types, mlir::ValueRange operands,
                          llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  template <typename OpTy>
  mlir::Operation *create(mlir::TypeRange types, mlir::ValueRange operands,
                          llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
    return create(OpTy::getOperationName(), types, operands, attributes);
  }
  /// The same for an op with one result of this shape and dtype.
  template <typename OpTy>
  Value make(llvm::ArrayRef<int64_t> shape, mlir::Type dtype, mlir::ValueRange operands,
             llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
    return create(OpTy::getOperationName(), mlir::RankedTensorType::get(shape, dtype), operands,
                  attributes)
        ->getResult(0);
  }
  /// The same with the shape and dtype of `like`.
  template <typename OpTy>
  Value makeLike(Value like, mlir::ValueRange operands,
                 llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
    return make<OpTy>(shapeOf(like), dtypeOf(like), operands, attributes);
  }
  /// `aten.call` of an operator without a typed op, with one result. `arguments` hold its constant
  /// arguments, `operandNames` name the tensors.
  Value call(llvm::StringRef callee, llvm::ArrayRef<int64_t> shape, mlir::Type dtype,
             llvm::ArrayRef<std::pair<llvm::StringRef, Value>> operands,
             llvm::ArrayRef<mlir::NamedAttribute> arguments);

  // Attributes of the schema's kinds.
  mlir::NamedAttribute named(llvm::StringRef name, mlir::Attribute value);
  mlir::NamedAttribute integer(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute integers(llvm::StringRef name, llvm::ArrayRef<int64_t> values);
  mlir::NamedAttribute number(llvm::StringRef name, double value);
  mlir::NamedAttribute boolean(llvm::StringRef name, bool value);
  mlir::NamedAttribute booleans(llvm::StringRef name, llvm::ArrayRef<bool> values);
  mlir::NamedAttribute string(llvm::StringRef name, llvm::StringRef value);
  mlir::NamedAttribute dtype(llvm::StringRef name, mlir::Type value);
  /// The number of operands of each argument, for ops with several optional ones or lists.
  mlir::NamedAttribute segments(llvm::ArrayRef<int32_t> sizes);
  mlir::Attribute scalar(double value) { return builder.getF64FloatAttr(value); }
  mlir::Attribute scalar(int64_t value) { return builder.getI64IntegerAttr(value); }

  //===--------------------------------------------------------------------===//
  // Pointwise
  //===--------------------------------------------------------------------===//

  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b);
  Value pow(Value a, Value b);
  Value addScalar(Value a, mlir::Attribute b);
  Value subScalar(Value a, mlir::Attribute b);
  Value mulScalar(Value a, mlir::Attribute b);
  Value divScalar(Value a, mlir::Attribute b);
  Value powScalar(Value a, double exponent);
  /// `a` times the number, `a` itself where it is 1 (absent: 1), as PyTorch's `maybe_multiply`.
  Value scale(Value a, mlir::Attribute by);
  Value neg(Value a);
  /// The conjugate of complex numbers; real ones are their own.
  Value conj(Value a);
  mlir::Attribute conj(mlir::Attribute scalar);
  /// The real (0) or imaginary part (1) of complex numbers.
  Value part(Value a, int64_t index);
  Value viewAsReal(Value a);
  /// Pairs of reals along the last dimension as complex numbers.
  Value viewAsComplex(Value a);
  /// A floating-point function of one operand: `unary<aten::ExpOp>(x)`.
  template <typename OpTy> Value unary(Value a) { return makeLike<OpTy>(a, a); }
  /// A comparison or logical function, which gives booleans.
  template <typename OpTy> Value compare(Value a, Value b) {
    return make<OpTy>(broadcast(a, b), builder.getI1Type(), {a, b});
  }
  template <typename OpTy> Value compare(Value a, mlir::Attribute b) {
    return make<OpTy>(shapeOf(a), builder.getI1Type(), a, named("other", b));
  }
  Value where(Value condition, Value a, Value b);
  Value maskedFill(Value self, Value mask, mlir::Attribute value);
  /// `self` where the mask holds, else 0, as `where` with a 0-d zero.
  Value keepWhere(Value mask, Value self);
  /// 0 as a 0-d tensor that may be used together with `beside` in an op that is linear in both.
  Value zeroBeside(Value beside);

  //===--------------------------------------------------------------------===//
  // Made from nothing
  //===--------------------------------------------------------------------===//

  Value zeros(llvm::ArrayRef<int64_t> shape, mlir::Type dtype);
  /// Zeros as gradient of `value`: of its shape and dtype, with the dual placement.
  Value zeroGradient(Value value);
  /// A number as a 0-d tensor.
  Value scalarTensor(double value, mlir::Type dtype);

  //===--------------------------------------------------------------------===//
  // Products and reductions
  //===--------------------------------------------------------------------===//

  Value mm(Value a, Value b);
  Value bmm(Value a, Value b);
  Value mv(Value a, Value x);
  Value sum(Value a);
  Value sum(Value a, llvm::ArrayRef<int64_t> dims, bool keepDim);
  /// `a` summed to a shape that broadcasts to its own, as `at::sum_to`.
  Value sumTo(Value a, llvm::ArrayRef<int64_t> shape);

  //===--------------------------------------------------------------------===//
  // Shape
  //===--------------------------------------------------------------------===//

  Value t(Value a);
  Value transpose(Value a, int64_t dim0, int64_t dim1);
  Value permute(Value a, llvm::ArrayRef<int64_t> dims);
  /// A view; the strides of `a` must allow it.
  Value view(Value a, llvm::ArrayRef<int64_t> shape);
  /// A view where the strides of `a` are known to allow it, else a contiguous copy.
  Value reshape(Value a, llvm::ArrayRef<int64_t> shape);
  Value expand(Value a, llvm::ArrayRef<int64_t> shape);
  Value unsqueeze(Value a, int64_t dim);
  /// Dimensions of size 1 put in at `dims`, which count in the result (`unsqueeze_multiple`).
  Value unsqueeze(Value a, llvm::ArrayRef<int64_t> dims);
  Value squeeze(Value a, int64_t dim);
  Value slice(Value a, int64_t dim, int64_t start, int64_t end);
  Value cat(llvm::ArrayRef<Value> parts, int64_t dim);
  Value stack(llvm::ArrayRef<Value> parts, int64_t dim);
  Value toType(Value a, mlir::Type dtype);

  /// Attributes that the ops made from now on carry (`train.backward`, ...), and their location.
  void setContext(mlir::Location location, llvm::ArrayRef<mlir::NamedAttribute> attributes);

  //===--------------------------------------------------------------------===//
  // Placements
  //===--------------------------------------------------------------------===//

  /// `value` as `placement` has it, where on each axis it is that already or the bits may be called
  /// so: R or I as V, S or P, V as S or P, S as V or P. An error where they may not.
  Value conform(Value value, dist::PlacementAttr placement);
  /// Whether an error was emitted; nothing that was made since is of use.
  bool hasFailed() const { return failed; }

  StrideInference strides;

protected:
  /// Where the rules of placements leave a choice (a view that takes a shard to a dimension of size
  /// 1 or to the one after it), results of this shape take this placement. Null: no preference.
  mlir::RankedTensorType preferred;

  aten::Shape broadcast(Value a, Value b);
  mlir::OpBuilder &builder;
  dist::PlacementAttr frame;
  bool failed = false;

private:
  /// A pointwise op on tensors, promoted as PyTorch promotes them.
  Value promoted(llvm::StringRef name, mlir::ValueRange operands,
                 llvm::ArrayRef<mlir::NamedAttribute> attributes = {}, bool floating = false);
  Value withScalar(llvm::StringRef name, Value a, llvm::StringRef argument, mlir::Attribute b,
                   bool floating = false);

  /// One step of `conform`: `dist.reinterpret` or `dist.convert` on one axis.
  Value recast(Value value, mlir::StringAttr axis, dist::AxisPlacement to);

  mlir::Location location = builder.getUnknownLoc();
  llvm::SmallVector<mlir::NamedAttribute, 2> common;
};

} // namespace cleave::aten

#endif // CLEAVE_LIB_ATEN_ATENBUILDER_H
