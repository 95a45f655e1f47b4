// Schedules executed with tensors on the strict backend: what the library builds trains exactly,
// what the verifier refuses hangs, and the slots that it assigns hold what they should.
#include "test/unit/lib/schedule/RandomPrograms.h"
#include "test/unit/lib/schedule/strict/TensorRun.h"

#include <chrono>
#include <set>

using namespace cleave::schedule;
using namespace cleave::strict;

namespace {
double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string describe(const CommModel &model) {
  static const char *const streams[] = {"world", "peer", "direction", "kind"};
  return (model.matching == Matching::Tag ? std::string("gloo")
                                          : std::string("nccl ") + streams[int(model.streams)]) +
         " send slots " + std::to_string(model.sendSlots) + " receive slots " +
         std::to_string(model.recvSlots);
}

std::string textOf(const Schedule &program) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printText(program, os);
  return text;
}

//===----------------------------------------------------------------------===//
// What the library builds
//===----------------------------------------------------------------------===//

constexpr unsigned numModels = 5;
CommModel modelOf(unsigned index) {
  return index == 0 ? CommModel::gloo() : CommModel::nccl(StreamSharing(index - 1));
}

/// One run: a program, and how its transfers are placed, matched and held.
struct Case {
  const ScheduleBuilder *builder;
  BuildRequest request;
  unsigned model;
  RecvStart start;
  bool planned; // slots of a plan, and not memory of its own for each value

  std::vector<std::string> values() const {
    return {builder->name().str() + "/" + std::to_string(*request.chunks),
            "ranks" + std::to_string(request.ranks),
            "microbatches" + std::to_string(request.microbatches),
            "model" + std::to_string(model),
            "start" + std::to_string(int(start)),
            "planned" + std::to_string(planned)};
  }
};

/// Of the grid's legal cases as many as it takes for any two values of two axes that go together to
/// meet somewhere. With CLEAVE_TEST_ALL every program under every model, the other two axes drawn.
std::vector<Case> casesToRun(RandomPrograms &random) {
  const char *everything = std::getenv("CLEAVE_TEST_ALL");
  bool product = everything && *everything && llvm::StringRef(everything) != "0";
  std::vector<Case> all;
  for (const ScheduleBuilder *builder : ScheduleRegistry::global().all())
    forEachLegal(*builder, [&](const BuildRequest &request, const Schedule &) {
      for (unsigned model = 0; model < numModels; ++model) {
        size_t first = all.size();
        for (RecvStart start : {RecvStart::Early, RecvStart::Late, RecvStart::AtSend})
          // Where receives are not independent the three are one.
          if (modelOf(model).receivesAreIndependent() || start == RecvStart::AtSend)
            for (bool planned : {false, true})
              all.push_back({builder, request, model, start, planned});
        if (product) {
          std::swap(all[first], all[first + random.below(all.size() - first)]);
          all.resize(first + 1);
        }
      }
    });
  if (product)
    return all;
  for (size_t i = all.size(); i-- > 1;)
    std::swap(all[i], all[random.below(i + 1)]);
  std::set<std::pair<std::string, std::string>> met;
  std::vector<Case> chosen;
  // First those that bring several new pairs: that keeps the cover small.
  for (size_t atLeast : {6, 3, 1})
    for (const Case &candidate : all) {
      std::vector<std::string> values = candidate.values();
      std::vector<std::pair<std::string, std::string>> fresh;
      for (size_t a = 0; a < values.size(); ++a)
        for (size_t b = a + 1; b < values.size(); ++b)
          if (!met.count({values[a], values[b]}))
            fresh.emplace_back(values[a], values[b]);
      if (fresh.size() < atLeast)
        continue;
      met.insert(fresh.begin(), fresh.end());
      chosen.push_back(candidate);
    }
  return chosen;
}

