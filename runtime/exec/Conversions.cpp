//===- Conversions.cpp - ops that change types without communication ---------===//

#include "runtime/device/Device.h"
#include "runtime/exec/DistOps.h"
#include "runtime/exec/Kernels.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

using namespace mlir;
using namespace cleave::runtime;
namespace dist = cleave::dist;

namespace {
/// The operand itself, in another type.
class Alias : public Instruction {
public:
  Operand input;
  Destination result;

  void execute(Frame &frame) override { result.write(frame, input.read(frame)); }
};

/// A range of a dimension, as a view.
class Slice : public Alias {
public:
  int64_t dim;
  Part part;

  void execute(Frame &frame) override {
    result.write(frame, input.tensor(frame).narrow(dim, part.begin, part.size));
  }
};

/// The operand in its range of a dimension, zeros in the rest of it.
class Pad : public Alias {
public:
  int64_t dim, whole;
  Part part;

  void execute(Frame &frame) override {
    at::Tensor value = input.tensor(frame);
    std::vector<int64_t> shape = value.sizes().vec();
    shape[dim] = whole;
    at::Tensor padded = at::zeros(shape, value.options());
    padded.narrow(dim, part.begin, part.size).copy_(value);
    result.write(frame, std::move(padded));
  }
};

/// Zeros in place of the operand.
class Drop : public Alias {
public:
  void execute(Frame &frame) override {
    result.write(frame, at::zeros_like(input.tensor(frame), at::MemoryFormat::Contiguous));
  }
};

/// A number that is known when the op is bound.
class Index : public Instruction {
public:
  int64_t index;
  Destination result;

  const Device *device;

  void execute(Frame &frame) override {
    result.write(frame, at::full({}, index, device->options(DType::I64)));
  }
};
} // namespace

static BindResult bindOne(Binder &binder, Operation *op, std::unique_ptr<Alias> instruction) {
  instruction->input = binder.use(op->getOperand(0));
  instruction->result = binder.define(op->getResult(0));
  return instruction;
}

static BindResult bindSlice(Binder &binder, Operation *op, int64_t dim,
                            llvm::ArrayRef<std::string> axes) {
  const RankGrid &grid = *binder.services().ranks;
  int64_t whole = localSize(op->getOperand(0), dim);
  if (llvm::Error error = checkPart(grid, axes, whole, localSize(op->getResult(0), dim), dim))
    return error;
  auto instruction = std::make_unique<Slice>();
  instruction->dim = dim;
  instruction->part = grid.part(whole, axes);
  return bindOne(binder, op, std::move(instruction));
}

BindResult cleave::runtime::bindAlias(Binder &binder, ArrayRef<Operation *> ops) {
  return bindOne(binder, ops.front(), std::make_unique<Alias>());
}

BindResult cleave::runtime::bindFakeScatter(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<dist::FakeScatterOp>(ops.front());
  return bindSlice(binder, op, op.getDim(), axisNames(op.getAxes()));
}

BindResult cleave::runtime::bindConvert(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<dist::ConvertOp>(ops.front());
  const RankGrid &grid = *binder.services().ranks;
  std::string axis = op.getAxis().str();
  bool toPartial = op.getDestination().isPartial();
  if (std::optional<int64_t> dim = op.getSlicedDim()) {
    if (!toPartial)
      return bindSlice(binder, op, *dim, axis);
    int64_t whole = localSize(op.getResult(), *dim);
    if (llvm::Error error = checkPart(grid, axis, whole, localSize(op.getInput(), *dim), *dim))
      return error;
    auto instruction = std::make_unique<Pad>();
    instruction->dim = *dim;
    instruction->whole = whole;
    instruction->part = grid.part(whole, axis);
    return bindOne(binder, op, std::move(instruction));
  }
  if (toPartial && grid.coordinate(axis) != 0)
    return bindOne(binder, op, std::make_unique<Drop>());
  return bindOne(binder, op, std::make_unique<Alias>());
}

BindResult cleave::runtime::bindAxisIndex(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<dist::AxisIndexOp>(ops.front());
  auto instruction = std::make_unique<Index>();
  instruction->device = binder.services().device;
  instruction->index = binder.services().ranks->index(axisNames(op.getAxes()));
  instruction->result = binder.define(op.getResult());
  return instruction;
}
