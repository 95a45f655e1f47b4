//===- Orders.h - which of several axes is the major one ------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_ORDERS_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_ORDERS_H

#include "lib/placement/propagate/Propagate.h"

namespace cleave::placement::propagate {

/// Fills `made` and `taken`. Where several axes shard one dimension, annotations say which is the
/// major one. Otherwise: of a parameter, data axes come last, so that it is gathered along them
/// while the other axes still shard it; of other arguments, the mesh's order counts; an op follows
/// what it takes, or else what takes its results.
void assignOrders(Propagation &propagation);

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_ORDERS_H
