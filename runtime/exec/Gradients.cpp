//===- Gradients.cpp - accumulation and reduction of gradients ---------------===//

#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "runtime/exec/Kernels.h"
#include "runtime/exec/RankGrid.h"

#include <ATen/ops/add.h>

using namespace mlir;
using namespace cleave::runtime;
namespace train = cleave::train;

/// What later steps may overwrite and the optimizer may read as flat memory: contiguous, and shared
/// with nobody.
static at::Tensor own(at::Tensor tensor) {
  if (tensor.is_contiguous() && isSoleOwner(tensor))
    return tensor;
  return tensor.clone(at::MemoryFormat::Contiguous);
}

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

//===----------------------------------------------------------------------===//
// dist.all_reduce
//===----------------------------------------------------------------------===//

namespace {
class AllReduce : public Instruction {
public:
  Operand input;
  Destination result;
  Communicator *group = nullptr;
  std::string what;

  void execute(Frame &frame) override {
    at::Tensor value = input.tensor(frame);
    if (group) {
      value = own(std::move(value));
      if (llvm::Error error = group->allReduceSum(value, what))
        throw CommunicationFailure{std::move(error)};
    }
    result.write(frame, std::move(value));
  }
};
} // namespace

/// What is reduced, for messages: the role of the function's argument, else the op's place.
static std::string describeValue(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    if (auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()))
      if (train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber()))
        return (train::stringifyRoleKind(role.getKind()) + " \"" + role.getNameOrEmpty() + "\"")
            .str();
  return describeLocation(value.getLoc());
}

BindResult cleave::runtime::bindAllReduce(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<cleave::dist::AllReduceOp>(ops.front());
  if (op.getInputs().size() != 1 || op.isStarted() ||
      op.getReduction().getKind() != cleave::dist::Reduction::Sum)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "the runtime executes it for the sum of one value, waited for");
  std::vector<std::string> axes;
  for (StringAttr axis : op.getAxes().getAsRange<StringAttr>())
    axes.push_back(axis.str());
  llvm::Expected<Communicator *> group = binder.services().ranks->group(axes);
  if (!group)
    return group.takeError();
  auto instruction = std::make_unique<AllReduce>();
  instruction->input = binder.use(op.getInputs().front());
  instruction->result = binder.define(op.getResults().front());
  instruction->group = *group;
  instruction->what = describeValue(op.getInputs().front());
  return instruction;
}
