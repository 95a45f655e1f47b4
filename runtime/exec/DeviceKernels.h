//===- DeviceKernels.h - compiled kernels on a device --------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_DEVICEKERNELS_H
#define CLEAVE_RUNTIME_EXEC_DEVICEKERNELS_H

#include "runtime/device/Device.h"
#include "runtime/kernels/CompiledKernels.h"

namespace cleave::runtime {

/// The kernels of a program that have code for a device's chip.
class DeviceKernels : public KernelSource {
public:
  /// `target`: "best", the newest code that runs on the device; the name of a chip, whose code it
  /// is then; "none". Fails if the program has code for chips, but none that runs: the error
  /// names them. Outlives the kernels that it gives, as `device` does it.
  static llvm::Expected<std::unique_ptr<DeviceKernels>>
  create(mlir::ModuleOp module, llvm::StringRef target, const Device &device);

  llvm::Expected<std::unique_ptr<CompiledKernel>> find(exec::KernelOp kernel) override;
  /// "sm_90"; empty if no compiled code is used.
  llvm::StringRef target() const override { return targetName; }
  /// What chunks of a launch share, as much as the kernel that needs most.
  char *partials() const {
    return shared.defined() ? static_cast<char *>(shared.data_ptr()) : nullptr;
  }
  const Device &device() const { return where; }

private:
  explicit DeviceKernels(const Device &where) : where(where) {}

  const Device &where;
  exec::BinaryOp binary;
  llvm::StringRef targetName;
  /// Loaded when the first kernel is looked for.
  std::shared_ptr<DeviceModule> module;
  at::Tensor shared;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_DEVICEKERNELS_H
