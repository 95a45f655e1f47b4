//===- Check.cpp - compiled kernels against what their programs mean -----------------------===//

#include "test/unit/lib/kernels/gpu/Interpreter.h"
#include "test/unit/lib/kernels/gpu/Reference.h"

#include "lib/kernels/gpu/Compiler.h"

#include "llvm/IR/LLVMContext.h"

#include <cmath>
#include <cstring>

using namespace cleave::gputest;
using namespace cleave::kernels;

/// What rounding may change, relative to the largest number of the tensor.
static double toleranceOf(mlir::Type dtype) {
  return dtype.isF64()    ? 1e-12
         : dtype.isF32()  ? 2e-5
         : dtype.isF16()  ? 4e-3
         : dtype.isBF16() ? 3e-2
                          : 0;
}

static std::string compare(const RowProgram &program, const std::vector<Tensor> &tensors,
                           const std::vector<std::map<int64_t, double>> &expected) {
  for (auto [store, values] : llvm::zip(program.stores, expected)) {
    const Tensor &tensor = tensors[store.access.tensor];
    double largest = 0;
    for (auto [index, value] : values)
      if (std::isfinite(value))
        largest = std::max(largest, std::fabs(value));
    for (auto [index, value] : values) {
      double found = tensor.get(index);
      bool isEqual = std::isfinite(value)
                         ? std::fabs(found - value) <= toleranceOf(tensor.dtype) * (largest + 1e-6)
                     : std::isnan(value) ? std::isnan(found)
                                         : found == value;
      if (!isEqual)
        return "element " + std::to_string(index) + " of tensor " +
               std::to_string(store.access.tensor) + ": expected " + std::to_string(value) +
               ", found " + std::to_string(found);
    }
  }
  return "";
}

static std::string describe(const RowProgram &program) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  program.print(stream);
  return text;
}

std::string cleave::gputest::execute(const RowProgram &program, const CheckOptions &options,
                                     std::vector<Tensor> &tensors) {
  auto chip = gpu::lookupChip(options.chip);
  if (!chip)
    return llvm::toString(chip.takeError());
  gpu::Compiler compiler;
  auto launch = compiler.add(program);
  if (!launch)
    return llvm::toString(launch.takeError());
  llvm::LLVMContext context;
  auto module = compiler.translate(context, *chip, options.libdevice);
  if (!module)
    return llvm::toString(module.takeError());

  std::vector<std::vector<uint8_t>> before;
  try {
    for (unsigned order : {0, 1}) {
      Memory memory;
      std::vector<void *> arguments;
      for (auto [index, tensor] : llvm::enumerate(tensors)) {
        memory.addRegion(tensor.data, tensor.size * tensor.elementBytes(),
                         "tensor " + std::to_string(index), index < program.numArguments);
        arguments.push_back(tensor.data);
      }
      Tensor partials(mlir::IntegerType::get(program.tensors[0].getContext(), 64),
                      launch->partials / 8 + 1);
      memory.addRegion(partials.data, launch->partials, "partials", false);
      arguments.push_back(partials.data);
      Interpreter interpreter(**module, memory);
      for (const gpu::Launch::Phase &phase : launch->phases)
        interpreter.launch(phase.entry, phase.chunks, phase.threads, arguments, order);
      for (size_t index = program.numArguments; index < tensors.size(); ++index) {
        Tensor &tensor = tensors[index];
        if (size_t missing = memory.countUninitialized(tensor.data))
          return std::to_string(missing) + " bytes of tensor " + std::to_string(index) +
                 " are not written\n" + describe(program);
        std::vector<uint8_t> bytes(tensor.data, tensor.data + tensor.size * tensor.elementBytes());
        if (order == 0)
          before.push_back(bytes);
        else if (bytes != before[index - program.numArguments])
          return "another order of threads gives other bits\n" + describe(program);
      }
    }
  } catch (const Fault &fault) {
    return std::string(fault.what()) + "\n" + describe(program);
  }
  return "";
}

std::string cleave::gputest::checkProgram(const RowProgram &program, const CheckOptions &options) {
  std::mt19937 random(options.seed);
  std::vector<Tensor> tensors = makeTensors(program, random);
  std::vector<std::map<int64_t, double>> expected = evaluate(program, tensors);
  if (std::string wrong = execute(program, options, tensors); !wrong.empty())
    return wrong;
  std::string wrong = compare(program, tensors, expected);
  return wrong.empty() ? "" : wrong + "\n" + describe(program);
}
