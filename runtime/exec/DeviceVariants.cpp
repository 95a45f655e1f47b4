//===- DeviceVariants.cpp - operators that a device has under other names ---------===//

#include "runtime/exec/DeviceVariants.h"
#include "dialects/aten/ops/Attention.h"
#include "dialects/aten/ops/Normalization.h"
#include "runtime/aten/Operator.h"
#include "runtime/device/Device.h"

#include "llvm/ADT/TypeSwitch.h"

#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

using namespace mlir;
using namespace cleave::runtime;
namespace aten = cleave::aten;

namespace {
at::Tensor read(const std::optional<Operand> &operand, Frame &frame) {
  return operand ? operand->tensor(frame) : at::Tensor();
}

/// Results in the types that the program says.
class Variant : public Instruction {
public:
  std::vector<Destination> results;
  std::vector<at::ScalarType> types;

protected:
  void write(Frame &frame, llvm::ArrayRef<at::Tensor> values) const {
    for (size_t i = 0; i < results.size(); ++i)
      if (values[i].defined())
        results[i].write(frame, values[i].to(types[i]));
  }
};

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

class AttentionVariant : public Variant {
public:
  std::optional<Operand> query, key, value, mask;
  bool isCausal = false;
  std::optional<double> scale;
  int capability = 0;

protected:
  Attention operands(Frame &frame) const {
    return {read(query, frame), read(key, frame), read(value, frame),
            read(mask, frame),  isCausal,         scale};
  }
  /// Sizes and types are the program's, so what is chosen once holds for all steps.
  AttentionKernel choose(const Attention &attention) {
    if (!kernel)
      kernel = chooseAttention(attention, capability);
    return *kernel;
  }

private:
  std::optional<AttentionKernel> kernel;
};

class AttentionForward : public AttentionVariant {
public:
  void execute(Frame &frame) override {
    Attention attention = operands(frame);
    auto [output, logarithms] = attend(attention, choose(attention));
    write(frame, {output, logarithms});
  }
};

class AttentionBackward : public AttentionVariant {
public:
  std::optional<Operand> gradient, output, logarithms;

  void execute(Frame &frame) override {
    at::Tensor ofOutput = read(gradient, frame);
    Attention attention = operands(frame);
    at::Tensor attended = read(output, frame);
    std::array<at::Tensor, 3> gradients =
        attendBackward(attention, choose(attention), ofOutput, attended, read(logarithms, frame));
    write(frame, gradients);
  }
};

//===----------------------------------------------------------------------===//
// Layer norm
//===----------------------------------------------------------------------===//

std::optional<at::Tensor> wide(const at::Tensor &tensor) {
  return tensor.defined() ? std::optional(tensor.to(at::kFloat)) : std::nullopt;
}

class LayerNorm : public Variant {
public:
  std::optional<Operand> input, weight, bias;
  std::vector<int64_t> shape;
  double eps = 1e-5;

  void execute(Frame &frame) override {
    at::Tensor x = read(input, frame).to(at::kFloat);
    std::optional<at::Tensor> w = wide(read(weight, frame));
    std::optional<at::Tensor> b = wide(read(bias, frame));
    auto [y, mean, deviation] = at::native_layer_norm(x, shape, w, b, eps);
    write(frame, {y, mean, deviation});
  }
};

class LayerNormBackward : public Variant {
public:
  std::optional<Operand> gradient, input, mean, deviation, weight, bias;
  std::vector<int64_t> shape;
  std::array<bool, 3> mask{};

