//===- RandomInstruction.h - what ops that draw from PyTorch's generator share -*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_RANDOMINSTRUCTION_H
#define CLEAVE_RUNTIME_EXEC_RANDOMINSTRUCTION_H

#include "runtime/device/Device.h"
#include "runtime/exec/Kernels.h"
#include "runtime/exec/RandomStream.h"

#include <ATen/ops/empty_like.h>

namespace cleave::runtime {

/// Operands, results and the place in the stream, which all random ops have.
class RandomInstruction : public Instruction {
public:
  Operand like, seed, offset;
  std::vector<Destination> results;
  RandomStream *stream = nullptr;
  uint64_t position = 0;
  const Device *device = nullptr;

protected:
  /// The generator is the host's, so numbers are drawn there: a tensor with `x`'s strides.
  at::Tensor hostLike(const at::Tensor &x, at::ScalarType dtype) const {
    return at::empty_like(x, at::TensorOptions().dtype(dtype).device(at::kCPU));
  }
  at::Tensor hostLike(const at::Tensor &x) const { return hostLike(x, x.scalar_type()); }

  /// The generator at this op's place.
  at::Generator &generator(Frame &frame) const {
    int64_t at = *offset.tensor(frame).const_data_ptr<int64_t>();
    int64_t seedValue = *seed.tensor(frame).const_data_ptr<int64_t>();
    return stream->seek(static_cast<uint64_t>(seedValue), static_cast<uint64_t>(at) + position);
  }
};

/// A number among the op's attributes.
inline double numberOf(mlir::Operation *op, llvm::StringRef name, double otherwise) {
  auto attribute = op->getAttrOfType<mlir::FloatAttr>(name);
  return attribute ? attribute.getValueAsDouble() : otherwise;
}

/// Binds what all random ops have; `make` fills in the rest.
template <typename T, typename Make>
BindResult bindRandom(Binder &binder, mlir::Operation *op, Make make) {
  auto instruction = std::make_unique<T>();
  // In the order in which `execute` reads them.
  instruction->offset = binder.use(op->getOperand(2));
  instruction->seed = binder.use(op->getOperand(1));
  instruction->like = binder.use(op->getOperand(0));
  for (mlir::Value result : op->getResults())
    instruction->results.push_back(binder.define(result));
  instruction->stream = binder.services().random;
  instruction->device = binder.services().device;
  if (auto position = op->getAttrOfType<mlir::IntegerAttr>("position"))
    instruction->position = position.getInt();
  make(*instruction);
  return instruction;
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_RANDOMINSTRUCTION_H
