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

  void execute(Frame &frame) override {
    c10::IValue sum = accumulator.read(frame);
    if (sum.isNone()) {
      result.write(frame, own(gradient.tensor(frame)));
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
  return instruction;
}
