//===- LearningRate.cpp - another learning rate for a program -------------===//

#include "runtime/train/LearningRate.h"
#include "dialects/train/Train.h"
#include "runtime/io/Error.h"
#include "runtime/program/ProgramImpl.h"
#include <cmath>

using namespace cleave::runtime;

llvm::Error cleave::runtime::setLearningRate(Program &program, double base) {
  if (!std::isfinite(base) || base < 0)
    return makeError("expected a learning rate that is finite and not negative, found {0}", base);
  llvm::SmallVector<train::LearningRateOp> ops;
  for (const PhaseFunction &part : program.impl().phaseFunctions)
    mlir::func::FuncOp(part.function).walk([&](train::LearningRateOp op) { ops.push_back(op); });
  if (ops.empty())
    return makeError("{0}: the program has no learning rate to set", program.path());
  for (train::LearningRateOp op : ops)
    if (op.getBaseAttr() != ops.front().getBaseAttr())
      return makeError(
          "{0}: the program has several learning rates ({1} and {2} among them), which one "
          "number cannot replace: export it with the rates wanted",
          program.path(), ops.front().getBase().convertToDouble(), op.getBase().convertToDouble());
  for (train::LearningRateOp op : ops)
    op.setBaseAttr(mlir::FloatAttr::get(op.getBaseAttr().getType(), base));
  return llvm::Error::success();
}
