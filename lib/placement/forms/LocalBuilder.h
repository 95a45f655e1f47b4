//===- LocalBuilder.h - what forms write local ops with -------------*- C++ -*-===//
//
// Typed aten ops come from AtenBuilder, which infers shapes and placements (none in a function that
// has none). Here is what forms need
// beyond it: collectives along axes of the form, the rank's index, other names for the same bits,
// and the strategies that a form offers.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_FORMS_LOCALBUILDER_H
#define CLEAVE_LIB_PLACEMENT_FORMS_LOCALBUILDER_H

#include "lib/aten/AtenBuilder.h"
#include "lib/placement/Form.h"

namespace cleave::placement {

using aten::dtypeOf;
using aten::rankOf;
using aten::Shape;
using aten::shapeOf;
using mlir::Value;
/// A form's results by number; null for one of type `none`.
using LocalValues = mlir::FailureOr<llvm::SmallVector<Value>>;

/// Mesh axes along which values are sharded or collectives run, major first.
struct Axes {
  llvm::SmallVector<mlir::StringAttr, 2> names;
  /// How many ranks lie along them together.
  int64_t ranks = 1;

  bool empty() const { return names.empty(); }
  Axes operator+(const Axes &other) const;
};

class LocalBuilder : public aten::AtenBuilder {
public:
  /// New ops are inserted before `op`, have its location and its attributes of the training step.
  LocalBuilder(mlir::Operation *op, mlir::ValueRange operands, FormBuilder &form);

  /// The form's axes that shard dimension `dim` of the local value.
  Axes axesOf(Value value, int64_t dim) const;
  /// The major ones of the axes, and the minor ones that have `ranks` ranks together.
  std::pair<Axes, Axes> splitAxes(const Axes &axes, int64_t ranks) const;
  /// The form's axes on which `strategies` make result `result` S(dim).
  Axes axesOf(llvm::ArrayRef<AxisStrategy> strategies, unsigned result, int64_t dim) const;

  //===--------------------------------------------------------------------===//
  // Communication; along no axes the value stays unchanged
  //===--------------------------------------------------------------------===//

  /// P(reduction) to R.
  Value allReduce(Value value, const Axes &axes, dist::Reduction reduction = dist::Reduction::Sum);
  /// `value`, through which no gradient flows where gradients are yet to be made.
  Value withoutGradient(Value value);
  /// The largest of all ranks' values, P(max) to R, by which both sides of a quotient are divided:
  /// results do not depend on it, so it takes no gradient.
  Value largestOfAll(Value largest, const Axes &axes);
  /// S(dim) or V to R.
  Value allGather(Value value, int64_t dim, const Axes &axes);
  /// V to V: part i of dimension 0, of equal parts, to rank i.
  Value allToAll(Value value, const Axes &axes);
  /// V to V: `sends` rows to each rank, `receives` from each (`dist.ragged_all_to_all`), in a
  /// buffer of `rows`.
  Value exchangeRows(Value value, Value sends, Value receives, int64_t rows, const Axes &axes);
  /// V to the rank `by` places further, in a ring: started, and waited for.
  Value startShift(Value value, int64_t by, const Axes &axes);
  Value wait(Value future);

  //===--------------------------------------------------------------------===//
  // Where the rank is
  //===--------------------------------------------------------------------===//

  /// The rank's number along the axes, a 0-d i64 that varies.
  Value rankAlong(const Axes &axes);
  /// The number of the rank `by` places before this one in the ring, 0 to ranks - 1.
  Value rankBefore(int64_t by, const Axes &axes);
  /// Those of all ranks from this one back: a tensor of as many elements.
  Value ranksBefore(const Axes &axes);
  /// 0, 1, ..., size - 1 as i64.
  Value arange(int64_t size);
  /// `indices` into a dimension that is sharded over `axes`, as places in this rank's part of
  /// `size` elements. With `outside`: where they name no place in it.
  Value localIndices(Value indices, int64_t size, const Axes &axes);
  Value outside(Value localIndices, int64_t size);

  //===--------------------------------------------------------------------===//
  // Other names for the bits
  //===--------------------------------------------------------------------===//

  /// The same bits with this placement along the axes (see `conform`); the orders of a shard follow
  /// those of axes that shard the dimension already.
  Value as(Value value, dist::AxisPlacement placement, const Axes &axes);
  Value asVarying(Value value, const Axes &axes) {
    return as(value, dist::AxisPlacement::varying(), axes);
  }
  Value asPartial(Value value, const Axes &axes) {
    return as(value, dist::AxisPlacement::partial(), axes);
  }
  Value asShard(Value value, int64_t dim, const Axes &axes) {
    return as(value, dist::AxisPlacement::shard(dim), axes);
  }
  /// The same bits, placed as `like`.
  Value asLike(Value value, Value like) { return conform(value, *getPlacement(like)); }

  //===--------------------------------------------------------------------===//
  // Ops
  //===--------------------------------------------------------------------===//

  /// The value in another shape; where the rules of placements leave a choice (a shard of a
  /// dimension of size 1), as `wanted` has it.
  Value viewAs(Value value, llvm::ArrayRef<int64_t> shape, dist::PlacementAttr wanted);
  Value amax(Value value, int64_t dim);
  Value indexSelect(Value value, int64_t dim, Value index);
  /// In f32 if the dtype is a half-precision one: what kernels accumulate in.
  Value widened(Value value);
  Value minusInfinityWhere(Value mask, Value value);

  /// The form's results, or failure where an op could not be typed.
  LocalValues finish(llvm::ArrayRef<Value> results);

private:
  /// Numbers from -ranks on, brought back into the ring.
  Value wrapped(Value numbers, const Axes &axes);
  static std::optional<dist::PlacementAttr> getPlacement(Value value);
  mlir::NamedAttribute meshAttribute();
  mlir::NamedAttribute axesAttribute(const Axes &axes);
  mlir::RankedTensorType typeWith(Value value, llvm::ArrayRef<int64_t> shape, const Axes &axes,
                                  dist::AxisPlacement placement) const;

  FormBuilder &form;
};

//===----------------------------------------------------------------------===//
// Strategies
//===----------------------------------------------------------------------===//

/// The strategy of a form whose operands and results are all replicated, to be changed.
AxisStrategy replicatedStrategy(mlir::Operation *op, const Form *form);
/// The operand number of the tensor argument of this name; none if it is absent.
std::optional<unsigned> operandNumber(mlir::Operation *op, llvm::StringRef name);
/// Whether every rank along the axis gets as much of `size` elements.
bool dividesEvenly(int64_t size, MeshAxis axis);
/// What one rank sends: in an all_reduce of `bytes`, in an all_gather that gives `bytes`.
int64_t allReduceBytes(int64_t bytes, MeshAxis axis);
int64_t allGatherBytes(int64_t bytes, MeshAxis axis);
/// The bytes of a value of this type.
int64_t bytesOf(Value value);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_FORMS_LOCALBUILDER_H
