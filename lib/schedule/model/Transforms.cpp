// Merged backwards, gradient reductions, optimizer steps, and unsharding.
#include "lib/schedule/model/Transforms.h"

#include "lib/support/Error.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace cleave::schedule;
using cleave::makeError;

void cleave::schedule::mergeBackward(Schedule &program) {
  for (std::vector<Action> &list : program.ranks) {
    size_t kept = 0;
    for (size_t at = 0; at < list.size(); ++at) {
      Action action = list[at];
      if (action.kind == ActionKind::BackwardInput && at + 1 < list.size() &&
          list[at + 1] == Action(ActionKind::BackwardWeight, action.stage, action.index)) {
        action.kind = ActionKind::Backward;
        ++at;
      }
      list[kept++] = action;
    }
    list.resize(kept);
  }
}

void cleave::schedule::addGradientReductions(Schedule &program, llvm::ArrayRef<unsigned> buckets) {
  /// Where a stage's missing reductions go, and which there are.
  struct Reductions {
    size_t lastWeight = 0, lastReduction = 0;
    llvm::DenseSet<unsigned> present;
  };
  for (std::vector<Action> &list : program.ranks) {
    llvm::MapVector<unsigned, Reductions> stages;
    for (size_t at = 0; at < list.size(); ++at)
      program.forEachLeaf(list[at], [&](Action leaf) {
        if (leaf.kind == ActionKind::Backward || leaf.kind == ActionKind::BackwardWeight) {
          stages[leaf.stage].lastWeight = at;
        } else if (leaf.kind == ActionKind::ReduceGrad) {
          stages[leaf.stage].lastReduction = at;
          stages[leaf.stage].present.insert(leaf.index);
        }
      });
    std::multimap<size_t, Action> missing; // by the position that they follow
    for (const auto &[stage, reductions] : stages)
      for (unsigned bucket = 0; bucket < buckets[stage]; ++bucket)
        if (!reductions.present.contains(bucket))
          missing.emplace(reductions.present.empty() ? reductions.lastWeight
                                                     : reductions.lastReduction,
                          Action(ActionKind::ReduceGrad, stage, bucket));
    std::vector<Action> result;
    result.reserve(list.size() + missing.size());
    for (size_t at = 0; at < list.size(); ++at) {
      result.push_back(list[at]);
      for (auto [found, end] = missing.equal_range(at); found != end; ++found)
        result.push_back(found->second);
    }
    list = std::move(result);
  }
}

void cleave::schedule::addOptimizerSteps(Schedule &program) {
  std::vector<bool> steps(program.numStages(), false);
  for (const std::vector<Action> &list : program.ranks)
    for (Action action : list)
      program.forEachLeaf(action, [&](Action leaf) {
        if (leaf.kind == ActionKind::OptimizerStep)
          steps[leaf.stage] = true;
      });
  for (unsigned rank = 0; rank < program.numRanks(); ++rank)
    for (unsigned stage : program.topology.stagesOf(rank))
      if (!steps[stage])
        program.ranks[rank].emplace_back(ActionKind::OptimizerStep, stage);
}

namespace {
class Unsharder {
public:
  Unsharder(Schedule &program, unsigned rank, unsigned maxActive)
      : list(program.ranks[rank]), maxActive(maxActive) {
    for (size_t at = 0; at < list.size(); ++at) {
      unsigned member = 0;
      program.forEachLeaf(list[at], [&](Action leaf) {
        if (isCompute(leaf.kind))
          uses[leaf.stage].emplace_back(at, member++);
      });
    }
    stages = llvm::to_vector(program.topology.stagesOf(rank));
  }

  void run() {
    std::vector<Action> result;
    result.reserve(list.size() + 4 * stages.size());
    for (size_t at = 0; at < list.size(); ++at) {
      std::vector<unsigned> wanted = nextStages(at);
      for (unsigned stage : stages)
        if (active[stage] && !llvm::is_contained(wanted, stage))
          set(result, ActionKind::Reshard, stage);
      for (unsigned stage : wanted)
        if (!active[stage])
          set(result, ActionKind::Unshard, stage);
      result.push_back(list[at]);
    }
    for (unsigned stage : stages)
      if (active[stage])
        set(result, ActionKind::Reshard, stage);
    list = std::move(result);
  }

private:
  using Use = std::pair<size_t, unsigned>; // position, member of a group

  void set(std::vector<Action> &result, ActionKind kind, unsigned stage) {
    active[stage] = kind == ActionKind::Unshard;
    result.emplace_back(kind, stage);
  }

  /// The stages used from `at` on, in order of their next use: the first maxActive, and the further
  /// ones that are used together with the last of these.
  std::vector<unsigned> nextStages(size_t at) {
    std::vector<std::pair<Use, unsigned>> next;
    for (unsigned stage : stages) {
      llvm::ArrayRef<Use> all = uses[stage];
      size_t &seen = passed[stage];
      while (seen < all.size() && all[seen].first < at)
        ++seen;
      if (seen < all.size())
        next.emplace_back(all[seen], stage);
    }
    llvm::sort(next);
    std::vector<unsigned> result;
    for (const auto &[use, stage] : next) {
      if (result.size() >= maxActive && use.first != next[result.size() - 1].first.first)
        break;
      result.push_back(stage);
    }
    return result;
  }

  std::vector<Action> &list;
  unsigned maxActive;
  llvm::SmallVector<unsigned> stages;
  llvm::DenseMap<unsigned, std::vector<Use>> uses;
  llvm::DenseMap<unsigned, size_t> passed;
  llvm::DenseMap<unsigned, bool> active;
};
} // namespace

llvm::Error cleave::schedule::addUnshards(Schedule &program, unsigned maxActive) {
  if (maxActive == 0)
    return makeError("a rank needs room for the parameters of at least 1 stage, found 0");
  for (unsigned rank = 0; rank < program.numRanks(); ++rank)
    Unsharder(program, rank, maxActive).run();
  return llvm::Error::success();
}
