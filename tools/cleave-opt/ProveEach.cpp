//===- ProveEach.cpp - that each pass preserved the step --------------------===//
//
// The program before a pass is kept, and what the pass left is compared with it. So each pass is
// proved on the program at hand, and what is shown of all of them is shown of the pipeline.
//
//===----------------------------------------------------------------------===//

#include "tools/cleave-opt/ProveEach.h"
#include "lib/prove/Prove.h"
#include "tools/cleave-opt/CommandLine.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using prove::Finding;

enum class ProveEachMode : uint8_t { Off, Remark, Strict };
static llvm::cl::opt<ProveEachMode> proveEach(
    "prove-each", llvm::cl::cat(ownOptions), llvm::cl::ValueOptional,
    llvm::cl::init(ProveEachMode::Off),
    llvm::cl::desc(
        "Prove after each pass that the program is the step that it was (docs/proof.md)"),
    llvm::cl::values(clEnumValN(ProveEachMode::Remark, "", "What is unknown is a remark"),
                     clEnumValN(ProveEachMode::Strict, "strict", "What is unknown is an error")));

/// A pass whose proof takes longer is unknown.
static constexpr std::chrono::seconds kLimit(60);

static bool isLowered(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        return op->getName().getDialectNamespace() == "exec" ? WalkResult::interrupt()
                                                             : WalkResult::advance();
      })
      .wasInterrupted();
}

/// "gradient h.0.weight of 'microbatch': a rank's term ... ('aten.mm')"
static std::string describe(const Finding &finding) {
  std::string text = StringRef(finding.result).trim().str();
  if (!finding.function.empty())
    text += " of '" + finding.function + "'";
  text += ": " + finding.relation;
  if (finding.op)
    text +=
        " (first op without a counterpart: '" + finding.op->getName().getStringRef().str() + "')";
  if (!finding.reason.empty())
    text += "; " + finding.reason;
  return text;
}

namespace {
/// Passes over functions run side by side: what they leave is compared when all of them are done,
/// which is when the pass that nests them is.
struct ProveStep : PassInstrumentation {
  explicit ProveStep(Failures &failures) : failures(failures) {}

  void runBeforePass(Pass *, Operation *op) override {
    if (auto module = dyn_cast<ModuleOp>(op); module && !before)
      before = module.clone();
  }

  void runAfterPass(Pass *pass, Operation *op) override {
    // What nests other passes has no name.
    if (StringRef name = pass->getArgument(); !name.empty())
      last = name;
    auto module = dyn_cast<ModuleOp>(op);
    if (!module || !before)
      return;
    // Most passes of a pipeline change nothing in most programs.
    if (OperationEquivalence::isEquivalentTo(*before, module,
                                             OperationEquivalence::IgnoreLocations))
      return;
    auto start = std::chrono::steady_clock::now();
    bool isWrong = !compare(module, start);
    before = module.clone();
    if (!isWrong)
      return;
    failures.addFailedCheck(last, "proof");
    signalPassFailure(pass);
  }

private:
  Failures &failures;
  OwningOpRef<ModuleOp> before;
  StringRef last;

  bool unknown(ModuleOp module, const Twine &reason) {
    bool isError = proveEach == ProveEachMode::Strict;
    InFlightDiagnostic message = isError ? module.emitError() : module.emitRemark();
    message << "--" << last << " is not proved to preserve the step: " << reason;
    return !isError;
  }

  /// Whether passes may go on.
  bool compare(ModuleOp module, std::chrono::steady_clock::time_point start) {
    if (isLowered(module))
      return unknown(module, "programs of the exec dialect are checked by --verify-exec");
    FailureOr<prove::Proof> proof = failure();
    {
      // Modules without functions of a step have nothing to preserve; why is not of interest.
      ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
      proof = prove::provePreserved(*before, module, {start + kLimit, std::nullopt});
    }
    if (failed(proof))
      return unknown(module, "it is not a training program");
    if (!proof->outOfScope.empty())
      return unknown(module, proof->outOfScope);
    if (proof->isLate)
      return unknown(module, "the time limit was reached");
    for (const Finding &finding : proof->findings)
      if (finding.differs) {
        module.emitError() << "--" << last << " changes the step: " << describe(finding);
        return false;
      }
    auto isOld = [](const Finding &finding) { return !finding.isNew; };
    size_t numNew = proof->findings.size() - llvm::count_if(proof->findings, isOld);
    size_t numCompared = proof->numResults - numNew;
    if (auto open = llvm::find_if(proof->findings, isOld); open != proof->findings.end())
      return unknown(module,
                     llvm::formatv("{0} of {1} results, such as {2}",
                                   proof->findings.size() - numNew, numCompared, describe(*open))
                         .str());
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    InFlightDiagnostic remark = module.emitRemark()
                                << "--" << last
                                << " is proved to preserve the step: " << int64_t(numCompared)
                                << " results";
    if (numNew)
      remark << ", beside " << int64_t(numNew) << " new ones";
    remark << llvm::formatv(" ({0:f2} s)", seconds.count()).str();
    return true;
  }
};
} // namespace

void cleave::addProofs(PassManager &manager, Failures &failures) {
  if (proveEach != ProveEachMode::Off)
    manager.addInstrumentation(std::make_unique<ProveStep>(failures));
}
