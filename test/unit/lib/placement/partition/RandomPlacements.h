//===- RandomPlacements.h - random strategies for a program ---------*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_LIB_PLACEMENT_PARTITION_RANDOMPLACEMENTS_H
#define CLEAVE_TEST_UNIT_LIB_PLACEMENT_PARTITION_RANDOMPLACEMENTS_H

#include "mlir/IR/BuiltinOps.h"
#include <random>

namespace cleave::test {

/// Places every function of the module completely: arguments and results at random, each op by a
/// strategy drawn for each axis among those that go together and whose operands can be had.
void placeAtRandom(mlir::ModuleOp module, std::mt19937 &random);

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_LIB_PLACEMENT_PARTITION_RANDOMPLACEMENTS_H
