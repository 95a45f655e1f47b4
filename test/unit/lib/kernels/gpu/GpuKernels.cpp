//===- GpuKernels.cpp - checks the GPU code of a program's kernels -------------------------===//
//
// gpu-kernels FILE            compiles each kernel of the program that has a row program for a GPU,
//                             executes it in the interpreter, and compares it with what the row
//                             program means: a line for each
// gpu-kernels FILE resources  assembles all of them for each chip: a line for each function
// gpu-kernels FILE evaluate INPUTS OUTPUTS
//                             executes each kernel in the interpreter on the tensors of a
//                             safetensors file, KERNEL.0, KERNEL.1 and so on for its arguments, and
//                             writes its results under such names
//
// Of kernels that would take long to execute only some rows are computed.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "lib/kernels/gpu/Compiler.h"
#include "runtime/io/Safetensors.h"
#include "test/unit/lib/kernels/gpu/Reference.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using kernels::RowProgram;

/// Rows times columns times nodes that are computed of a kernel.
static constexpr int64_t kLimit = 300000;

static int fail(llvm::Error error) {
  llvm::errs() << llvm::toString(std::move(error)) << "\n";
  return EXIT_FAILURE;
}

static int execute(std::vector<RowProgram> programs, const kernels::gpu::Toolkit &toolkit) {
  bool failed = false;
  for (RowProgram &program : programs) {
    // Fewer of the outermost dimension only: tensors stay without holes.
    int64_t &size = program.rowShape.front();
    int64_t perSize = program.columns * int64_t(program.nodes.size()) * (program.rows() / size);
    size = std::clamp<int64_t>(kLimit / perSize, std::min<int64_t>(size, 3), size);
    gputest::CheckOptions options;
    options.libdevice = toolkit.libdevice;
    std::string wrong = gputest::checkProgram(program, options);
    llvm::outs() << program.name << ": " << program.rows() << " x " << program.columns
                 << (wrong.empty() ? ": equal" : ": " + wrong) << "\n";
    failed |= !wrong.empty();
  }
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int listResources(const std::vector<RowProgram> &programs,
                         const kernels::gpu::Toolkit &toolkit) {
  kernels::gpu::Compiler compiler;
  std::map<std::string, unsigned> threads;
  for (const RowProgram &program : programs) {
    auto launch = compiler.add(program);
    if (!launch)
      return fail(launch.takeError());
    for (const auto &phase : launch->phases)
      threads[phase.entry] = phase.threads;
  }
  for (const kernels::gpu::Chip &chip : kernels::gpu::getChips()) {
    auto cubin = compiler.compile(chip, toolkit);
    if (!cubin)
      return fail(cubin.takeError());
    for (const auto &kernel : cubin->kernels)
      llvm::outs() << chip.name << " " << kernel.name << ": " << threads[kernel.name]
                   << " threads, " << kernel.registers << " registers, "
                   << kernel.spillStores + kernel.spillLoads << " bytes spilled, " << kernel.shared
                   << " bytes shared, " << kernel.stack << " bytes stack\n";
  }
  return EXIT_SUCCESS;
}

static runtime::DType dtypeOf(mlir::Type type) {
  std::string width = std::to_string(type.getIntOrFloatBitWidth());
  std::string name = type.isBF16()                      ? "BF16"
                     : mlir::isa<mlir::FloatType>(type) ? "F" + width
                     : type.isInteger(1)                ? "BOOL"
                     : type.isUnsignedInteger()         ? "U" + width
                                                        : "I" + width;
  return *runtime::parseDType(name);
}

/// The tensors of a kernel, arguments from the file.
static llvm::Expected<std::vector<gputest::Tensor>>
readTensors(exec::KernelOp kernel, const RowProgram &program,
            const runtime::SafetensorsFile &inputs) {
  std::vector<gputest::Tensor> tensors;
  tensors.reserve(program.tensors.size());
  for (mlir::Type type :
       llvm::concat<const mlir::Type>(kernel.getArgumentTypes(), kernel.getResultTypes())) {
    size_t index = tensors.size();
    auto tensor = mlir::cast<mlir::RankedTensorType>(type);
    tensors.emplace_back(program.tensors[index], tensor.getNumElements());
    if (index >= program.numArguments)
      continue;
    std::string name = program.name + "." + std::to_string(index);
    const runtime::TensorView *view = inputs.find(name);
    size_t bytes = tensors.back().size * tensors.back().elementBytes();
    if (!view || view->bytes.size() != bytes)
      return llvm::createStringError("expected a tensor '" + name + "' of " +
                                     std::to_string(bytes) + " bytes in " + inputs.path());
    llvm::copy(view->bytes, tensors.back().data);
  }
  return tensors;
}

static int evaluate(std::vector<exec::KernelOp> kernels, const std::vector<RowProgram> &programs,
                    const kernels::gpu::Toolkit &toolkit, const char *from, const char *to) {
  auto inputs = runtime::SafetensorsFile::open(from);
  if (!inputs)
    return fail(inputs.takeError());
  std::vector<std::vector<gputest::Tensor>> kept;
  std::vector<runtime::TensorView> views;
  for (auto [kernel, program] : llvm::zip(kernels, programs)) {
    auto tensors = readTensors(kernel, program, **inputs);
    if (!tensors)
      return fail(tensors.takeError());
    gputest::CheckOptions options;
    options.libdevice = toolkit.libdevice;
    if (std::string wrong = gputest::execute(program, options, *tensors); !wrong.empty())
      return fail(llvm::createStringError(program.name + ": " + wrong));
    for (auto [index, type] : llvm::enumerate(kernel.getResultTypes())) {
      auto tensor = mlir::cast<mlir::RankedTensorType>(type);
      const gputest::Tensor &made = (*tensors)[program.numArguments + index];
      runtime::TensorView view{program.name + "." + std::to_string(index),
                               dtypeOf(tensor.getElementType()),
                               tensor.getShape().vec(),
                               {made.data, size_t(made.size * made.elementBytes())}};
      views.push_back(std::move(view));
    }
    kept.push_back(std::move(*tensors));
  }
  if (llvm::Error error = runtime::writeSafetensors(to, views))
    return fail(std::move(error));
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  bool evaluates = argc == 5 && llvm::StringRef(argv[2]) == "evaluate";
  bool resources = argc == 3 && llvm::StringRef(argv[2]) == "resources";
  if (argc != 2 && !resources && !evaluates) {
    llvm::errs() << "usage: gpu-kernels FILE [resources | evaluate INPUTS OUTPUTS]\n";
    return EXIT_FAILURE;
  }
  auto toolkit = kernels::gpu::findToolkit();
  if (!toolkit)
    return fail(toolkit.takeError());
  mlir::DialectRegistry registry;
  registry.insert<aten::AtenDialect, dist::DistDialect, exec::ExecDialect, train::TrainDialect,
                  mlir::func::FuncDialect>();
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  if (!module)
    return EXIT_FAILURE;
  std::vector<RowProgram> programs;
  std::vector<exec::KernelOp> kernels;
  for (auto kernel : module->getOps<exec::KernelOp>()) {
    kernels::Unsupported why;
    if (std::optional<RowProgram> program = kernels::buildRowProgram(kernel, why)) {
      programs.push_back(std::move(*program));
      kernels.push_back(kernel);
    } else {
      llvm::outs() << kernel.getSymName() << ": no row program\n";
    }
  }
  if (evaluates)
    return evaluate(std::move(kernels), programs, *toolkit, argv[3], argv[4]);
  return resources ? listResources(programs, *toolkit) : execute(std::move(programs), *toolkit);
}
