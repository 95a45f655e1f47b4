//===- CheckSpmdTypes.cpp - refuse a program whose placements are wrong ------===//

#include "lib/typing/Check.h"
#include "passes/placement/Passes.h"

using namespace cleave;

namespace cleave::placement {
#define GEN_PASS_DEF_CHECKSPMDTYPES
#include "passes/placement/Passes.h.inc"
} // namespace cleave::placement

namespace {

struct CheckSpmdTypes : placement::impl::CheckSpmdTypesBase<CheckSpmdTypes> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(placement::checkSpmdTypes(getOperation())))
      signalPassFailure();
  }
};

} // namespace
