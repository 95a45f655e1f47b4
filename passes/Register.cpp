//===- Register.cpp - makes all passes known by name ---------------------------===//

#include "passes/Register.h"
#include "passes/autodiff/Passes.h"
#include "passes/backward/Passes.h"
#include "passes/communication/Passes.h"
#include "passes/gradients/Passes.h"
#include "passes/lowering/Passes.h"
#include "passes/pipeline/Passes.h"
#include "passes/placement/Passes.h"

#include "mlir/Transforms/Passes.h"

void cleave::registerAllPasses() {
  // The upstream passes that are useful for programs without control flow.
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerCompositeFixedPointPass();
  mlir::registerInlinerPass();
  mlir::registerLocationSnapshotPass();
  mlir::registerPrintIRPass();
  mlir::registerPrintOpStatsPass();
  mlir::registerStripDebugInfoPass();
  mlir::registerSymbolDCEPass();
  mlir::registerTopologicalSortPass();
  mlir::registerViewOpGraphPass();

  placement::registerPasses();
  autodiff::registerPasses();
  backward::registerPasses();
  gradients::registerPasses();
  communication::registerPasses();
  pipeline::registerPasses();
  lowering::registerPasses();
}
