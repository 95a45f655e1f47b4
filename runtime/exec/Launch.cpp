//===- Launch.cpp - kernels: their compiled code, or their ops ---------------===//
//
// A kernel that has code for this machine is one call. Of others the ops run one by one, in a frame
// of their own: that is what the kernel is to compute, to which compiled code is compared.
//
//===----------------------------------------------------------------------===//

#include "dialects/exec/Exec.h"
#include "runtime/device/Device.h"
#include "runtime/exec/Kernels.h"
#include "runtime/kernels/CompiledKernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>

using namespace mlir;
using namespace cleave::runtime;
namespace exec = cleave::exec;

namespace {
class LaunchOps : public Instruction {
public:
  explicit LaunchOps(BoundFunction body) : body(std::move(body)) {
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

class LaunchCode : public Instruction {
public:
  LaunchCode(std::unique_ptr<CompiledKernel> kernel, const Device &device, const Arena *arena)
      : kernel(std::move(kernel)), device(device), arena(arena) {}

  void reset() override {
    for (Result &result : results)
      result.target = at::Tensor();
  }

  void execute(Frame &frame) override {
    if (!isChecked)
      check(frame);
    // Copies of operands that are views, or numbers that the host knows: code takes contiguous
    // memory of the device.
    llvm::SmallVector<at::Tensor, 4> copies;
    size_t position = 0;
    for (const Argument &argument : operands) {
      const at::Tensor &tensor = frame.slots[argument.operand.slot].toTensor();
      if (suits(tensor)) {
        pointers[position++] = const_cast<void *>(tensor.const_data_ptr());
        continue;
      }
      at::Tensor moved = device.fromHost(tensor);
      pointers[position++] =
          copies.emplace_back(suits(moved) ? moved : moved.clone(at::MemoryFormat::Contiguous))
              .mutable_data_ptr();
    }
    llvm::SmallVector<at::Tensor, 4> made;
    for (Result &result : results)
      pointers[position++] = made.emplace_back(makeResult(result, frame)).mutable_data_ptr();
    kernel->launch(pointers.data());
    for (const Argument &argument : operands)
      argument.operand.release(frame);
    for (auto [result, tensor] : llvm::zip(results, made))
      result.destination.write(frame, std::move(tensor));
  }

  /// Whether code can take the tensor as it is. GPUs load 16 bytes at a time, which a view that
  /// begins within others' memory may not allow.
  bool suits(const at::Tensor &tensor) const {
    return tensor.is_contiguous() && tensor.device() == device.torchDevice() &&
           (tensor.is_cpu() || reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0);
  }

  struct Argument {
    Operand operand;
    cleave::runtime::TensorType type;
  };
  struct Result {
    Destination destination;
    std::vector<int64_t> sizes;
    at::ScalarType type;
    /// In a function that plans memory: the place, and a tensor there once it is known.
    PlannedResult planned;
    at::Tensor target;
  };
  std::vector<Argument> operands;
  std::vector<Result> results;
  /// To the arguments, then to the results.
  std::vector<void *> pointers;

private:
  /// Contiguous memory that the kernel is to write.
  at::Tensor makeResult(Result &result, const Frame &frame) const {
    if (char *address = result.target.defined() ? nullptr : findMemory(result, frame))
      result.target = arena->tensorAt(address, result.sizes, result.type);
    if (result.target.defined())
      return result.target;
    if (device.isHost())
      return at::detail::empty_cpu(result.sizes, result.type); // without the dispatcher
    return at::empty(result.sizes,
                     at::TensorOptions().dtype(result.type).device(device.torchDevice()));
  }

  static char *findMemory(const Result &result, const Frame &frame) {
    const PlannedResult &planned = result.planned;
    if (planned.kind == PlannedResult::Arena)
      return planned.address;
    if (planned.kind != PlannedResult::InPlace || !frame.isFixed(planned.operandSlot))
      return nullptr;
    const at::Tensor &operand = frame.slots[planned.operandSlot].toTensor();
    bool isSame = operand.is_contiguous() && operand.sizes() == result.sizes &&
                  operand.scalar_type() == result.type;
    return isSame ? static_cast<char *>(operand.mutable_data_ptr()) : nullptr;
  }

  /// The first run compares its operands with what the code expects: it would not notice.
  void check(const Frame &frame) {
    for (auto [index, argument] : llvm::enumerate(operands)) {
      const c10::IValue &value = frame.slots[argument.operand.slot];
      TORCH_CHECK(value.isTensor(), "operand ", index, " is missing");
      std::optional<cleave::runtime::TensorType> found = typeOf(value.toTensor());
      TORCH_CHECK(found && *found == argument.type, "operand ", index, " is ",
                  found ? found->str() : "of another kind", ", but the kernel takes ",
                  argument.type.str());
    }
    isChecked = true;
  }

  std::unique_ptr<CompiledKernel> kernel;
  const Device &device;
  const Arena *arena;
  bool isChecked = false;
};
} // namespace

static std::unique_ptr<Instruction> bindCode(Binder &binder, exec::LaunchOp launch,
                                             exec::KernelOp kernel,
                                             std::unique_ptr<CompiledKernel> code) {
  auto instruction = std::make_unique<LaunchCode>(std::move(code), *binder.services().device,
                                                  binder.services().arena);
  for (auto [operand, type] : llvm::zip(launch.getOperands(), kernel.getArgumentTypes()))
    instruction->operands.push_back({binder.use(operand), toTensorType(type)});
  for (auto [value, type] : llvm::zip(launch.getResults(), kernel.getResultTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    instruction->results.push_back({binder.define(value),
                                    tensor.getShape().vec(),
                                    toScalarType(toDType(tensor.getElementType())),
                                    {},
                                    {}});
  }
  if (binder.isLowered())
    for (auto [result, planned] : llvm::zip_equal(instruction->results, binder.planResults(launch)))
      result.planned = planned;
  instruction->pointers.resize(instruction->operands.size() + instruction->results.size());
  return instruction;
}

BindResult cleave::runtime::bindLaunch(Binder &binder, llvm::ArrayRef<Operation *> ops) {
  auto launch = cast<exec::LaunchOp>(ops.front());
  auto kernel =
      SymbolTable::lookupNearestSymbolFrom<exec::KernelOp>(launch, launch.getKernelAttr());
  std::string name = ("exec.launch @" + kernel.getSymName()).str();
  Services services = binder.services();
  if (services.kernels) {
    llvm::Expected<std::unique_ptr<CompiledKernel>> code = services.kernels->find(kernel);
    if (!code)
      return code.takeError();
    if (*code) {
      std::unique_ptr<Instruction> instruction = bindCode(binder, launch, kernel, std::move(*code));
      instruction->name = std::move(name);
      return instruction;
    }
  }
  // What kernels return is checked as a whole, not what happens inside.
  services.checksReplication = false;
  llvm::Expected<BoundFunction> body = Binder(kernel, services).bind();
  if (!body)
    return body.takeError();
  auto instruction = std::make_unique<LaunchOps>(std::move(*body));
  instruction->name = std::move(name);
  for (Value operand : launch.getOperands())
    instruction->operands.push_back(binder.use(operand));
  for (Value result : launch.getResults())
    instruction->results.push_back(binder.define(result));
  return instruction;
}
