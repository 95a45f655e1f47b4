//===- OpCost.cpp - how long an op takes, from its shapes ---------------------===//

#include "lib/aten/OpCost.h"
#include "dialects/cost/CostInterface.h"
#include "lib/memory/MemoryPlan.h"

using namespace mlir;

static constexpr double kFlopsPerByte = 32;

int64_t cleave::aten::countFlops(Operation *op) {
  auto cost = dyn_cast<cost::CostOpInterface>(op);
  return cost ? cost.countFlops() : 0;
}

int64_t cleave::aten::countBytes(Operation *op) {
  // Views, and conversions between placements that move nothing.
  if (op->getNumResults() && memory::getViewSource(op->getResult(0)))
    return 0;
  int64_t results = 0, operands = 0;
  for (Type type : op->getResultTypes())
    results += memory::getByteSize(type);
  for (Type type : op->getOperandTypes())
    operands += memory::getByteSize(type);
  auto cost = dyn_cast<cost::CostOpInterface>(op);
  if (Value table = cost ? cost.getTable() : Value())
    operands += results - memory::getByteSize(table.getType());
  return operands + results;
}

double cleave::aten::estimateCost(Operation *op) {
  return static_cast<double>(countBytes(op)) + static_cast<double>(countFlops(op)) / kFlopsPerByte;
}
