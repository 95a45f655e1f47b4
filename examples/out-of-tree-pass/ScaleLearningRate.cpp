//===- ScaleLearningRate.cpp - your own pass --------------------------------===//
//
// `--scale-learning-rate="parameter=PREFIX factor=F"` multiplies the learning rate of every
// parameter whose name starts with PREFIX, as one does to train a pre-trained body slowly and a
// new head fast. Loaded into cleave-opt with --load-pass-plugin.
//
//===----------------------------------------------------------------------===//

#include "dialects/train/Program.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;
using namespace cleave;

namespace {
struct ScaleLearningRate : PassWrapper<ScaleLearningRate, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ScaleLearningRate)
  ScaleLearningRate() = default;
  ScaleLearningRate(const ScaleLearningRate &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "scale-learning-rate"; }
  StringRef getDescription() const override {
    return "multiply the learning rate of some parameters";
  }

  Option<std::string> parameter{*this, "parameter",
                                llvm::cl::desc("What the parameters' names start with")};
  Option<double> factor{*this, "factor", llvm::cl::desc("The factor"), llvm::cl::init(1.0)};

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<train::ProgramFunctions> program = train::getProgram(module);
    if (failed(program))
      return signalPassFailure();
    if (!program->update) {
      module.emitError() << "has no update function, so it has no learning rate";
      return signalPassFailure();
    }
    unsigned scaled = 0;
    program->update.walk([&](Operation *op) {
      if (auto adamw = dyn_cast<train::AdamWOp>(op))
        scaled += scale(adamw);
      else if (auto sgd = dyn_cast<train::SGDOp>(op))
        scaled += scale(sgd);
    });
    if (scaled == 0) {
      program->update.emitError() << "updates no parameter whose name starts with '" << parameter
                                  << "'";
      signalPassFailure();
    }
  }

private:
  /// Roles name the parameter; its position among the arguments means nothing.
  template <typename Step> bool scale(Step step) {
    auto argument = dyn_cast<BlockArgument>(step.getParameter());
    if (!argument)
      return false;
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    if (!role.getNameOrEmpty().starts_with(parameter))
      return false;
    double before = step.getLrScale() ? step.getLrScale()->convertToDouble() : 1.0;
    step.setLrScaleAttr(Builder(&getContext()).getF64FloatAttr(before * factor));
    return true;
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "ScaleLearningRate", "0.1",
          [] { PassRegistration<ScaleLearningRate>(); }};
}
