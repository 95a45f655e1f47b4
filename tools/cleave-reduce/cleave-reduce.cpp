//===- cleave-reduce.cpp - shrinks a program that shows a problem ------------===//
//
// Given a script that exits with 1 while a program is still interesting, `--reduce-program` finds
// a smaller one that is. Upstream's `--opt-reduction-pass`, which keeps what a pass does while
// the program stays interesting, is there too. See `docs/tools.md`.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "lib/autodiff/Register.h"
#include "lib/support/Buffer.h"
#include "lib/support/Input.h"
#include "passes/Register.h"
#include "tools/cleave-reduce/ReduceProgram.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Reducer/Passes.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

using namespace cleave;
namespace cl = llvm::cl;

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "cleave-reduce") << message << "\n";
  return EXIT_FAILURE;
}

int main(int argc, char **argv) {
  llvm::InitLLVM initialize(argc, argv);
  mlir::DialectRegistry registry;
  registerDialects(registry);
  autodiff::registerAllModels(registry);
  registerAllPasses();
  if (llvm::Error error = autodiff::checkModels(registry))
    return fail(llvm::toString(std::move(error)));
  registerCleaveReducePasses();
  mlir::registerOptReductionPass();

  static cl::opt<std::string> inputName(cl::Positional, cl::desc("<input file>"), cl::init("-"));
  static cl::opt<std::string> outputName("o",
                                         cl::desc("Output file of the reduced program, as text"),
                                         cl::value_desc("file"), cl::init("-"));
  mlir::PassPipelineCLParser passes("", "Reduction passes to run");
  cl::ParseCommandLineOptions(argc, argv,
                              "cleave-reduce: reduce a program that reproduces a problem\n");

  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> input = mlir::openInputFile(inputName, &message);
  if (!input)
    return fail(message);
  if (llvm::Error error = support::checkInput(input->getBuffer(), inputName))
    return fail(llvm::toString(std::move(error)));
  std::unique_ptr<llvm::ToolOutputFile> output = mlir::openOutputFile(outputName, &message);
  if (!output)
    return fail(message);

  mlir::MLIRContext context(registry);
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(support::align(std::move(input)), llvm::SMLoc());
  mlir::SourceMgrDiagnosticHandler diagnostics(*sources, &context);
  auto program = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  if (!program)
    return EXIT_FAILURE;
  mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
  auto report = [](const llvm::Twine &problem) {
    fail(problem);
    return mlir::failure();
  };
  if (failed(passes.addToPipeline(manager, report)) || failed(manager.run(*program)))
    return EXIT_FAILURE;
  program->print(output->os());
  output->keep();
  return EXIT_SUCCESS;
}
