//===- Gradients.cpp - accumulation of gradients -----------------------------===//

#include "dialects/train/Train.h"
#include "runtime/exec/Kernels.h"

#include <ATen/ops/add.h>

#include <algorithm>

using namespace mlir;
using namespace cleave::runtime;
namespace train = cleave::train;

//===----------------------------------------------------------------------===//
// train.accumulate
//===----------------------------------------------------------------------===//

/// `total += gradient` of a narrower type. On a processor PyTorch first copies all of the operand
/// in the sum's type: so that this is little, a part at a time.
static void addNarrower(at::Tensor &total, const at::Tensor &gradient) {
  constexpr int64_t kElements = 1 << 16;
  if (!gradient.is_cpu() || gradient.numel() <= kElements) {
    total.add_(gradient);
    return;
  }
  int64_t size = gradient.size(0);
  int64_t rows = std::max<int64_t>(1, kElements / (gradient.numel() / size));
  for (int64_t begin = 0; begin < size; begin += rows) {
    int64_t count = std::min(rows, size - begin);
    total.narrow(0, begin, count).add_(gradient.narrow(0, begin, count));
  }
}

namespace {
class Accumulate : public Instruction {
public:
  Operand gradient, accumulator;
  Destination result;
  at::ScalarType element; ///< of the sum, which may be wider than the gradient's

  void execute(Frame &frame) override {
    c10::IValue sum = accumulator.read(frame);
    if (sum.isNone()) {
      at::Tensor first = gradient.tensor(frame);
      bool isNarrow = first.scalar_type() != element;
      result.write(frame, isNarrow ? first.to(element, /*non_blocking=*/false, /*copy=*/true,
                                              at::MemoryFormat::Contiguous)
                                   : own(std::move(first)));
      return;
    }
    at::Tensor total = own(std::move(sum).toTensor());
    at::Tensor term = gradient.tensor(frame);
    if (term.scalar_type() == element)
      total.add_(term);
    else
      addNarrower(total, term);
    result.write(frame, std::move(total));
  }
};
} // namespace

BindResult cleave::runtime::bindAccumulate(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<train::AccumulateOp>(ops.front());
  auto instruction = std::make_unique<Accumulate>();
  instruction->gradient = binder.use(op.getGradient());
  instruction->accumulator = binder.use(op.getAccumulator());
  instruction->result = binder.define(op.getResult());
  instruction->element = toScalarType(toTensorType(op.getResult().getType()).dtype);
  return instruction;
}
