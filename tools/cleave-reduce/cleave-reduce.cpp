//===- cleave-reduce.cpp - shrinks a program that shows a problem ------------===//
//
// Given a script that exits with 1 while a program is still interesting, `--reduce-program` finds
// a smaller one that is. Upstream's `--opt-reduction-pass`, which keeps what a pass does while
// the program stays interesting, is there too. See `docs/tools.md`.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "lib/autodiff/Register.h"
#include "passes/Register.h"
#include "tools/cleave-reduce/ReduceProgram.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Reducer/Passes.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "llvm/Support/WithColor.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  cleave::registerDialects(registry);
  cleave::autodiff::registerAllModels(registry);
  cleave::registerAllPasses();
  if (llvm::Error error = cleave::autodiff::checkModels(registry)) {
    llvm::WithColor::error(llvm::errs(), "cleave-reduce")
        << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  cleave::registerReduceProgramPass();
  mlir::registerOptReductionPass();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
