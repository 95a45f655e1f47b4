//===- Gradients.cpp - accumulation of gradients -----------------------------===//

#include "dialects/train/Train.h"
#include "runtime/exec/Kernels.h"

#include <ATen/ops/add.h>

using namespace mlir;
using namespace cleave::runtime;
namespace train = cleave::train;

//===----------------------------------------------------------------------===//
// train.accumulate
//===----------------------------------------------------------------------===//

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
    total.add_(gradient.tensor(frame));
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
