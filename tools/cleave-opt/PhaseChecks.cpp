//===- PhaseChecks.cpp - type checks between passes --------------------------===//

#include "tools/cleave-opt/PhaseChecks.h"
#include "lib/memory/verify/Verify.h"
#include "lib/typing/Check.h"
#include "tools/cleave-opt/CommandLine.h"
#include "tools/cleave-opt/ProveEach.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace cleave;

static llvm::cl::opt<bool> verifyTypes(
    "verify-types", llvm::cl::cat(ownOptions),
    llvm::cl::desc("Check placements after each of Cleave's passes (--check-spmd-types)"),
    llvm::cl::init(true));

namespace {
/// Checks the module after each pass over it. Passes over functions run side by side, so that what
/// they leave is checked when all of them are done: when the pass that nests them is.
struct CheckPhases : PassInstrumentation {
  explicit CheckPhases(Failures &failures) : failures(failures) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    // What nests other passes has no name.
    if (StringRef name = pass->getArgument(); !name.empty())
      last = name;
    isTyped |= isCleavePass(last) && last != "check-spmd-types";
    auto module = dyn_cast<ModuleOp>(op);
    if (!module)
      return;
    bool isWrong = (isTyped && failed(placement::checkSpmdTypes(module))) ||
                   // Whatever changes a function that is lowered breaks its plan: upstream's
                   // passes too.
                   (last != "verify-exec" && failed(exec::verifyLowered(module)));
    isTyped = false;
    if (!isWrong)
      return;
    failures.addFailedCheck(last);
    signalPassFailure(pass);
  }

private:
  Failures &failures;
  /// The pass that ran last, and whether there was one of Cleave's since the last check.
  StringRef last;
  bool isTyped = false;
};
} // namespace

void cleave::addPhaseChecks(MlirOptMainConfig &config, Failures &failures) {
  config.setPassPipelineSetupFn([asked = config, &failures](PassManager &pm) -> LogicalResult {
    // Tests expect each error, wherever it is.
    if (!asked.shouldVerifyDiagnostics())
      failures.watch(pm);
    if (verifyTypes)
      pm.addInstrumentation(std::make_unique<CheckPhases>(failures));
    // Types first: what they refuse needs no proof.
    addProofs(pm, failures);
    return asked.setupPassPipeline(pm);
  });
}
