//===- HostCopies.cpp - copies to and from host memory ----------------------------===//
//
// On the processor, a heap with counts of its own stands for the host's memory. On devices it is
// page-locked, so that a copy runs on its stream while others compute.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Dist.h"
#include "runtime/device/Device.h"
#include "runtime/exec/Kernels.h"

#include <ATen/ops/empty_strided.h>

using namespace mlir;
using namespace cleave::runtime;
namespace dist = cleave::dist;

namespace {
/// Both directions keep the strides of what is copied, which ops of the backward would see.
class Copy : public Instruction {
public:
  Operand input;
  Destination result;
  const Device *device;
  bool isToHost;

  void execute(Frame &frame) override {
    at::Tensor from = input.tensor(frame);
    at::Tensor to = allocateLike(from);
    to.copy_(from, /*non_blocking=*/true);
    // On a stream of its own: what others have made, and what they use.
    if (device->isOnStream(StreamKind::Host))
      device->noteUse(isToHost ? from : to, isToHost ? StreamKind::Host : StreamKind::Compute);
    result.write(frame, std::move(to));
  }

private:
  at::Tensor allocateLike(const at::Tensor &from) const {
    // Of a view, only what it shows.
    llvm::SmallVector<int64_t, 4> strides(from.strides().begin(), from.strides().end());
    if (!from.is_non_overlapping_and_dense())
      strides = contiguousStrides(from.sizes());
    if (isToHost)
      return device->allocateOnHost(from.sizes(), strides, from.scalar_type());
    return at::empty_strided(
        from.sizes(), strides,
        at::TensorOptions().dtype(from.scalar_type()).device(device->torchDevice()));
  }

  static llvm::SmallVector<int64_t, 4> contiguousStrides(at::IntArrayRef sizes) {
    llvm::SmallVector<int64_t, 4> strides(sizes.size(), 1);
    for (size_t dim = sizes.size(); dim-- > 1;)
      strides[dim - 1] = strides[dim] * std::max<int64_t>(sizes[dim], 1);
    return strides;
  }
};
} // namespace

static std::unique_ptr<Instruction> makeCopy(Binder &binder, Value input, Value result,
                                             bool isToHost) {
  auto instruction = std::make_unique<Copy>();
  instruction->input = binder.use(input);
  instruction->result = binder.define(result);
  instruction->device = binder.services().device;
  instruction->isToHost = isToHost;
  return instruction;
}

BindResult cleave::runtime::bindOffload(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<dist::OffloadOp>(ops.front());
  return makeCopy(binder, op.getInput(), op.getResult(), /*isToHost=*/true);
}

BindResult cleave::runtime::bindReload(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<dist::ReloadOp>(ops.front());
  return makeCopy(binder, op.getInput(), op.getResult(), /*isToHost=*/false);
}
