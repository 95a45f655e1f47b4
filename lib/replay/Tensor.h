//===- Tensor.h - values of programs, and what ops make of them -----*- C++ -*-===//
//
// The digits of each dimension, major first, and the element at them. In a program of ranks the
// element also depends on the digits of the rank's place on each axis of the mesh.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_REPLAY_TENSOR_H
#define CLEAVE_LIB_REPLAY_TENSOR_H

#include "dialects/dist/Dist.h"
#include "dialects/sharding/ShardingRule.h"
#include "lib/replay/Form.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"

namespace cleave::replay {

struct Tensor {
  SmallVector<SmallVector<Var, 2>, 4> dims;
  Form form;
};

/// A digit of a dimension: worth `stride` elements.
struct Digit {
  Var var;
  int64_t size, stride;
};

struct Axis {
  std::string name;
  int64_t size;
  SmallVector<Var, 1> digits;
};

inline mlir::RankedTensorType tensorOf(mlir::Type type) {
  return mlir::dyn_cast<mlir::RankedTensorType>(dist::valueTypeOf(type));
}
inline mlir::Type elementOf(mlir::Value value) {
  return tensorOf(value.getType()).getElementType();
}
/// Whether these operands, or all, have the element type of the first result.
bool isInOneType(mlir::Operation *op, std::optional<ArrayRef<unsigned>> operands = std::nullopt);
int64_t integerOr(mlir::Operation *op, StringRef name, int64_t fallback);
/// The dimension that an attribute names.
int64_t dimOf(mlir::Operation *op, int64_t rank, StringRef name = "dim");

class Ops {
public:
  Ops(Forms &forms, const SmallVector<Axis> &axes, llvm::StringSet<> &lookUps)
      : forms(forms), axes(axes), lookUps(lookUps) {}

  /// Of the program of one device, which comes first, or of ranks.
  void beginProgram(bool isLocal) { isGlobal = !isLocal; }
  /// What the op's results are by this step of the log; false if it is no instance of it.
  bool evaluate(mlir::Operation *op, StringRef step, ArrayRef<Tensor> operands,
                std::vector<Tensor> &results);
  bool areEqual(Tensor left, Tensor right);
  std::optional<Tensor> add(Tensor left, Tensor right);
  std::optional<Tensor> multiplyMatrices(Tensor left, Tensor right, mlir::Type element);
  /// Of a bucket's member, summed over axes and divided over others.
  std::optional<Tensor> reduceMember(Tensor value, mlir::ArrayAttr summed,
                                     mlir::ArrayAttr scattered, unsigned dim);
  /// The part that a rank has of a dimension which these axes shard, major first.
  std::optional<Tensor> shard(Tensor value, unsigned dim, ArrayRef<Axis> along);
  const Axis *findAxis(StringRef name) const;
  std::optional<SmallVector<Axis>> findAxes(mlir::ArrayAttr names) const;
  SmallVector<Var> digitsOf(ArrayRef<Axis> along) const;
  Index placeIn(ArrayRef<Var> digits) const;
  SmallVector<SmallVector<Var, 2>, 4> makeDims(ArrayRef<int64_t> shape);

private:
  Forms &forms;
  const SmallVector<Axis> &axes;
  llvm::StringSet<> &lookUps;
  bool isGlobal = true;

  struct Extent {
    SmallVector<SmallVector<Var, 2>> read;
    SmallVector<Index> results;
    SmallVector<int64_t> resultSizes;
  };
  using Build = llvm::function_ref<std::optional<Form>(ArrayRef<Form>, const Extent &)>;
  SmallVector<Digit> digitsOf(ArrayRef<Var> vars) const;
  using MakeForm = llvm::function_ref<std::optional<Form>(ArrayRef<Form>)>;
  std::optional<Form> byCase(ArrayRef<Form> given, MakeForm build);
  bool cut(Tensor &value, unsigned dim, ArrayRef<int64_t> strides);
  bool cutAlike(Tensor &left, unsigned leftDim, Tensor &right, unsigned rightDim, Digits &digits);
  /// Takes both to the same digits, but for one dimension.
  bool alignTo(Tensor &left, Tensor &right, std::optional<unsigned> but = std::nullopt);
  std::optional<Tensor> byRule(mlir::Operation *op, const sharding::ShardingRule &rule,
                               ArrayRef<Tensor> operands, unsigned result, Build build);
  std::optional<Tensor> withBias(mlir::Operation *op, sharding::ShardingRule rule,
                                 ArrayRef<Tensor> operands, std::optional<Tensor> value,
                                 unsigned bias, const Rational &factor);
  std::optional<Tensor> arithmetic(mlir::Operation *op, ArrayRef<Tensor> operands);
  std::optional<Tensor> constant(mlir::Operation *op);
  std::optional<Tensor> order(mlir::Operation *op, ArrayRef<Tensor> operands);
  std::optional<Tensor> concatenate(mlir::Operation *op, ArrayRef<Tensor> operands);
  std::optional<Tensor> selectByPlace(mlir::Operation *op, ArrayRef<Tensor> operands);
  std::optional<Form> square(const Form &form, mlir::Type element);
  std::optional<Tensor> norm(mlir::Operation *op, ArrayRef<Tensor> operands);
  std::optional<Tensor> slice(Tensor value, unsigned dim, int64_t start, int64_t step,
                              int64_t length);
  std::optional<Tensor> reshape(const Tensor &value, ArrayRef<int64_t> shape);
  bool parts(mlir::Operation *op, ArrayRef<Tensor> operands, std::vector<Tensor> &results);
  bool rule(mlir::Operation *op, ArrayRef<Tensor> operands, std::vector<Tensor> &results);
  bool communicate(mlir::Operation *op, ArrayRef<Tensor> operands, std::vector<Tensor> &results);
  std::optional<Tensor> reduce(Tensor value, dist::ReductionAttr reduction, ArrayRef<Axis> along);
  Tensor gather(Tensor value, unsigned dim, ArrayRef<Axis> along);
  std::optional<Tensor> convert(dist::ConvertOp op, Tensor value);
  std::optional<Form> maximum(Form form, ArrayRef<Var> over);
  /// What a mark fills indices with.
  struct Filled {
    int64_t number;
    Form mark;
  };
  std::optional<Form> names(const Form &indices, const Index &place, int64_t rows,
                            std::optional<Filled> &filled);
  std::optional<Form> isZero(const Form &difference);
  std::optional<Form> whereUnmarked(const Form &difference, const Form &mark, const Form &value);
  void limit(const Form &value, const Form &mark, Guard &isUnmarked);
  std::optional<Form> zeroWhereMarked(const Form &value, const Form &mark);
  SmallVector<Var> splitDims(mlir::Operation *op, const Tensor &value, Tensor &result) const;
  std::optional<Form> whereNamed(const Form &named, const Form &value, mlir::Type element);
  bool lookUp(mlir::Operation *op, ArrayRef<Tensor> operands, std::vector<Tensor> &results);
};

/// Whether parts of the factor alone say nothing of the op's value: its elements are read together.
bool isRead(const sharding::Factor &factor);
/// The name of a function of numbers in this type, as terms have it.
Function functionOf(StringRef name, mlir::Type element);
Function productOf(mlir::Type element);
/// Of a norm: whether it is of order 2.
bool isEuclidean(mlir::Operation *op);
/// Notes what marks of integers mean, and what is filled where they hold.
void noteMarks(mlir::Operation *op, Function &function);

} // namespace cleave::replay

#endif // CLEAVE_LIB_REPLAY_TENSOR_H
