//===- Train.h - the train dialect -----------------------------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_TRAIN_H
#define CLEAVE_DIALECTS_TRAIN_TRAIN_H

#include "dialects/cost/CostInterface.h"
#include "dialects/sharding/ShardingRule.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir {
class PatternRewriter;
} // namespace mlir

namespace cleave::train {

/// Whether `type` is a 0-d tensor of `element`, with or without a placement.
bool isScalarTensor(mlir::Type type, mlir::Type element);

/// The state of buckets: buffers, contributions so far, reductions in flight. A bucket's value
/// stands for its state and has one user, so ops on one bucket stay in order without this; it keeps
/// those whose results are unused.
struct BucketResource : mlir::SideEffects::Resource::Base<BucketResource> {
  llvm::StringRef getName() final { return "train.bucket"; }
};

/// Whether the op has effects, all of which are on buckets.
bool affectsOnlyBuckets(mlir::Operation *op);

} // namespace cleave::train

#include "dialects/train/TrainDialect.h.inc"
#include "dialects/train/TrainEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/train/TrainAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/train/TrainInterfaces.h.inc"
#include "dialects/train/TrainTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/train/Train.h.inc"

#endif // CLEAVE_DIALECTS_TRAIN_TRAIN_H
