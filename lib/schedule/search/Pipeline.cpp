// The scheduling problem from a topology and a cost table; orders to programs and back.
#include "lib/schedule/search/Pipeline.h"

#include "lib/support/Error.h"

#include "llvm/ADT/DenseMap.h"

using namespace cleave::schedule;
using namespace cleave::schedule::search;
using cleave::makeError;

llvm::Expected<Pipeline> Pipeline::get(const Topology &topology, unsigned microbatches,
                                       const simulate::CostTable &costs, double memoryLimit) {
  Pipeline result;
  result.topology = topology;
  result.ranks = topology.numRanks();
  result.chunks = topology.numStages() / topology.numRanks();
  result.microbatches = microbatches;
  result.memoryLimit = memoryLimit;
  if (result.chunks > 80)
    return makeError("the search supports at most 80 stages per rank, found {0}", result.chunks);
  for (unsigned rank = 0; rank < result.ranks; ++rank) {
    llvm::ArrayRef<unsigned> stages = topology.stagesOf(rank);
    if (stages.size() != result.chunks)
      return makeError("the search needs the same number of stages on every rank, found {0} on "
                       "rank {1} and {2} on rank 0",
                       stages.size(), rank, topology.stagesOf(0).size());
    result.stageOf.insert(result.stageOf.end(), stages.begin(), stages.end());
  }
  if (llvm::Error error = costs.checkFor(topology.numStages()))
    return error;
  llvm::DenseMap<std::pair<unsigned, unsigned>, unsigned> links;
  auto addTransfer = [&](unsigned from, unsigned to, double time, std::vector<double> &times,
                         std::vector<unsigned> &linkOf) {
    unsigned a = topology.rankOf(from), b = topology.rankOf(to);
    times.push_back(a == b ? 0 : time);
    linkOf.push_back(a == b ? noLink : links.try_emplace({a, b}, links.size()).first->second);
  };
  unsigned stages = topology.numStages();
  for (unsigned stage = 0; stage < stages; ++stage) {
    const simulate::StageCost &cost = costs.of(stage);
    result.cost[ForwardPass].push_back(cost.forward);
    result.cost[InputPass].push_back(cost.input);
    result.cost[WeightPass].push_back(cost.weight);
    result.memory[ForwardPass].push_back(cost.forwardMemory);
    result.memory[InputPass].push_back(-cost.inputMemory);
    result.memory[WeightPass].push_back(-cost.weightMemory);
    addTransfer(stage, stage + 1 < stages ? stage + 1 : stage, cost.sendForward, result.sendForward,
                result.forwardLink);
    addTransfer(stage, stage > 0 ? stage - 1 : stage, cost.sendBackward, result.sendBackward,
                result.backwardLink);
  }
  result.numLinks = links.size();
  return result;
}

double Pipeline::work(unsigned rank) const {
  double sum = 0;
  for (unsigned chunk = 0; chunk < chunks; ++chunk)
    for (const std::vector<double> &pass : cost)
      sum += pass[stage(rank, chunk)];
  return sum * microbatches;
}

std::optional<PassOrder> cleave::schedule::search::fromSchedule(const Schedule &program) {
  if (program.forwardOnly || program.numStages() % program.numRanks())
    return std::nullopt;
  PassOrder order;
  order.chunks = program.numStages() / program.numRanks();
  if (order.chunks > 80)
    return std::nullopt;
  order.ranks.resize(program.numRanks());
  for (unsigned rank = 0; rank < program.numRanks(); ++rank) {
    llvm::ArrayRef<unsigned> stages = program.topology.stagesOf(rank);
    if (stages.size() != order.chunks)
      return std::nullopt;
    std::vector<unsigned> next(3 * order.chunks, 0);
    bool inOrder = true;
    auto add = [&](Pass pass, Action leaf) {
      unsigned chunk = llvm::find(stages, unsigned(leaf.stage)) - stages.begin();
      unsigned type = pass * order.chunks + chunk;
      inOrder &= chunk < order.chunks && next[type]++ == leaf.index;
      order.ranks[rank].push_back(static_cast<uint8_t>(type));
    };
    for (Action action : program.ranks[rank])
      program.forEachLeaf(action, [&](Action leaf) {
        switch (leaf.kind) {
        case ActionKind::Forward:
          return add(ForwardPass, leaf);
        case ActionKind::BackwardInput:
          return add(InputPass, leaf);
        case ActionKind::BackwardWeight:
          return add(WeightPass, leaf);
        case ActionKind::Backward:
          add(InputPass, leaf);
          return add(WeightPass, leaf);
        default:
          inOrder &= isP2P(leaf.kind);
        }
      });
    if (!inOrder)
      return std::nullopt;
  }
  return order;
}

Schedule cleave::schedule::search::toSchedule(const PassOrder &order, const Topology &topology,
                                              unsigned microbatches) {
  constexpr ActionKind kinds[] = {ActionKind::Forward, ActionKind::BackwardInput,
                                  ActionKind::BackwardWeight};
  Schedule program;
  program.topology = topology;
  program.numMicrobatches = microbatches;
  program.ranks.resize(order.ranks.size());
  for (size_t rank = 0; rank < order.ranks.size(); ++rank) {
    std::vector<unsigned> next(3 * order.chunks, 0);
    program.ranks[rank].reserve(order.ranks[rank].size());
    for (uint8_t type : order.ranks[rank])
      program.ranks[rank].emplace_back(kinds[type / order.chunks],
                                       topology.stagesOf(rank)[type % order.chunks], next[type]++);
  }
  return program;
}
