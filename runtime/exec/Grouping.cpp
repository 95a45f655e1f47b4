//===- Grouping.cpp - products by group, and counts of static length --------===//

#include "runtime/exec/Grouping.h"
#include "dialects/aten/ops/Grouping.h"
#include "runtime/device/Device.h"

#include <ATen/ops/bincount.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mm.h>

using namespace mlir;
using namespace cleave::runtime;
namespace aten = cleave::aten;

//===----------------------------------------------------------------------===//
// Products by group
//===----------------------------------------------------------------------===//

/// As PyTorch allocates it: each row begins at a multiple of 16 bytes.
static at::Tensor allocateProduct(llvm::ArrayRef<int64_t> shape, at::ScalarType type) {
  int64_t aligned = 16 / int64_t(c10::elementSize(type));
  llvm::SmallVector<int64_t, 3> strides(shape.size(), 1);
  int64_t stride = (shape.back() + aligned - 1) / aligned * aligned;
  for (size_t dim = shape.size() - 1; dim-- > 0; stride *= shape[dim])
    strides[dim] = stride;
  return at::empty_strided(shape, strides, at::TensorOptions(type));
}

at::Tensor cleave::runtime::multiplyGroups(const at::Tensor &left, const at::Tensor &right,
                                           const at::Tensor &ends, at::ScalarType type) {
  bool isLeft2d = left.dim() == 2, isRight2d = right.dim() == 2;
  llvm::SmallVector<int64_t, 3> shape = {left.size(-2), right.size(-1)};
  if (isLeft2d == isRight2d)
    shape.insert(shape.begin(), isLeft2d ? ends.size(0) : left.size(0));
  at::Tensor out = allocateProduct(shape, type);
  if (!isLeft2d && !isRight2d)
    return at::bmm_out(out, left, right);

  int64_t divided = !isRight2d ? left.size(0) : isLeft2d ? left.size(1) : right.size(1);
  at::Tensor places = ends.contiguous();
  int64_t begin = 0;
  for (int64_t group = 0; group < places.size(0); ++group) {
    int64_t end = places.data_ptr<int32_t>()[group];
    TORCH_CHECK(begin <= end && end <= divided, "expected ends of groups in ascending order up to ",
                divided, ", found ", end, " for group ", group, " after ", begin);
    if (!isRight2d) {
      at::Tensor rows = out.slice(0, begin, end);
      at::mm_out(rows, left.slice(0, begin, end), right.select(0, group));
    } else if (isLeft2d) {
      at::Tensor product = out.select(0, group);
      at::mm_out(product, left.slice(1, begin, end), right.slice(0, begin, end));
    } else {
      at::Tensor columns = out.slice(1, begin, end);
      at::mm_out(columns, left.select(0, group), right.slice(1, begin, end));
    }
    begin = end;
  }
  if (!isRight2d)
    out.slice(0, begin).zero_();
  else if (!isLeft2d)
    out.slice(1, begin).zero_();
  return out;
}

namespace {
class GroupedProduct : public Instruction {
public:
  Operand left, right;
  std::optional<Operand> ends;
  at::ScalarType type{};
  Destination result;

  void execute(Frame &frame) override {
    at::Tensor a = left.tensor(frame), b = right.tensor(frame);
    at::Tensor places = ends ? ends->tensor(frame) : at::Tensor();
    result.write(frame, multiplyGroups(a, b, places, type));
  }
};

//===----------------------------------------------------------------------===//
// Counts
//===----------------------------------------------------------------------===//

class Count : public Instruction {
public:
  Operand numbers;
  std::optional<Operand> weights;
  int64_t length = 0;
  Destination result;

  void execute(Frame &frame) override {
    at::Tensor counted = numbers.tensor(frame);
    std::optional<at::Tensor> weight;
    if (weights)
      weight = weights->tensor(frame);
    at::Tensor counts = at::bincount(counted, weight, length);
    TORCH_CHECK(counts.size(0) == length, "expected numbers below ", length,
                ", the static length of the result, found ", counts.size(0) - 1);
    result.write(frame, std::move(counts));
  }
};
} // namespace

static std::optional<Operand> useIfPresent(Binder &binder, Value value) {
  return value ? std::optional(binder.use(value)) : std::nullopt;
}

BindResult cleave::runtime::bindGrouping(Binder &binder, Operation *op) {
  if (auto product = dyn_cast<aten::GroupedMmOp>(op);
      product && binder.services().device->isHost()) {
    auto instruction = std::make_unique<GroupedProduct>();
    instruction->left = binder.use(product.getSelf());
    instruction->right = binder.use(product.getMat2());
    instruction->ends = useIfPresent(binder, product.getOffs());
    Type type = cast<RankedTensorType>(product.getResult().getType()).getElementType();
    instruction->type = toScalarType(toDType(type));
    instruction->result = binder.define(product.getResult());
    return instruction;
  }
  if (auto count = dyn_cast<aten::BincountOp>(op)) {
    auto instruction = std::make_unique<Count>();
    instruction->numbers = binder.use(count.getSelf());
    instruction->weights = useIfPresent(binder, count.getWeights());
    instruction->length = count.getMinlength().value_or(0);
    instruction->result = binder.define(count.getResult());
    return instruction;
  }
  return std::unique_ptr<Instruction>();
}
