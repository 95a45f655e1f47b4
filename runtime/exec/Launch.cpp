//===- Launch.cpp - kernels without compiled code ----------------------------===//
//
// A kernel's ops run one by one, in a frame of their own: what the kernel is to compute, to which
// compiled code is compared.
//
//===----------------------------------------------------------------------===//

#include "dialects/exec/Exec.h"
#include "runtime/exec/Kernels.h"

using namespace mlir;
using namespace cleave::runtime;

namespace {
class Launch : public Instruction {
public:
  explicit Launch(BoundFunction body) : body(std::move(body)) {
    inner.slots.resize(this->body.numSlots);
    inner.stack.reserve(16);
  }

  void execute(Frame &frame) override {
    for (auto [slot, operand] : llvm::enumerate(operands))
      inner.slots[slot] = operand.read(frame);
    size_t position = 0;
    try {
      for (; position < body.instructions.size(); ++position)
        body.instructions[position]->execute(inner);
    } catch (...) {
      for (c10::IValue &slot : inner.slots)
        slot = c10::IValue();
      throw;
    }
    for (auto [result, destination] : llvm::zip(body.results, results))
      destination.write(frame, result.read(inner));
    // Arguments that no op takes.
    for (uint32_t slot = 0; slot < body.numArguments; ++slot)
      inner.slots[slot] = c10::IValue();
  }

  std::vector<Operand> operands;
  std::vector<Destination> results;

private:
  BoundFunction body;
  Frame inner;
};
} // namespace

BindResult cleave::runtime::bindLaunch(Binder &binder, llvm::ArrayRef<Operation *> ops) {
  auto launch = cast<exec::LaunchOp>(ops.front());
  auto kernel =
      SymbolTable::lookupNearestSymbolFrom<exec::KernelOp>(launch, launch.getKernelAttr());
  // Of kernels it is checked as a whole what they give, not what happens inside.
  Services services = binder.services();
  services.checksReplication = false;
  llvm::Expected<BoundFunction> body = Binder(kernel, services).bind();
  if (!body)
    return body.takeError();
  auto instruction = std::make_unique<Launch>(std::move(*body));
  for (Value operand : launch.getOperands())
    instruction->operands.push_back(binder.use(operand));
  for (Value result : launch.getResults())
    instruction->results.push_back(binder.define(result));
  return instruction;
}
