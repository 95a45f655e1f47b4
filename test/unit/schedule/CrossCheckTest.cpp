// The verifier's verdicts against executions: random programs, most of them broken, run on the
// strict executor. What verify calls a deadlock must get stuck, and nothing else may.
#include "lib/schedule/StrictExecutor.h"
#include "test/unit/schedule/TestUtils.h"

#include <cstdlib>
#include <random>

using namespace cleave::schedule;

namespace {
class CrossCheck : public testing::Test {
protected:
  CrossCheck() {
    if (const char *text = std::getenv("CLEAVE_TEST_SEED"))
      seed = unsigned(std::strtoul(text, nullptr, 10));
    else
      seed = std::random_device()();
    random.seed(seed);
  }
  unsigned below(size_t n) { return unsigned(random() % n); }

  CommModel randomModel() {
    CommModel model =
        below(2) ? CommModel::gloo() : CommModel::nccl(static_cast<StreamSharing>(below(4)));
    if (below(2))
      model.sendSlots = 1 + below(3);
    if (below(3) == 0)
      model.recvSlots = 1 + below(4);
    return model;
  }

  std::optional<Program> randomProgram() {
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
    Program program = orFail(insertP2P(*compute, options));
    if (below(3) == 0)
      addCollectives(program);
    if (below(4) == 0)
      overtake(program);
    else
      for (unsigned i = below(4); i-- > 0;)
        mutate(program);
    return program;
  }

  /// All ranks, or two of them, meet at a random place each, perhaps twice.
  void addCollectives(Program &program) {
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
  void overtake(Program &program) {
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

  void mutate(Program &program) {
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

  unsigned seed;
  std::mt19937_64 random;
};

TEST_F(CrossCheck, DeadlockIfAndOnlyIfTheExecutionIsStuck) {
  unsigned stuck = 0, clean = 0, wrongData = 0;
  for (unsigned round = 0; round < 3000; ++round) {
    std::optional<Program> program = randomProgram();
    if (!program || checkStructure(*program))
      continue;
    CommModel model = randomModel();
    std::string text;
    llvm::raw_string_ostream os(text);
    printText(*program, os);
    SCOPED_TRACE("CLEAVE_TEST_SEED=" + std::to_string(seed) + " round " + std::to_string(round) +
                 (model.matching == Matching::Tag ? " tag" : " fifo ") +
                 std::to_string(int(model.streams)) + " sendSlots " +
                 std::to_string(model.sendSlots) + " recvSlots " + std::to_string(model.recvSlots) +
                 "\n" + text);
    Execution execution = executeStrictly(*program, model);
    std::optional<Problem> deadlock = findDeadlock(*program, model);
    ASSERT_EQ(deadlock.has_value(), execution.stuck) << (deadlock ? deadlock->str() : "");
    if (deadlock) {
      ++stuck;
      ASSERT_FALSE(deadlock->notes.empty());
      // Either a cycle, or the reason why nothing more comes.
      bool cycle = llvm::StringRef(deadlock->message).starts_with("deadlock");
      llvm::StringRef last = deadlock->notes.back().second;
      ASSERT_TRUE(cycle || last.contains("never")) << deadlock->str();
      ASSERT_FALSE(last.ends_with("waits")) << deadlock->str();
      for (const auto &[place, note] : deadlock->notes) {
        ASSERT_TRUE(place && place->rank < program->numRanks());
        ASSERT_FALSE(note.empty());
        // What started before the rank's place may wait, but nothing that comes after it.
        ASSERT_LE(place->position, execution.positions[place->rank]) << deadlock->str();
      }
    }
    std::vector<Problem> problems = verify(*program, {.models = {model}, .buckets = {}});
    bool good = !execution.stuck && execution.dataErrors.empty();
    if (problems.empty()) {
      ++clean;
      ASSERT_TRUE(good) << (execution.stuck ? "stuck" : execution.dataErrors.front());
    } else if (problems.front().kind == ProblemKind::WrongData) {
      ++wrongData;
      ASSERT_FALSE(execution.dataErrors.empty()) << problems.front().str();
    } else if (problems.front().kind == ProblemKind::Deadlock) {
      ASSERT_TRUE(execution.stuck);
    }
  }
  std::printf("seed %u: %u stuck, %u clean, %u with wrong data\n", seed, stuck, clean, wrongData);
  EXPECT_GT(stuck, 300u);
  EXPECT_GT(clean, 200u);
  EXPECT_GT(wrongData, 20u);
}

// The grid of BuildersTest, thinned out in microbatches: each accepted program is also run.
TEST_F(CrossCheck, EveryBuilderRunsOnTheStrictExecutor) {
  unsigned count = 0;
  for (const ScheduleBuilder *builder : ScheduleRegistry::global().all())
    forEachLegal(*builder, [&](const BuildRequest &request, const Program &compute) {
      // All small programs, and some of the larger ones.
      if (compute.numActions() > 150 && below(12))
        return;
      CommModel models[] = {CommModel::gloo(), CommModel::nccl(StreamSharing::World),
                            CommModel::nccl(StreamSharing::Peer), CommModel::nccl()};
      CommModel model = models[below(4)];
      SCOPED_TRACE("CLEAVE_TEST_SEED=" + std::to_string(seed) + " " + describe(*builder, request) +
                   " model " + std::to_string(int(model.matching)) + "." +
                   std::to_string(int(model.streams)));
      P2POptions options;
      options.model = model;
      Program program = orFail(insertP2P(compute, options));
      Execution execution = executeStrictly(program, model);
      ASSERT_FALSE(execution.stuck);
      ASSERT_EQ(execution.dataErrors, std::vector<std::string>());
      ++count;
    });
  EXPECT_GT(count, 500u);
}
} // namespace
