// Starting orders, and orders for more microbatches from orders for few.
#include "lib/schedule/search/Seeds.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace cleave::schedule::search;

PassOrder cleave::schedule::search::oneAtATime(const Pipeline &pipeline) {
  PassOrder order;
  unsigned chunks = order.chunks = pipeline.chunks;
  std::vector<uint8_t> round;
  for (unsigned chunk = 0; chunk < chunks; ++chunk)
    round.push_back(static_cast<uint8_t>(ForwardPass * chunks + chunk));
  for (unsigned chunk = chunks; chunk-- > 0;) {
    round.push_back(static_cast<uint8_t>(InputPass * chunks + chunk));
    round.push_back(static_cast<uint8_t>(WeightPass * chunks + chunk));
  }
  std::vector<uint8_t> list;
  for (unsigned microbatch = 0; microbatch < pipeline.microbatches; ++microbatch)
    list.insert(list.end(), round.begin(), round.end());
  order.ranks.assign(pipeline.ranks, list);
  return order;
}

PassOrder cleave::schedule::search::swapLastGradients(const PassOrder &zbv, unsigned count) {
  constexpr unsigned chunks = 2;
  PassOrder result = zbv;
  for (unsigned rank = 1; rank <= count && rank < result.ranks.size(); ++rank) {
    std::vector<uint8_t> &list = result.ranks[rank];
    size_t at = list.size();
    while (at > 0 && list[at - 1] / chunks != ForwardPass)
      --at;
    while (at < list.size() && list[at] != InputPass * chunks)
      ++at;
    for (; at + 1 < list.size() && list[at] == InputPass * chunks &&
           list[at + 1] == InputPass * chunks + 1;
         at += 2)
      std::swap(list[at], list[at + 1]);
  }
  return result;
}

Urgency cleave::schedule::search::drawBlock(const Pipeline &pipeline, Random &random) {
  const double period = periodOf(pipeline);
  // The first and the last stage have nothing to send.
  double forward = 0, input = 0;
  for (unsigned stage = 0; stage < pipeline.stages(); ++stage) {
    forward = std::max(forward, pipeline.cost[ForwardPass][stage] + pipeline.sendForward[stage]);
    input = std::max(input, pipeline.cost[InputPass][stage] + pipeline.sendBackward[stage]);
  }
  // V-Half goes from rank to rank and back in half of the period, at speeds of two to one.
  constexpr double parts[] = {0.5, 0.5, 0.5, 1.0 / 3, 2.0 / 3, 1};
  const double fastest = std::max(forward, input);
  const double both = std::max(parts[random.below(std::size(parts))] * period, 2 * fastest);
  const double first = fastest + random.uniform() * (both - 2 * fastest), second = both - first;
  Urgency block;
  block.forwardSlack = {first / forward, second / forward};
  block.inputSlack = {second / input, first / input};
  for (double *turn : {&block.forwardTurn, &block.lossTurn, &block.backwardTurn})
    *turn = random.uniform(0, 0.7);
  for (std::vector<double> *delays : {&block.weightDelayFirst, &block.weightDelayLast})
    for (unsigned chunk = 0; chunk < 2; ++chunk)
      delays->push_back(random.uniform());
  return block;
}

/// The positions of a round that starts with forward `index` of chunk 0; empty if the passes up to
/// the next such forward are not one of each.
static llvm::ArrayRef<uint8_t> roundAt(const std::vector<uint8_t> &list,
                                       llvm::ArrayRef<unsigned> forwards, unsigned index,
                                       unsigned types) {
  if (index + 1 >= forwards.size() || forwards[index + 1] - forwards[index] != types)
    return {};
  auto round = llvm::ArrayRef(list).slice(forwards[index], types);
  std::vector<bool> seen(types, false);
  for (uint8_t type : round) {
    if (seen[type])
      return {};
    seen[type] = true;
  }
  return round;
}

std::optional<PassOrder> cleave::schedule::search::stretch(const Pipeline &pipeline,
                                                           const PassOrder &order,
                                                           unsigned microbatches, unsigned back) {
  PassOrder result = order;
  unsigned more = microbatches - pipeline.microbatches, types = 3 * order.chunks;
  for (std::vector<uint8_t> &list : result.ranks) {
    std::vector<unsigned> forwards;
    for (unsigned at = 0; at < list.size(); ++at)
      if (list[at] == ForwardPass)
        forwards.push_back(at);
    // The steady state is late in the list of first forwards, as the warm-up has many of them.
    llvm::ArrayRef<uint8_t> found;
    for (unsigned at = back; at + 1 < forwards.size() && found.empty(); ++at)
      found = roundAt(list, forwards, unsigned(forwards.size()) - at, types);
    if (found.empty())
      return std::nullopt;
    std::vector<uint8_t> round = found.vec(), stretched;
    size_t begin = found.data() - list.data();
    stretched.reserve(list.size() + size_t(more) * types);
    stretched.assign(list.begin(), list.begin() + begin);
    for (unsigned i = 0; i < more; ++i)
      stretched.insert(stretched.end(), round.begin(), round.end());
    stretched.insert(stretched.end(), list.begin() + begin, list.end());
    list = std::move(stretched);
  }
  return result;
}
