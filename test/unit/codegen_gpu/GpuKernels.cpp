//===- GpuKernels.cpp - checks the GPU code of a program's kernels -------------------------===//
//
// gpu-kernels FILE            compiles each kernel of the program that has a row program for a GPU,
//                             executes it in the interpreter, and compares it with what the row
//                             program means: a line for each
// gpu-kernels FILE resources  assembles all of them for each chip: a line for each function
//
// Of kernels that would take long to execute only some rows are computed.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "lib/codegen/gpu/Compiler.h"
#include "test/unit/codegen_gpu/Reference.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using codegen::RowProgram;

/// Rows times columns times nodes that are computed of a kernel.
static constexpr int64_t kLimit = 300000;

static int fail(llvm::Error error) {
  llvm::errs() << llvm::toString(std::move(error)) << "\n";
  return EXIT_FAILURE;
}

static int execute(std::vector<RowProgram> programs, const codegen::gpu::Toolkit &toolkit) {
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
                         const codegen::gpu::Toolkit &toolkit) {
  codegen::gpu::Compiler compiler;
  std::map<std::string, unsigned> threads;
  for (const RowProgram &program : programs) {
    auto launch = compiler.add(program);
    if (!launch)
      return fail(launch.takeError());
    for (const auto &phase : launch->phases)
      threads[phase.entry] = phase.threads;
  }
  for (const codegen::gpu::Chip &chip : codegen::gpu::getChips()) {
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

int main(int argc, char **argv) {
  bool resources = argc == 3 && llvm::StringRef(argv[2]) == "resources";
  if (argc != 2 && !resources) {
    llvm::errs() << "usage: gpu-kernels FILE [resources]\n";
    return EXIT_FAILURE;
  }
  auto toolkit = codegen::gpu::findToolkit();
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
  for (auto kernel : module->getOps<exec::KernelOp>()) {
    codegen::Unsupported why;
    if (std::optional<RowProgram> program = codegen::buildRowProgram(kernel, why))
      programs.push_back(std::move(*program));
    else
      llvm::outs() << kernel.getSymName() << ": no row program\n";
  }
  return resources ? listResources(programs, *toolkit) : execute(std::move(programs), *toolkit);
}
