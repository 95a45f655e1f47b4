// Weight gradients into the gaps of an order of forwards and input gradients.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_WEIGHTFILL_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_WEIGHTFILL_H

#include "lib/schedule/search/Pipeline.h"

namespace cleave::schedule::search {

/// Keeps the order of forwards and input gradients of `order` and places the weight gradients
/// again: one runs where the next other pass is more than `threshold` of its own time away, or
/// where that pass finds no memory; what is left comes at the end. Nullopt if the memory does not
/// do.
std::optional<PassOrder> refillWeights(const Pipeline &pipeline, const PassOrder &order,
                                       double threshold);

/// One chunk: rank r starts with 1 + `slope` (ranks - 1 - r) forwards (as many as fit), then takes
/// input gradients and forwards in turn. Weight gradients are not placed: see refillWeights.
PassOrder alternating(const Pipeline &pipeline, double slope);

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_WEIGHTFILL_H
