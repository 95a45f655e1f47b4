//===- Norm.cpp - norms of elements ------------------------------------------===//
//
// The root of the sum of squares: so norms of parts, of which the squares are summed, are that of
// the whole.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/replay/Tensor.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;

/// Of values of which at most one at a time is not zero, as conditions say, the square of each.
std::optional<Form> Ops::square(const Form &form, Type element) {
  bool isPiecewise = !form.empty();
  for (size_t i = 0; i < form.size(); ++i) {
    isPiecewise &= form[i].guards.size() == 1 && form[i].bound.empty();
    for (size_t j = 0; isPiecewise && j < i; ++j) {
      const Guard &a = form[i].guards[0], &b = form[j].guards[0];
      isPiecewise &= a.index == b.index && (a.high <= b.low || b.high <= a.low);
    }
  }
  if (!isPiecewise)
    return forms.apply(productOf(element), {form, form});
  Form squares;
  for (const Summand &summand : form) {
    Summand value = summand;
    value.guards.clear();
    auto square = forms.apply(productOf(element), {Form{value}, Form{value}});
    if (!square)
      return std::nullopt;
    llvm::append_range(squares, where(*square, summand.guards));
  }
  return forms.normal(squares);
}

bool cleave::replay::isEuclidean(Operation *op) {
  if (auto order = op->getAttrOfType<FloatAttr>("ord"))
    return order.getValueAsDouble() == 2.0;
  auto order = op->getAttrOfType<IntegerAttr>("ord");
  return order ? order.getInt() == 2 : !op->hasAttr("ord");
}

SmallVector<Var> Ops::splitDims(Operation *op, const Tensor &value, Tensor &result) const {
  auto given = op->getAttrOfType<DenseI64ArrayAttr>("dim");
  auto keeps = op->getAttrOfType<BoolAttr>("keepdim");
  int64_t rank = value.dims.size();
  // Without dimensions over all of them.
  SmallVector<bool> isOver(rank, !given || given.empty());
  for (int64_t dim : given ? given.asArrayRef() : ArrayRef<int64_t>())
    isOver[dim < 0 ? dim + rank : dim] = true;
  SmallVector<Var> over;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (isOver[dim])
      llvm::append_range(over, value.dims[dim]);
    if (!isOver[dim])
      result.dims.push_back(value.dims[dim]);
    else if (keeps && keeps.getValue())
      result.dims.emplace_back();
  }
  return over;
}

std::optional<Tensor> Ops::norm(Operation *op, ArrayRef<Tensor> operands) {
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  Type element = type.getElementType();
  if (!(element.isF32() || element.isF64()) || !isInOneType(op))
    return std::nullopt;
  if (auto stack = dyn_cast<aten::StackOp>(op)) {
    // Of numbers: each where its place is.
    if (type.getRank() != 1)
      return std::nullopt;
    Tensor value{makeDims(type.getShape()), {}};
    Index place = placeIn(value.dims[0]);
    for (auto [i, operand] : llvm::enumerate(operands))
      llvm::append_range(value.form, where(operand.form, Guard{place, int64_t(i), int64_t(i) + 1}));
    value.form = forms.normal(value.form);
    return value;
  }
  if (!isa<aten::LinalgVectorNormOp>(op) || !isEuclidean(op))
    return std::nullopt;
  std::optional<Form> squares = square(operands[0].form, element);
  if (!squares)
    return std::nullopt;
  Tensor value;
  SmallVector<Var> over = splitDims(op, operands[0], value);
  Function root = functionOf("root", element);
  root.isRoot = true;
  std::optional<Form> made = forms.apply(root, {forms.sum(std::move(*squares), over)});
  if (!made)
    return std::nullopt;
  value.form = std::move(*made);
  return value;
}