TEST(Schedules, EveryBuilderTrainsExactlyOnTheStrictBackend) {
  RandomPrograms random;
  std::vector<Case> cases = casesToRun(random);
  size_t actions = 0;
  auto start = std::chrono::steady_clock::now();
  for (const Case &run : cases) {
    CommModel model = modelOf(run.model);
    SCOPED_TRACE(random.seedText() + " " + describe(*run.builder, run.request) + " " +
                 describe(model) + " start " + std::to_string(int(run.start)) + " planned " +
                 std::to_string(run.planned));
    P2POptions options;
    options.model = model;
    options.recvStart = run.start;
    Schedule program = orFail(insertP2P(orFail(run.builder->build(run.request)), options));
    ASSERT_EQ(verifyText(program, {.models = {model}, .buckets = {}}), "");
    std::optional<SlotPlan> plan;
    if (run.planned)
      plan.emplace(program);
    TensorRun result = runWithTensors(program, model, plan ? &*plan : nullptr);
    ASSERT_FALSE(result.stuck) << result.report;
    ASSERT_EQ(result.wrong, std::vector<std::string>());
    ASSERT_EQ(result.mismatches, 0u);
    actions += program.numActions();
  }
  std::printf("%s: %zu programs, %zu actions, %.1f s\n", random.seedText().c_str(), cases.size(),
              actions, secondsSince(start));
  EXPECT_GT(cases.size(), 300u);
}

//===----------------------------------------------------------------------===//
// What the verifier says of others
//===----------------------------------------------------------------------===//

TEST(Schedules, DeadlockIfAndOnlyIfTheExecutionIsStuck) {
  RandomPrograms random;
  unsigned stuck = 0, clean = 0, wrong = 0;
  for (unsigned round = 0; round < 3000; ++round) {
    std::optional<Schedule> program = random.program();
    if (!program || checkStructure(*program))
      continue;
    CommModel model = random.model();
    SCOPED_TRACE(random.seedText() + " round " + std::to_string(round) + " " + describe(model) +
                 "\n" + textOf(*program));
    std::optional<Problem> deadlock = findDeadlock(*program, model);
    TensorRun run = runWithTensors(*program, model);
    ASSERT_EQ(deadlock.has_value(), run.stuck) << (deadlock ? deadlock->str() : "");
    std::vector<Problem> problems = verify(*program, {.models = {model}, .buckets = {}});
    if (run.stuck) {
      ++stuck;
      ASSERT_NE(run.report, "");
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
        ASSERT_LE(place->position, run.positions[place->rank]) << deadlock->str();
      }
    } else if (problems.empty()) {
      ++clean;
      ASSERT_EQ(run.wrong, std::vector<std::string>());
      ASSERT_EQ(run.mismatches, 0u);
      // Slots, also in lists that no pass of ours made.
      SlotPlan plan(*program);
      TensorRun planned = runWithTensors(*program, model, &plan);
      ASSERT_FALSE(planned.stuck) << planned.report;
      ASSERT_EQ(planned.wrong, std::vector<std::string>());
    } else if (problems.front().kind == ProblemKind::WrongData) {
      ++wrong;
      ASSERT_NE(run.mismatches, 0u);
      ASSERT_NE(run.wrong, std::vector<std::string>());
    } else {
      ASSERT_NE(problems.front().kind, ProblemKind::Deadlock);
    }
  }
  std::printf("%s: %u stuck, %u clean, %u with wrong data\n", random.seedText().c_str(), stuck,
              clean, wrong);
  EXPECT_GT(stuck, 300u);
  EXPECT_GT(clean, 200u);
  EXPECT_GT(wrong, 20u);
}

/// The report of a run that must get stuck, at once.
std::string hangs(const Schedule &program, const CommModel &model, const SlotPlan *plan = nullptr) {
  auto start = std::chrono::steady_clock::now();
  TensorRun run = runWithTensors(program, model, plan);
  EXPECT_TRUE(run.stuck) << textOf(program);
  // No time limit is involved: this is what threads need to get there.
  EXPECT_LT(secondsSince(start), 2);
  return run.report;
}

/// A 1F1B program for 4 ranks, with all its transfers.
Schedule pipelined(const CommModel &model) {
  P2POptions options;
  options.model = model;
  return orFail(insertP2P(orFail(buildSchedule("1f1b", {.ranks = 4, .microbatches = 8})), options));
}

std::vector<Action>::iterator find(std::vector<Action> &list, Action action) {
  auto found = std::find(list.begin(), list.end(), action);
  EXPECT_NE(found, list.end());
  return found;
}

