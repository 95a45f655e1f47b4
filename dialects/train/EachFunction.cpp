//===- EachFunction.cpp - checking functions side by side ----------------------===//

#include "dialects/train/EachFunction.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Threading.h"

#include <atomic>

using namespace mlir;

LogicalResult cleave::train::checkEach(ArrayRef<func::FuncOp> functions,
                                       function_ref<LogicalResult(func::FuncOp)> check) {
  if (functions.empty())
    return success();
  MLIRContext *context = functions.front()->getContext();
  std::atomic<bool> isRight = true;
  ParallelDiagnosticHandler diagnostics(context);
  parallelFor(context, 0, functions.size(), [&](size_t i) {
    diagnostics.setOrderIDForThread(i);
    if (failed(check(functions[i])))
      isRight = false;
    diagnostics.eraseOrderIDForThread();
  });
  return success(isRight);
}
