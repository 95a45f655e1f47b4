// Random schedules, most of them broken, for comparing verdicts with executions.

#ifndef CLEAVE_TEST_UNIT_LIB_SCHEDULE_RANDOMPROGRAMS_H
#define CLEAVE_TEST_UNIT_LIB_SCHEDULE_RANDOMPROGRAMS_H

#include "test/unit/lib/schedule/TestUtils.h"

#include <cstdlib>
#include <random>

namespace cleave::schedule {

/// The seed is CLEAVE_TEST_SEED's, or a new one.
class RandomPrograms {
public:
  RandomPrograms() {
    if (const char *text = std::getenv("CLEAVE_TEST_SEED"))
      seed = unsigned(std::strtoul(text, nullptr, 10));
    else
      seed = std::random_device()();
    random.seed(seed);
  }
  std::string seedText() const { return "CLEAVE_TEST_SEED=" + std::to_string(seed); }
  /// A number from 0 to n - 1.
  unsigned below(size_t n) { return unsigned(random() % n); }

  CommModel model() {
    CommModel model =
        below(2) ? CommModel::gloo() : CommModel::nccl(static_cast<StreamSharing>(below(4)));
    if (below(2))
      model.sendSlots = 1 + below(3);
    if (below(3) == 0)
      model.recvSlots = 1 + below(4);
    return model;
  }

  /// Sends and receives included; nullopt where the drawn request is not legal.
  std::optional<Schedule> program() {
    std::vector<const ScheduleBuilder *> builders = ScheduleRegistry::global().all();
    const ScheduleBuilder *builder = builders[below(builders.size())];
    BuildRequest request{2 + below(3), 1 + below(8), std::nullopt};
    auto compute = builder->build(request);
    if (!compute) {
      llvm::consumeError(compute.takeError());
      return std::nullopt;
    }
    P2POptions options;
    options.model = CommModel::nccl(StreamSharing::Direction);
    options.recvStart = static_cast<RecvStart>(below(3));
    Schedule program = orFail(insertP2P(*compute, options));
    if (below(3) == 0)
      addCollectives(program);
    if (below(4) == 0)
      overtake(program);
    else
      for (unsigned i = below(4); i-- > 0;)
        mutate(program);
    return program;
  }

private:
  /// All ranks, or two of them, meet at a random place each, perhaps twice.
  void addCollectives(Schedule &program) {
    for (unsigned i = 1 + below(2); i-- > 0;) {
      std::vector<unsigned> ranks;
      for (unsigned rank = 0; rank < program.numRanks(); ++rank)
        if (ranks.size() < 2 || below(2))
          ranks.push_back(rank);
      Action action = program.addCollective({i ? "norm" : "tied", ranks});
      for (unsigned rank : ranks) {
        std::vector<Action> &list = program.ranks[rank];
        list.insert(below(3) ? list.end() : list.begin() + below(list.size() + 1), action);
      }
    }
  }

  /// A receive overtakes an earlier one of its stage.
  void overtake(Schedule &program) {
    std::vector<Action> &list = program.ranks[below(program.numRanks())];
    auto recv = std::find_if(list.begin() + below(list.size()), list.end(),
                             [](Action action) { return isRecv(action.kind); });
    if (recv == list.end())
      return;
    auto later = std::find_if(recv + 1, list.end(), [&](Action other) {
      return other.kind == recv->kind && other.stage == recv->stage;
    });
    if (later != list.end())
      std::rotate(recv, later, later + 1);
  }

  void mutate(Schedule &program) {
    std::vector<Action> &list = program.ranks[below(program.numRanks())];
    if (list.size() < 2)
      return;
    size_t a = below(list.size()), b = below(list.size());
    switch (below(6)) {
    case 0:
      return std::swap(list[a], list[b]);
    case 1:
      list.erase(list.begin() + a);
      return;
    case 2: { // one action moves
      Action moved = list[a];
      list.erase(list.begin() + a);
      list.insert(list.begin() + std::min(b, list.size()), moved);
      return;
    }
    case 3:
      list.insert(list.begin() + b, list[a]);
      return;
    default: { // neighbouring transfers change places, or become a group
      a = std::min(a, list.size() - 2);
      if (!isP2P(list[a].kind) || !isP2P(list[a + 1].kind) || below(2))
        return std::swap(list[a], list[a + 1]);
      Action group = program.addGroup({list[a], list[a + 1]});
      list[a] = group;
      list.erase(list.begin() + a + 1);
    }
    }
  }

  unsigned seed = 0;
  std::mt19937_64 random;
};

} // namespace cleave::schedule

#endif // CLEAVE_TEST_UNIT_LIB_SCHEDULE_RANDOMPROGRAMS_H
