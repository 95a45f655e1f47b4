//===- PhaseChecks.cpp - type checks between passes --------------------------===//
//
// A pass cannot be put into a pipeline that is built, and an instrumentation cannot fail. So the
// pipeline that the command line asks for is built aside, and built again pass by pass from its
// text, with the checks in between.
//
//===----------------------------------------------------------------------===//

#include "tools/cleave-opt/PhaseChecks.h"
#include "passes/lowering/Passes.h"
#include "passes/placement/Passes.h"
#include "tools/cleave-opt/CommandLine.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace cleave;

static llvm::cl::opt<bool> verifyTypes(
    "verify-types", llvm::cl::cat(ownOptions),
    llvm::cl::desc("Check placements after each of Cleave's passes (--check-spmd-types)"),
    llvm::cl::init(true));

/// Whether a pass of Cleave's is in the pipeline text: the pass itself, or one nested in it, as in
/// `func.func(overlap-communication)`.
static bool hasCleavePass(StringRef text) {
  SmallVector<StringRef> outer, names;
  text.split(outer, '(');
  for (StringRef part : outer)
    part.split(names, ',');
  return llvm::any_of(names, [](StringRef name) {
    name = name.take_until([](char c) { return c == '{' || c == ')'; });
    return name != "check-spmd-types" && isCleavePass(name);
  });
}

static LogicalResult addChecked(OpPassManager &asked, PassManager &pm, Failures &failures) {
  for (Pass &pass : asked) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    pass.printAsTextualPipeline(stream);
    if (failed(parsePassPipeline(text, pm)))
      return failure();
    auto addCheck = [&](std::unique_ptr<Pass> check) {
      failures.addCheck(check.get(), StringRef(text).split('{').first);
      pm.addPass(std::move(check));
    };
    if (hasCleavePass(text))
      addCheck(placement::createCheckSpmdTypes());
    // Whatever changes a function that is lowered breaks its plan: upstream's passes too.
    if (!StringRef(text).contains("verify-exec"))
      addCheck(lowering::createVerifyExec());
  }
  return success();
}

void cleave::addPhaseChecks(MlirOptMainConfig &config, Failures &failures) {
  if (config.shouldDumpPassPipeline())
    return;
  config.setPassPipelineSetupFn([asked = config, &failures](PassManager &pm) -> LogicalResult {
    // Tests expect each error, wherever it is.
    if (!asked.shouldVerifyDiagnostics())
      failures.watch(pm);
    if (!verifyTypes)
      return asked.setupPassPipeline(pm);
    PassManager aside(pm.getContext(), pm.getOpAnchorName(), pm.getNesting());
    return success(succeeded(asked.setupPassPipeline(aside)) &&
                   succeeded(addChecked(aside, pm, failures)));
  });
}
