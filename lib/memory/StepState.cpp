//===- StepState.cpp - what a step has from beginning to end ------------------===//

#include "lib/memory/StepState.h"

#include "lib/memory/MemoryPlan.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::memory;
using train::RoleKind;

void StepState::add(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    if (!role)
      continue;
    bool isBucket = isa<train::BucketType>(argument.getType());
    int64_t *bytes = nullptr;
    switch (role.getKind()) {
    case RoleKind::Parameter:
      bytes = &parameterBytes;
      break;
    case RoleKind::Buffer:
    case RoleKind::Constant:
      bytes = &bufferBytes;
      break;
    case RoleKind::OptimizerState:
      bytes = &optimizerStateBytes;
      break;
    case RoleKind::Input:
    case RoleKind::Target:
      bytes = &inputBytes;
      break;
    case RoleKind::Accumulator:
      bytes = isBucket ? &bucketBytes : &gradientBytes;
      break;
    default:
      continue;
    }
    if (seen.insert(role.getFileName()).second)
      *bytes +=
          isBucket ? getBucketBytes(function, argument.getType()) : getByteSize(argument.getType());
  }
}

void StepState::describe(InFlightDiagnostic &diagnostic) const {
  auto list = [&](int64_t bytes, StringRef what) {
    if (bytes > 0)
      diagnostic << describeBytes(bytes) << " are " << what << ", ";
  };
  list(parameterBytes, "parameters");
  list(bufferBytes, "buffers and constants");
  list(optimizerStateBytes, "optimizer state");
  list(inputBytes, "inputs");
  list(bucketBytes, "buckets of gradients");
}

int64_t cleave::memory::getBucketBytes(func::FuncOp function, Type type) {
  auto bucket = dyn_cast<train::BucketType>(type);
  if (!bucket)
    return 0;
  int64_t bytes = getByteSize(bucket.getFlat());
  auto op = SymbolTable::lookupNearestSymbolFrom<train::BucketOp>(function, bucket.getSymbol());
  return op && op.getScatter() ? bytes + bytes / op.countParts() : bytes;
}
