//===- OpsImpl.h - included by each category's .cpp --------------*- C++ -*-===//
//
// Registration is next to the ops, so that no file includes all categories.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_OPSIMPL_H
#define CLEAVE_DIALECTS_ATEN_OPS_OPSIMPL_H

#include "dialects/aten/Aten.h"
#include "dialects/aten/Sharding.h"
#include "dialects/aten/ops/Categories.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

namespace cleave::aten {

/// Registers the op classes of a category with the dialect.
template <typename... Ops> void addOps(AtenDialect *dialect) {
  (mlir::RegisteredOperationName::insert<Ops>(*dialect), ...);
}

} // namespace cleave::aten

#endif // CLEAVE_DIALECTS_ATEN_OPS_OPSIMPL_H
