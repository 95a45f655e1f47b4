//===- DistBuilder.h - makes dist ops, with their result types -----*- C++ -*-===//
//
// What derivative rules of collectives are written in: communication along the axes of one op, and
// conversions. Values of functions without placements are lists, as plain `V` ones.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_AUTODIFF_DISTBUILDER_H
#define CLEAVE_LIB_AUTODIFF_DISTBUILDER_H

#include "dialects/dist/Dist.h"
#include "lib/autodiff/Backward.h"

namespace cleave::autodiff {

/// Makes communication ops along given axes of a mesh.
class DistBuilder {
public:
  DistBuilder(Backward &b, mlir::FlatSymbolRefAttr mesh, mlir::ArrayAttr axes)
      : b(b), mesh(mesh), axes(axes) {}
  template <typename OpTy>
  DistBuilder(Backward &b, OpTy op) : DistBuilder(b, op.getMeshAttr(), op.getAxesAttr()) {}

  /// The kind of placement along the axes: V where the type has none, or only axes of size 1.
  dist::PlacementKind kindOf(mlir::Type type) const;
  /// The plain type of this shape and dtype with the placement of `like`, but for this one along
  /// the axes.
  mlir::RankedTensorType typeWith(Value like, llvm::ArrayRef<int64_t> shape, mlir::Type dtype,
                                  dist::AxisPlacement along) const;
  /// `value`'s own type with another placement along the axes.
  mlir::RankedTensorType typeWith(Value value, dist::AxisPlacement along) const {
    return typeWith(value, shapeOf(value), dtypeOf(value), along);
  }
  /// How many ranks lie along the axes together; nothing if that is known only when the program
  /// starts.
  std::optional<int64_t> ranks(mlir::Operation *at) const;

  // Each gives a value of type `type` (or of these types).
  llvm::SmallVector<Value> allReduce(dist::Reduction reduction, mlir::ValueRange values,
                                     mlir::TypeRange types);
  Value allReduce(dist::Reduction reduction, Value value, mlir::Type type) {
    return allReduce(reduction, mlir::ValueRange(value), mlir::TypeRange(type)).front();
  }
  Value allGather(Value value, int64_t dim, mlir::Type type);
  Value reduceScatter(Value value, int64_t dim, mlir::Type type);
  Value broadcast(Value value, int64_t root, mlir::Type type);
  Value reduce(Value value, int64_t root, mlir::Type type);
  /// The op of this name, with these attributes besides mesh and axes.
  Value make(llvm::StringRef name, mlir::ValueRange operands, mlir::Type type,
             llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  /// The rank's index along the axes; other axes' placements as in `like`, but the same on all
  /// ranks.
  Value index(Value like);

private:
  mlir::NamedAttribute reductionOf(dist::Reduction kind);

  Backward &b;
  mlir::FlatSymbolRefAttr mesh;
  mlir::ArrayAttr axes;
};

/// The value of a result that may be a future: then what some `dist.wait` gives.
Value valueOf(mlir::OpResult result);

} // namespace cleave::autodiff

#endif // CLEAVE_LIB_AUTODIFF_DISTBUILDER_H
