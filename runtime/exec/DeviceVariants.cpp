//===- DeviceVariants.cpp - operators that a device has under other names ---------===//

#include "runtime/exec/DeviceVariants.h"
#include "dialects/aten/Aten.h"
#include "runtime/aten/Operator.h"
#include "runtime/device/Device.h"

#include "llvm/ADT/StringMap.h"

#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

using namespace mlir;
using namespace cleave::runtime;
namespace aten = cleave::aten;

//===----------------------------------------------------------------------===//
// Arguments by name
//===----------------------------------------------------------------------===//

namespace {
/// The arguments of a call while it is bound, as its schema names them.
class Call {
public:
  Call(Binder &binder, Operation *op) : binder(binder), op(op) {
    for (aten::Argument &argument : cast<aten::AtenOpInterface>(op).getArguments())
      arguments.try_emplace(argument.name, argument);
  }

  /// A tensor; nothing where it is left out. Each is asked for once.
  std::optional<Operand> tensor(llvm::StringRef name) {
    auto found = arguments.find(name);
    if (found == arguments.end() || found->second.values.empty())
      return std::nullopt;
    return binder.use(found->second.values.front());
  }
  Value value(llvm::StringRef name) const {
    auto found = arguments.find(name);
    return found == arguments.end() || found->second.values.empty() ? Value()
                                                                    : found->second.values.front();
  }
  template <typename T> T attribute(llvm::StringRef name) const {
    auto found = arguments.find(name);
    return found == arguments.end() ? T() : dyn_cast_or_null<T>(found->second.attribute);
  }
  bool flag(llvm::StringRef name) const {
    auto attr = attribute<BoolAttr>(name);
    return attr && attr.getValue();
  }
  std::optional<double> number(llvm::StringRef name) const {
    if (auto attr = attribute<FloatAttr>(name))
      return attr.getValueAsDouble();
    if (auto attr = attribute<IntegerAttr>(name))
      return double(attr.getInt());
    return std::nullopt;
  }

  void defineResults(std::vector<Destination> &results, std::vector<at::ScalarType> &types) {
    for (Value result : op->getResults()) {
      results.push_back(binder.define(result));
      auto type = dyn_cast<RankedTensorType>(result.getType());
      types.push_back(type ? toScalarType(toDType(type.getElementType()))
                           : at::ScalarType::Undefined);
    }
  }

private:
  Binder &binder;
  Operation *op;
  llvm::StringMap<aten::Argument> arguments;
};

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
};

class AttentionForward : public AttentionVariant {
public:
  void execute(Frame &frame) override {
    Attention attention = operands(frame);
    auto [output, logarithms] = attend(attention, chooseAttention(attention, capability));
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
        attendBackward(attention, chooseAttention(attention, capability), ofOutput, attended,
                       read(logarithms, frame));
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

static void bindAttention(Call &call, const Device &device, AttentionVariant &instruction) {
  instruction.query = call.tensor("query");
  instruction.key = call.tensor("key");
  instruction.value = call.tensor("value");
  instruction.mask = call.tensor("attn_mask");
  instruction.isCausal = call.flag("is_causal");
  instruction.scale = call.number("scale");
  instruction.capability = device.facts().capabilityMajor;
}

/// Whether the device's kernels refuse the types, or give statistics of another one.
static bool isNarrowOrMixed(const Call &call) {
  auto elementOf = [&](llvm::StringRef name) {
    Value value = call.value(name);
    return value ? cast<RankedTensorType>(value.getType()).getElementType() : Type();
  };
  Type input = elementOf("input");
  for (llvm::StringRef name : {"weight", "bias"})
    if (Type type = elementOf(name); type && type != input)
      return true;
  return input.isF16() || input.isBF16();
}

static std::vector<int64_t> shapeOf(const Call &call) {
  auto shape = call.attribute<DenseI64ArrayAttr>("normalized_shape");
  return shape ? shape.asArrayRef().vec() : std::vector<int64_t>();
}

BindResult cleave::runtime::bindDeviceVariant(Binder &binder, Operation *op) {
  const Device &device = *binder.services().device;
  llvm::StringRef name = cast<aten::AtenOpInterface>(op).getSchemaName();
  auto isMissing = [&] {
    llvm::Expected<c10::OperatorHandle> handle = findOperator(name, device.dispatchKey());
    if (handle)
      return false;
    llvm::consumeError(handle.takeError());
    return true;
  };
  Call call(binder, op);
  auto finish = [&](auto instruction) -> BindResult {
    call.defineResults(instruction->results, instruction->types);
    return instruction;
  };
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu" && isMissing()) {
    auto instruction = std::make_unique<AttentionForward>();
    bindAttention(call, device, *instruction);
    return finish(std::move(instruction));
  }
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward" && isMissing()) {
    // In the order in which `execute` reads them.
    auto instruction = std::make_unique<AttentionBackward>();
    instruction->gradient = call.tensor("grad_out");
    bindAttention(call, device, *instruction);
    instruction->output = call.tensor("out");
    instruction->logarithms = call.tensor("logsumexp");
    return finish(std::move(instruction));
  }
  bool isProcessor = device.torchDevice().is_cpu();
  if (name == "aten::native_layer_norm" && !isProcessor && isNarrowOrMixed(call)) {
    auto instruction = std::make_unique<LayerNorm>();
    instruction->input = call.tensor("input");
    instruction->weight = call.tensor("weight");
    instruction->bias = call.tensor("bias");
    instruction->shape = shapeOf(call);
    instruction->eps = call.number("eps").value_or(1e-5);
    return finish(std::move(instruction));
  }
  if (name == "aten::native_layer_norm_backward" && !isProcessor && isNarrowOrMixed(call)) {
    auto instruction = std::make_unique<LayerNormBackward>();
    instruction->gradient = call.tensor("grad_out");
    instruction->input = call.tensor("input");
    instruction->mean = call.tensor("mean");
    instruction->deviation = call.tensor("rstd");
    instruction->weight = call.tensor("weight");
    instruction->bias = call.tensor("bias");
    instruction->shape = shapeOf(call);
    if (auto mask = call.attribute<DenseBoolArrayAttr>("output_mask"))
      llvm::copy(mask.asArrayRef().take_front(3), instruction->mask.begin());
    return finish(std::move(instruction));
  }
  return std::unique_ptr<Instruction>();
}
