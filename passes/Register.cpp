//===- Register.cpp - makes all passes known by name ---------------------------===//

#include "passes/Register.h"
#include "passes/gradients/Passes.h"

#include "mlir/Transforms/Passes.h"

void cleave::registerAllPasses() {
  mlir::registerTransformsPasses();
  gradients::registerPasses();
}
