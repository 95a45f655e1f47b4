//===- cleave-lsp-server.cpp - programs in an editor -------------------------===//
//
// The language server of MLIR for Cleave's dialects: diagnostics as one types, hover, definitions
// and uses, and files of bytecode shown as text. Editors start it; see `docs/tools.md`.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  cleave::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
