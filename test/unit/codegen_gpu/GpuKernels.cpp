//===- GpuKernels.cpp - checks the GPU code of a program's kernels -------------------------===//
//
// gpu-kernels FILE [ROWS*COLUMNS*NODES]: compiles each kernel of the program that has a row program
// for GPUs, executes it in the interpreter, and compares it with what the row program means. Of
// kernels that would take longer than the limit only some rows are computed. Prints a line for
// each.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "lib/codegen/gpu/Toolkit.h"
#include "test/unit/codegen_gpu/Reference.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace cleave;

int main(int argc, char **argv) {
  if (argc < 2) {
    llvm::errs() << "usage: gpu-kernels FILE [LIMIT]\n";
    return EXIT_FAILURE;
  }
  int64_t limit = argc > 2 ? std::atoll(argv[2]) : 300000;
  auto toolkit = codegen::gpu::findToolkit();
  if (!toolkit) {
    llvm::errs() << llvm::toString(toolkit.takeError()) << "\n";
    return EXIT_FAILURE;
  }
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  if (!module)
    return EXIT_FAILURE;
  bool failed = false;
  for (auto kernel : module->getOps<exec::KernelOp>()) {
    codegen::Unsupported why;
    std::optional<codegen::RowProgram> program = codegen::buildRowProgram(kernel, why);
    if (!program) {
      llvm::outs() << kernel.getSymName() << ": no row program\n";
      continue;
    }
    int64_t perRow = program->columns * int64_t(program->nodes.size());
    for (int64_t &size : program->rowShape) {
      int64_t others = program->rows() / size;
      size = std::clamp<int64_t>(limit / (perRow * others), std::min<int64_t>(size, 3), size);
    }
    gputest::CheckOptions options;
    options.libdevice = toolkit->libdevice;
    std::string wrong = gputest::checkProgram(*program, options);
    llvm::outs() << kernel.getSymName() << ": " << program->rows() << " x " << program->columns
                 << (wrong.empty() ? ": equal" : ": " + wrong) << "\n";
    failed |= !wrong.empty();
  }
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
