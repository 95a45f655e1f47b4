//===- Arithmetic.cpp - sums, products, powers and elementary functions ---===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Arithmetic.cpp.inc"

void cleave::aten::addArithmeticOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Arithmetic.cpp.inc"
      >(dialect);
}
