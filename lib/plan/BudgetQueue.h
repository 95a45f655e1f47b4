//===- BudgetQueue.h - cuts by what a budget may gain there ---------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLAN_BUDGETQUEUE_H
#define CLEAVE_LIB_PLAN_BUDGETQUEUE_H

#include "lib/plan/SearchEntry.h"

#include <queue>

namespace cleave::plan {

/// Cuts by the bounds of plans whose backwards recompute whatever serves them, the least first.
/// They recompute nothing themselves.
class Search::BudgetQueue {
public:
  explicit BudgetQueue(Search &search);

  /// Raises the least bound until all that is known is in it, or the time is over. No plan takes
  /// less than what it returns.
  double run();
  /// Raises bounds until all that is known is in those of `count` layouts with the least, which are
  /// partitioned then, or the search has taken `end` seconds.
  void open(size_t count, double end);

private:
  /// What a bound is raised by next.
  enum class Step { Stages, Schedules, Own, None };
  struct Item {
    double bound;
    Step next;
    Entry *entry;
    Shape shape;

    bool operator>(const Item &other) const { return bound > other.bound; }
  };

  /// What is no faster than the best does not count.
  void push(const Item &item);
  Item raise(Item item);

  Search &search;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> items;
};

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_BUDGETQUEUE_H
