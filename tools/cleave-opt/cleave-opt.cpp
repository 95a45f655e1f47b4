//===- cleave-opt.cpp - runs passes over programs ----------------------------===//
//
// Follows mlir-opt's conventions: pipelines, plugins, bytecode, timing, reproducers.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "passes/Register.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  cleave::registerDialects(registry);
  cleave::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Cleave: passes over training programs\n", registry));
}
