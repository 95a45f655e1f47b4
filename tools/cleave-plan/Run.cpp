// Passes that run on a program in memory.
#include "tools/cleave-plan/Run.h"

#include "lib/support/Error.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

Diagnostics::Diagnostics(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (message.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
          message = diagnostic.str();
        return success();
      }) {}

llvm::Error Diagnostics::makeError(StringRef otherwise) const {
  return cleave::makeError("{0}", message.empty() ? otherwise : StringRef(message));
}

llvm::Error plan::runPasses(ModuleOp module, ArrayRef<PassCall> passes) {
  // As cleave-opt does, which runs passes of functions on each of them.
  PassManager manager(module.getContext(), ModuleOp::getOperationName(),
                      OpPassManager::Nesting::Implicit);
  std::string problem, pipeline = makePipeline(passes);
  llvm::raw_string_ostream os(problem);
  if (failed(parsePassPipeline(pipeline, manager, os)))
    return makeError("{0}: {1}", pipeline, problem);
  // Once, after the last pass: a search runs many.
  manager.enableVerifier(false);
  Diagnostics diagnostics(module.getContext());
  if (failed(manager.run(module)) || failed(verify(module)))
    return diagnostics.makeError("a pass failed");
  return llvm::Error::success();
}