TEST(Misuse, ADroppedReceiveHangs) {
  for (unsigned index = 0; index < numModels; ++index) {
    CommModel model = modelOf(index);
    Schedule program = pipelined(model);
    std::vector<Action> &list = program.ranks[2];
    list.erase(find(list, {ActionKind::RecvForward, 2, 3}));
    EXPECT_FALSE(verify(program, {.models = {model}, .buckets = {}}).empty());
    std::string report = hangs(program, model);
    EXPECT_NE(report.find("rank 2, position "), std::string::npos) << report;
    EXPECT_NE(report.find("recvF2.3, which this rank has not started"), std::string::npos)
        << report;
  }
}

TEST(Misuse, SwappedSendsHangOnOneStreamAndCorruptInOrder) {
  // The order of sends to different ranks: harmless, unless all share one stream.
  Schedule program = parse("ranks 2 stages 2 microbatches 2\n"
                           "rank 0: F0.0 F0.1 sendF0.1 sendF0.0 recvB0.0 B0.0 recvB0.1 B0.1\n"
                           "rank 1: recvF1.0 F1.0 B1.0 sendB1.0 recvF1.1 F1.1 B1.1 sendB1.1\n");
  CommModel peer = CommModel::nccl(StreamSharing::Peer);
  ASSERT_EQ(verify(program, {.models = {peer}, .buckets = {}}).front().kind, ProblemKind::Deadlock);
  std::string report = hangs(program, peer);
  EXPECT_NE(report.find("queued behind send to rank 1"), std::string::npos) << report;
  // Streams of their own: it runs to its end, with the wrong microbatch.
  CommModel direction = CommModel::nccl(StreamSharing::Direction);
  ASSERT_EQ(verify(program, {.models = {direction}, .buckets = {}}).front().kind,
            ProblemKind::WrongData);
  TensorRun run = runWithTensors(program, direction);
  EXPECT_FALSE(run.stuck);
  EXPECT_EQ(run.mismatches, 2u);
  EXPECT_NE(run.wrong, std::vector<std::string>());
  // By tag it is what it should be.
  ASSERT_EQ(verifyText(program, {.models = {CommModel::gloo()}, .buckets = {}}), "");
  EXPECT_EQ(runWithTensors(program, CommModel::gloo()).wrong, std::vector<std::string>());
}

TEST(Misuse, TooFewSlotsHang) {
  // Both ranks send before they receive: rank 1 needs room for the second output.
  Schedule program = parse("ranks 2 stages 4 microbatches 2 topology loop forward_only\n"
                           "rank 0: F0.0 sendF0.0 recvF2.0 F0.1 sendF0.1 F2.0 sendF2.0 recvF2.1 "
                           "F2.1 sendF2.1\n"
                           "rank 1: recvF1.0 F1.0 recvF1.1 F1.1 sendF1.1 sendF1.0 recvF3.0 F3.0 "
                           "recvF3.1 F3.1\n");
  CommModel model = CommModel::gloo();
  model.sendSlots = 2;
  ASSERT_FALSE(findDeadlock(program, model));
  EXPECT_FALSE(runWithTensors(program, model).stuck);
  model.sendSlots = 1;
  ASSERT_TRUE(findDeadlock(program, model));
  std::string report = hangs(program, model);
  EXPECT_NE(report.find("rank 1, position 5: sendF1.0: waits for send to rank 0"),
            std::string::npos)
      << report;

  model = CommModel::gloo();
  model.recvSlots = 1;
  Schedule early = parse("ranks 2 stages 2 microbatches 2 forward_only\n"
                         "rank 0: F0.0 sendF0.0 F0.1 sendF0.1\n"
                         "rank 1: recvF1.0 recvF1.1 F1.0 F1.1\n");
  ASSERT_TRUE(findDeadlock(early, model));
  EXPECT_NE(hangs(early, model).find("rank 1, position 1: recvF1.1: waits for a receive slot"),
            std::string::npos);
}

