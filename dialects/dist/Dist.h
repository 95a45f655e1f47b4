//===- Dist.h - the dist dialect -------------------------------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DIST_H
#define CLEAVE_DIALECTS_DIST_DIST_H

#include "dialects/dist/Placement.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include "dialects/dist/DistDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/dist/DistTypes.h.inc"
// Its methods' bodies use the types above.
#include "dialects/dist/DistInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/dist/Dist.h.inc"

#endif // CLEAVE_DIALECTS_DIST_DIST_H
