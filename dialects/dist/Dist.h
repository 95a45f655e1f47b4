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

namespace cleave::dist {

/// Messages between single ranks and barriers, whose order matters to other ranks. Collectives are
/// pure: every rank runs the same ones in the same order, so a pass that drops or merges one does
/// so on all ranks.
struct ChannelResource : mlir::SideEffects::Resource::Base<ChannelResource> {
  llvm::StringRef getName() final { return "dist.channel"; }
};

} // namespace cleave::dist

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