/// The same program with random numbers of slots: stuck exactly where the verifier says so.
TEST(Misuse, SlotsAreEnoughWhereTheVerifierSaysSo) {
  unsigned stuck = 0, runs = 0;
  for (const char *name : {"interleaved-1f1b", "zbv", "looped-bfs"})
    for (unsigned index = 0; index < numModels; ++index)
      for (unsigned slots = 1; slots <= 8; ++slots)
        for (bool sends : {false, true}) {
          P2POptions options;
          options.model = modelOf(index);
          Schedule program = orFail(
              insertP2P(orFail(buildSchedule(name, {.ranks = 3, .microbatches = 6})), options));
          CommModel model = modelOf(index);
          (sends ? model.sendSlots : model.recvSlots) = slots;
          SCOPED_TRACE(std::string(name) + " " + describe(model));
          bool refused = findDeadlock(program, model).has_value();
          TensorRun run = runWithTensors(program, model);
          ASSERT_EQ(run.stuck, refused) << run.report;
          ++(refused ? stuck : runs);
        }
  EXPECT_GT(stuck, 20u);
  EXPECT_GT(runs, 20u);
}

TEST(Misuse, PyTorchIssue172668) {
  for (const char *trace : {issue172668Send, issue172668Swapped}) {
    Schedule program = parse(trace);
    for (unsigned index = 0; index < numModels; ++index) {
      CommModel model = modelOf(index);
      SCOPED_TRACE(describe(model));
      bool refused = !verify(program, {.models = {model}, .buckets = {}}).empty();
      EXPECT_EQ(refused, index == 1 || index == 2) << "world and peer";
      if (refused) {
        EXPECT_NE(hangs(program, model).find("queued behind send"), std::string::npos);
        continue;
      }
      TensorRun run = runWithTensors(program, model);
      EXPECT_FALSE(run.stuck);
      EXPECT_EQ(run.wrong, std::vector<std::string>());
    }
  }
}

TEST(Misuse, AGroupThatWaitsForItself) {
  // Both receives are one group: the first forward also waits for the second activation, which rank
  // 0 sends only after the first gradient.
  Schedule program = parse("ranks 2 stages 2 microbatches 2\n"
                           "rank 0: F0.0 sendF0.0 recvB0.0 B0.0 F0.1 sendF0.1 recvB0.1 B0.1\n"
                           "rank 1: {recvF1.0 recvF1.1} F1.0 B1.0 sendB1.0 F1.1 B1.1 sendB1.1\n");
  ASSERT_EQ(verifyText(program, {.models = {CommModel::gloo()}, .buckets = {}}), "");
  EXPECT_FALSE(runWithTensors(program, CommModel::gloo()).stuck);
  EXPECT_EQ(verifyText(program, {.models = {CommModel::nccl()}, .buckets = {}}),
            "deadlock: each action waits for the next, the last for the first\n"
            "  rank 0, position 3: B0.0 waits for recvB0.0 of rank 0, position 2\n"
            "  rank 0, position 2: recvB0.0 waits for sendB1.0 of rank 1, position 3\n"
            "  rank 1, position 1: F1.0 waits for {recvF1.0 recvF1.1} of rank 1, position 0\n"
            "  rank 1, position 0: recvF1.1 waits for sendF0.1 of rank 0, position 5\n");
  hangs(program, CommModel::nccl());
}

TEST(Plans, AWrongSlotCorrupts) {
  // The check on the check: with all receives of a rank in one slot, numbers must be wrong.
  CommModel model = CommModel::gloo();
  Schedule program = pipelined(model);
  SlotPlan plan(program);
  EXPECT_EQ(runWithTensors(program, model, &plan).wrong, std::vector<std::string>());
  SlotPlan wrong = plan;
  for (SlotUse &use : wrong.receives[1].uses)
    use.slot = 0;
  EXPECT_NE(runWithTensors(program, model, &wrong).wrong, std::vector<std::string>());
  // All sends in one slot: some send is not complete when the next one is written.
  ASSERT_GT(plan.sends[0].numSlots, 1u);
  // Whether it is depends on the threads, so they get several attempts.
  for (SlotUse &use : plan.sends[0].uses)
    use.slot = 0;
  bool isCorrupt = false;
  for (unsigned attempt = 0; attempt < 100 && !isCorrupt; ++attempt)
    isCorrupt = !runWithTensors(program, model, &plan).wrong.empty();
  EXPECT_TRUE(isCorrupt);
}
} // namespace
