//===- OffloadSaved.cpp - saved values in host memory -------------------------===//

#include "passes/backward/Passes.h"

#include "lib/backward/Offload.h"
#include "lib/support/Bytes.h"

#include "llvm/ADT/StringSet.h"

namespace cleave::backward {
#define GEN_PASS_DEF_OFFLOADSAVED
#include "passes/backward/Passes.h.inc"
} // namespace cleave::backward

using namespace mlir;
using namespace cleave;
using namespace cleave::backward;

namespace {
struct OffloadSaved : backward::impl::OffloadSavedBase<OffloadSaved> {
  using OffloadSavedBase::OffloadSavedBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<int64_t> least = support::parseBytes(minBytes);
    if (!least) {
      module.emitError("--offload-saved expects a number of bytes, such as min-bytes=1MiB; found '")
          << minBytes << "'";
      return signalPassFailure();
    }
    FailureOr<train::ProgramFunctions> program =
        train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program))
      return signalPassFailure();
    if (!program->isSplit()) {
      program->microbatch.emitError("--offload-saved expects forward and backward as functions of "
                                    "their own; run --partition-joint or --outline-stages before");
      return signalPassFailure();
    }
    llvm::StringSet<> left;
    for (const std::string &name : values)
      left.insert(name);
    for (const train::ProgramFunctions &part : program->getParts()) {
      auto functions = part.getMicrobatchFunctions();
      SavedValues saved(functions);
      if (failed(checkNamed(saved, left)))
        return signalPassFailure();
      saved.offload([&](const SavedValues::Saved &each) {
        bool isNamed = llvm::is_contained(values, each.name.getValue());
        bool isChosen = values.empty() ? each.bytes > 0 && each.bytes >= *least : isNamed;
        numOffloaded += isChosen;
        offloadedBytes += isChosen ? each.bytes : 0;
        return isChosen;
      });
    }
    if (left.empty())
      return;
    module.emitError("--offload-saved finds no saved value '") << left.begin()->first() << "'";
    signalPassFailure();
  }

private:
  /// Removes the names of a stage's values from those that are `left` to be found.
  LogicalResult checkNamed(const SavedValues &saved, llvm::StringSet<> &left) const {
    for (const SavedValues::Saved &each : saved.get())
      if (left.erase(each.name.getValue()) && each.bytes == 0) {
        func::FuncOp function = each.function;
        return function.emitError("--offload-saved cannot save memory with saved value ")
               << each.name << ": what it shows stays on the device anyway, or is on the host";
      }
    return success();
  }
};
} // namespace
