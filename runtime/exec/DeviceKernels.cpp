//===- DeviceKernels.cpp - compiled kernels on a device --------------------------===//

#include "runtime/exec/DeviceKernels.h"
#include "runtime/io/Error.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave::runtime;
namespace exec = cleave::exec;

namespace {
/// Phases one after another on the current stream; a stream keeps their order.
class DeviceKernel : public CompiledKernel {
public:
  DeviceKernel(std::shared_ptr<DeviceModule> module, const DeviceKernels &kernels, std::string name,
               size_t numTensors)
      : module(std::move(module)), kernels(kernels), name(std::move(name)), values(numTensors + 1),
        arguments(numTensors + 1) {
    for (size_t i = 0; i < values.size(); ++i)
      arguments[i] = &values[i];
  }

  void launch(void *const *tensors) override {
    std::copy_n(tensors, values.size() - 1, values.begin());
    values.back() = kernels.partials();
    for (Phase &phase : phases) {
      phase.launch.arguments = arguments.data();
      llvm::Error error = kernels.device().plugin()->launch(phase.function, phase.launch, name);
      if (error)
        throw std::runtime_error(llvm::toString(std::move(error)));
    }
  }

  struct Phase {
    void *function;
    CleaveLaunch launch;
  };
  std::vector<Phase> phases;

private:
  std::shared_ptr<DeviceModule> module; ///< holds the code
  const DeviceKernels &kernels;
  std::string name;
  /// Pointers to the tensors, then to the partials; and where each of them is.
  std::vector<void *> values, arguments;
};
} // namespace

llvm::Expected<std::unique_ptr<DeviceKernels>>
DeviceKernels::create(ModuleOp module, llvm::StringRef target, const Device &device) {
  std::unique_ptr<DeviceKernels> kernels(new DeviceKernels(device));
  if (target == "none")
    return kernels;
  std::vector<std::string> chips;
  llvm::SmallVector<exec::BinaryOp> binaries;
  for (auto binary : module.getOps<exec::BinaryOp>())
    if (binary.getFamily() == exec::Family::Cuda &&
        (target == "best" || binary.getTarget() == target)) {
      chips.push_back(binary.getTarget().str());
      binaries.push_back(binary);
    }
  if (target != "best" && chips.empty())
    return makeError("expected --kernels to be best, none or a chip that the program has code for, "
                     "found '" +
                     target + "'");
  const CleaveDeviceFacts &facts = device.facts();
  std::optional<size_t> chosen = chooseChip(chips, facts.capabilityMajor, facts.capabilityMinor);
  if (chips.empty())
    return kernels;
  if (!chosen)
    return makeError("the program's kernels are compiled for " + llvm::join(chips, ", ") +
                     ", but this device is an sm_" + llvm::Twine(facts.capabilityMajor) +
                     llvm::Twine(facts.capabilityMinor) +
                     ": compile them for it, or run their ops one by one (--kernels none)");
  kernels->binary = binaries[*chosen];
  kernels->targetName = kernels->binary.getTarget();
  return kernels;
}

llvm::Expected<std::unique_ptr<CompiledKernel>> DeviceKernels::find(exec::KernelOp kernel) {
  exec::CodeAttr code = kernel.getCodeFor(exec::Family::Cuda);
  if (!binary || !code)
    return nullptr;
  if (!module) {
    auto loaded = where.plugin()->loadModule(
        binary.getBytes(), ("@" + binary.getSymName() + " for " + binary.getTarget()).str());
    if (!loaded)
      return loaded.takeError();
    module = std::move(*loaded);
  }
  std::string name = kernel.getSymName().str();
  auto found = std::make_unique<DeviceKernel>(
      module, *this, name, kernel.getArgumentTypes().size() + kernel.getResultTypes().size());
  for (exec::KernelPhaseAttr phase : code.getPhases()) {
    llvm::Expected<void *> function = module->getFunction(phase.getEntry().getValue());
    if (!function)
      return makeError("exec.kernel @" + name + ": exec.binary @" + binary.getSymName() + ": " +
                       llvm::toString(function.takeError()));
    found->phases.push_back(
        {*function, {uint32_t(phase.getChunks()), uint32_t(phase.getThreads()), 0, nullptr}});
  }
  if (!shared.defined() || shared.numel() < code.getPartials())
    shared = where.allocate({DType::U8, {code.getPartials()}});
  return found;
}
