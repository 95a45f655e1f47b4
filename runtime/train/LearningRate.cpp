//===- LearningRate.cpp - another learning rate for a program -------------===//

#include "runtime/train/LearningRate.h"
#include "dialects/train/Train.h"
#include "runtime/io/Error.h"
#include "runtime/io/Metrics.h"
#include "runtime/program/ProgramImpl.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace cleave::runtime;

/// The ops that give the program's learning rates; an error if there are none, or for a `number`
/// that gives no rate.
static llvm::Expected<llvm::SmallVector<cleave::train::LearningRateOp>>
findRates(Program &program, llvm::StringRef option, double number) {
  if (!std::isfinite(number) || number < 0)
    return makeError("{0}: expected a number that is finite and not negative, found {1}", option,
                     llvm::formatv("{0}", number).str());
  llvm::SmallVector<cleave::train::LearningRateOp> ops;
  for (const PhaseFunction &part : program.impl().phaseFunctions)
    mlir::func::FuncOp(part.function).walk([&](cleave::train::LearningRateOp op) {
      ops.push_back(op);
    });
  if (ops.empty())
    return makeError("{0}: {1}: the program has no learning rate to set", program.path(), option);
  return ops;
}

static void setBase(cleave::train::LearningRateOp op, double base) {
  op.setBaseAttr(mlir::FloatAttr::get(op.getBaseAttr().getType(), base));
}

llvm::Error cleave::runtime::setLearningRate(Program &program, double base) {
  auto ops = findRates(program, "--lr", base);
  if (!ops)
    return ops.takeError();
  std::vector<double> bases;
  for (cleave::train::LearningRateOp op : *ops)
    if (double found = op.getBase().convertToDouble(); !llvm::is_contained(bases, found))
      bases.push_back(found);
  bool isTable = llvm::any_of(*ops, [](cleave::train::LearningRateOp op) {
    return op.getSchedule().getKind() == cleave::train::ScheduleKind::Table;
  });
  if (isTable && base != 0)
    return makeError(
        "{0}: --lr: the program's learning rates are a table of the scheduler's, which "
        "one number cannot replace; use --lr-scale to scale them",
        program.path());
  if (bases.size() > 1 && base != 0)
    return makeError("{0}: --lr: the program's parameter groups have the learning rates {1}, which "
                     "one number cannot replace; use --lr-scale to scale them",
                     program.path(), llvm::join(llvm::map_range(bases, formatNumber), ", "));
  for (cleave::train::LearningRateOp op : *ops)
    setBase(op, base);
  return llvm::Error::success();
}

llvm::Error cleave::runtime::scaleLearningRates(Program &program, double factor) {
  auto ops = findRates(program, "--lr-scale", factor);
  if (!ops)
    return ops.takeError();
  for (cleave::train::LearningRateOp op : *ops)
    setBase(op, op.getBase().convertToDouble() * factor);
  return llvm::Error::success();
}
