//===- cleave-opt.cpp - runs passes over programs ----------------------------===//
//
// Follows mlir-opt's conventions: pipelines, plugins, bytecode, timing, reproducers. Beyond them,
// bytecode carries a digest, a file NAME.mlirbc is bytecode, and the output file is written as a
// whole or not at all.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "dialects/dist/Transitions.h"
#include "lib/autodiff/Register.h"
#include "lib/support/Buffer.h"
#include "lib/support/Digest.h"
#include "lib/support/Input.h"
#include "passes/Register.h"
#include "tools/cleave-opt/CheckArguments.h"
#include "tools/cleave-opt/CommandLine.h"
#include "tools/cleave-opt/PhaseChecks.h"
#include "tools/cleave-opt/Signatures.h"

#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

using namespace cleave;

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "cleave-opt") << message << "\n";
  return EXIT_FAILURE;
}

int main(int argc, char **argv) {
  llvm::InitLLVM initialize(argc, argv);
  // For tests and generated pages: the table of docs/types.md as it is in the program.
  if (argc == 2 && llvm::StringRef(argv[1]) == "--dump-transitions") {
    dist::printTransitionsAsJson(llvm::outs());
    return EXIT_SUCCESS;
  }
  mlir::DialectRegistry registry;
  registerDialects(registry);
  autodiff::registerAllModels(registry);
  registerAllPasses();
  if (llvm::Error error = autodiff::checkModels(registry))
    return fail(llvm::toString(std::move(error)));
  llvm::SmallVector<char *> arguments(argv, argv + argc);
  if (llvm::Error error = loadPassPlugins(arguments))
    return fail(llvm::toString(std::move(error)));
  quietDiagnostics(arguments);
  if (wantsHelp(arguments)) {
    printHelp(registry);
    return EXIT_SUCCESS;
  }
  std::string header =
      mlir::registerCLIOptions("cleave-opt: run passes on training programs", registry);
  if (llvm::Error error = checkArguments(arguments))
    return fail(llvm::toString(std::move(error)));
  auto [inputName, outputName] = mlir::parseCLIOptions(arguments.size(), arguments.data(), header);
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (llvm::StringRef(outputName).ends_with(".mlirbc"))
    config.emitBytecode(true);
  Failures failures;
  addPhaseChecks(config, failures);
  if (config.shouldShowDialects()) {
    llvm::outs() << "Available dialects: ";
    llvm::interleave(registry.getDialectNames(), llvm::outs(), ",");
    llvm::outs() << "\n";
    return EXIT_SUCCESS;
  }

  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> input = mlir::openInputFile(inputName, &message);
  if (!input)
    return fail(message);
  if (llvm::Error error = support::checkInput(input->getBuffer(), inputName))
    return fail(llvm::toString(std::move(error)));

  std::string result;
  llvm::raw_string_ostream stream(result);
  if (failed(mlir::MlirOptMain(stream, support::align(std::move(input)), registry, config))) {
    failures.report(llvm::errs());
    return EXIT_FAILURE;
  }

  std::unique_ptr<llvm::ToolOutputFile> output = mlir::openOutputFile(outputName, &message);
  if (!output)
    return fail(message);
  output->os() << (support::isBytecode(result) ? support::addDigest(result)
                                               : breakSignatures(result));
  output->os().flush();
  if (output->os().has_error()) {
    message = output->os().error().message();
    output->os().clear_error();
    return fail("cannot write '" + outputName + "': " + message);
  }
  output->keep();
  return EXIT_SUCCESS;
}