  void execute(Frame &frame) override {
    at::Tensor ofOutput = read(gradient, frame).to(at::kFloat);
    at::Tensor x = read(input, frame).to(at::kFloat);
    at::Tensor m = read(mean, frame).to(at::kFloat), d = read(deviation, frame).to(at::kFloat);
    std::optional<at::Tensor> w = wide(read(weight, frame));
    std::optional<at::Tensor> b = wide(read(bias, frame));
    auto [ofInput, ofWeight, ofBias] =
        at::native_layer_norm_backward(ofOutput, x, shape, m, d, w, b, mask);
    write(frame, {ofInput, ofWeight, ofBias});
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Binding: operands in the order in which `execute` reads them
//===----------------------------------------------------------------------===//

/// An optional operand.
static std::optional<Operand> useIfPresent(Binder &binder, Value value) {
  return value ? std::optional(binder.use(value)) : std::nullopt;
}

/// What the two directions share; `isCausal` is optional in one of them.
template <typename AttentionOp>
static void bindAttention(Binder &binder, AttentionOp op, AttentionVariant &instruction) {
  instruction.query = binder.use(op.getQuery());
  instruction.key = binder.use(op.getKey());
  instruction.value = binder.use(op.getValue());
  instruction.mask = useIfPresent(binder, op.getAttnMask());
  instruction.isCausal = op.getIsCausalAttr() && op.getIsCausalAttr().getValue();
  if (std::optional<APFloat> scale = op.getScale())
    instruction.scale = scale->convertToDouble();
  instruction.capability = binder.services().device->facts().capabilityMajor;
}

static std::unique_ptr<Variant> bindVariant(Binder &binder, aten::FlashAttentionForCpuOp op) {
  auto instruction = std::make_unique<AttentionForward>();
  bindAttention(binder, op, *instruction);
  return instruction;
}

static std::unique_ptr<Variant> bindVariant(Binder &binder,
                                            aten::FlashAttentionForCpuBackwardOp op) {
  auto instruction = std::make_unique<AttentionBackward>();
  instruction->gradient = binder.use(op.getGradOut());
  bindAttention(binder, op, *instruction);
  instruction->output = binder.use(op.getOut());
  instruction->logarithms = binder.use(op.getLogsumexp());
  return instruction;
}

static std::unique_ptr<Variant> bindVariant(Binder &binder, aten::NativeLayerNormOp op) {
  auto instruction = std::make_unique<LayerNorm>();
  instruction->input = binder.use(op.getInput());
  instruction->weight = useIfPresent(binder, op.getWeight());
  instruction->bias = useIfPresent(binder, op.getBias());
  instruction->shape = op.getNormalizedShape().vec();
  instruction->eps = op.getEps().convertToDouble();
  return instruction;
}

static std::unique_ptr<Variant> bindVariant(Binder &binder, aten::NativeLayerNormBackwardOp op) {
  auto instruction = std::make_unique<LayerNormBackward>();
  instruction->gradient = binder.use(op.getGradOut());
  instruction->input = binder.use(op.getInput());
  instruction->mean = binder.use(op.getMean());
  instruction->deviation = binder.use(op.getRstd());
  instruction->weight = useIfPresent(binder, op.getWeight());
  instruction->bias = useIfPresent(binder, op.getBias());
  instruction->shape = op.getNormalizedShape().vec();
  llvm::copy(op.getOutputMask().take_front(3), instruction->mask.begin());
  return instruction;
}

/// Whether the device's kernels refuse the types, or give statistics of another one.
template <typename NormOp> static bool isNarrowOrMixed(NormOp op) {
  auto elementOf = [](Value value) {
    return value ? cast<RankedTensorType>(value.getType()).getElementType() : Type();
  };
  Type input = elementOf(op.getInput());
  for (Value parameter : {Value(op.getWeight()), Value(op.getBias())})
    if (Type type = elementOf(parameter); type && type != input)
      return true;
  return input.isF16() || input.isBF16();
}

/// Whether the device has no kernel for the operator.
static bool isMissing(aten::AtenOpInterface op, const Device &device) {
  llvm::Expected<c10::OperatorHandle> handle =
      findOperator(op.getSchemaName(), device.dispatchKey());
  if (handle)
    return false;
  llvm::consumeError(handle.takeError());
  return true;
}

BindResult cleave::runtime::bindDeviceVariant(Binder &binder, Operation *op) {
  const Device &device = *binder.services().device;
  auto bindAttentionOp = [&](auto attention) -> std::unique_ptr<Variant> {
    return isMissing(attention, device) ? bindVariant(binder, attention) : nullptr;
  };
  auto bindNormOp = [&](auto norm) -> std::unique_ptr<Variant> {
    bool isProcessor = device.torchDevice().is_cpu();
    return !isProcessor && isNarrowOrMixed(norm) ? bindVariant(binder, norm) : nullptr;
  };
  std::unique_ptr<Variant> instruction =
      llvm::TypeSwitch<Operation *, std::unique_ptr<Variant>>(op)
          .Case<aten::FlashAttentionForCpuOp, aten::FlashAttentionForCpuBackwardOp>(bindAttentionOp)
          .Case<aten::NativeLayerNormOp, aten::NativeLayerNormBackwardOp>(bindNormOp)
          .Default([](Operation *) { return nullptr; });
  if (!instruction)
    return std::unique_ptr<Instruction>();
  for (Value result : op->getResults()) {
    instruction->results.push_back(binder.define(result));
    auto type = dyn_cast<RankedTensorType>(result.getType());
    instruction->types.push_back(type ? toScalarType(toDType(type.getElementType()))
                                      : at::ScalarType::Undefined);
  }
  return instruction;
}
