//===- VerifyExec.cpp - verify lowered functions ------------------------------===//

#include "lib/memory/verify/Verify.h"
#include "passes/lowering/Passes.h"

namespace cleave::lowering {
#define GEN_PASS_DEF_VERIFYEXEC
#include "passes/lowering/Passes.h.inc"
} // namespace cleave::lowering

using namespace mlir;
using namespace cleave;

namespace {
class VerifyExec : public lowering::impl::VerifyExecBase<VerifyExec> {
public:
  void runOnOperation() override {
    if (failed(exec::verifyLowered(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
