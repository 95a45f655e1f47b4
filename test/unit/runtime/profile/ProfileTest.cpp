//===- ProfileTest.cpp - from recorded actions to a cost table --------------===//

#include "runtime/profile/Profile.h"
#include "runtime/profile/StepTimes.h"

#include "lib/schedule/simulate/CostTable.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace cleave;
using namespace cleave::runtime;
using schedule::Action;
using schedule::ActionKind;

static constexpr int64_t kMs = 1000000;

namespace {
/// Two stages on two ranks, one microbatch. In milliseconds from `start`: F0 0-2, its transfer 0.5,
/// F1 2.5-4.5, B1 4.5-8.5, its transfer 1, B0 9.5-12.5, updates of 1.
struct Recorder {
  RankRecord ranks[2] = {{0, 0, 0, 0, 0, {}}, {1, 1, 0, 0, 0, {}}};
  double scale = 1;

  void add(int rank, int64_t step, Action action, double begin, double ready, double end,
           int64_t bytes = 0) {
    auto time = [&](double ms) { return int64_t(step * 1000 * kMs + ms * scale * kMs); };
    ranks[rank].actions.push_back({action, step, 0, time(begin), time(ready), time(end), bytes});
  }
  void run(int64_t step) {
    add(0, step, Action(ActionKind::Forward, 0, 0), 0, 0, 2);
    add(0, step, Action(ActionKind::RecvBackward, 0, 0), 2, 2, 9.5, 2000);
    add(0, step, Action(ActionKind::Backward, 0, 0), 2, 9.5, 12.5);
    add(0, step, Action(ActionKind::SendForward, 0, 0), 2, 2, 12.5, 1000);
    add(0, step, Action(ActionKind::OptimizerStep, 0), 13, 13, 14);
    add(1, step, Action(ActionKind::RecvForward, 1, 0), 0, 0, 2.5, 1000);
    add(1, step, Action(ActionKind::Forward, 1, 0), 0, 2.5, 4.5);
    add(1, step, Action(ActionKind::Backward, 1, 0), 4.5, 4.5, 8.5);
    add(1, step, Action(ActionKind::SendBackward, 1, 0), 8.5, 8.5, 12.5, 2000);
    add(1, step, Action(ActionKind::OptimizerStep, 1), 13, 13, 14);
  }
};
} // namespace

static double numberOf(const llvm::json::Object &profile, size_t stage, llvm::StringRef field) {
  const llvm::json::Object *object = (*profile.getArray("stages"))[stage].getAsObject();
  return object->getNumber(field).value_or(-1);
}

TEST(Profile, TakesMedianStepsAfterTheFirst) {
  Recorder recorder;
  recorder.scale = 50; // warming up
  recorder.run(1);
  for (double scale : {1.0, 2.0, 1.0}) {
    recorder.scale = scale;
    recorder.run(recorder.ranks[0].actions.back().step + 1);
  }
  ProfileNotes notes;
  notes.skippedSteps = 1;
  auto profile = makeProfile(recorder.ranks, 2, notes);
  ASSERT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
  EXPECT_NEAR(numberOf(*profile, 0, "forward"), 2, 1e-9);
  EXPECT_NEAR(numberOf(*profile, 0, "backward"), 3, 1e-9);
  EXPECT_NEAR(numberOf(*profile, 1, "forward"), 2, 1e-9);
  EXPECT_NEAR(numberOf(*profile, 1, "backward"), 4, 1e-9);
  EXPECT_NEAR(numberOf(*profile, 1, "optimizer"), 1, 1e-9);
  // What the receiver waited for: from the start of the send to its arrival.
  EXPECT_NEAR(numberOf(*profile, 0, "send_forward"), 0.5, 1e-9);
  EXPECT_NEAR(numberOf(*profile, 1, "send_backward"), 1, 1e-9);
  EXPECT_EQ(numberOf(*profile, 1, "send_forward"), -1);
  EXPECT_EQ(numberOf(*profile, 0, "input"), -1);

  const llvm::json::Object *measured = profile->getObject("measured");
  EXPECT_NEAR(*measured->getNumber("step_ms"), 14, 1e-9);
  EXPECT_EQ(*measured->getInteger("steps"), 3);
  const llvm::json::Object *timeline = measured->getObject("timeline");
  EXPECT_NE(*timeline->getInteger("step"), 3); // the slow one is not typical
  EXPECT_EQ(timeline->getArray("ranks")->size(), 2u);
}

TEST(Profile, IsACostTableOfTheSimulator) {
  Recorder recorder;
  recorder.run(1);
  auto profile = makeProfile(recorder.ranks, 2, ProfileNotes());
  ASSERT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
  llvm::SmallString<64> path;
  int descriptor;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("profile", "json", descriptor, path));
  {
    llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/true);
    os << llvm::formatv("{0:2}", llvm::json::Value(std::move(*profile)));
  }
  auto table = simulate::readCostFile(path);
  llvm::sys::fs::remove(path);
  ASSERT_TRUE(bool(table)) << llvm::toString(table.takeError());
  EXPECT_NEAR(table->stages[1].fullBackward(), 4, 1e-9);
  EXPECT_FALSE(table->stages[1].hasHalves);
  EXPECT_NEAR(table->stages[0].sendForward, 0.5, 1e-9);
}

TEST(Profile, EstimatesTransfersThatNobodyWaitedFor) {
  Recorder recorder;
  recorder.run(1);
  // The backward of stage 0 was late: the gradient had long arrived.
  for (RecordedAction &action : recorder.ranks[0].actions)
    if (action.action.kind == ActionKind::Backward)
      action.begin = action.ready;
  auto profile = makeProfile(recorder.ranks, 2, ProfileNotes());
  ASSERT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
  // Twice the bytes of the one that was seen.
  EXPECT_NEAR(numberOf(*profile, 1, "send_backward"), 1, 1e-9);
}

TEST(Profile, ChargesWhatARankDoesBetweenComputations) {
  Recorder recorder;
  recorder.run(1);
  for (RecordedAction &action : recorder.ranks[1].actions)
    if (action.action.kind == ActionKind::Backward)
      action.begin = action.ready = action.begin + kMs / 4;
  auto profile = makeProfile(recorder.ranks, 2, ProfileNotes());
  ASSERT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
  EXPECT_NEAR(numberOf(*profile, 1, "forward"), 2.25, 1e-9);
  EXPECT_NEAR(numberOf(*profile, 1, "backward"), 3.75, 1e-9);
}

TEST(Profile, RefusesARunThatIsTooShort) {
  Recorder recorder;
  recorder.run(1);
  ProfileNotes notes;
  notes.skippedSteps = 1;
  auto profile = makeProfile(recorder.ranks, 2, notes);
  ASSERT_FALSE(bool(profile));
  EXPECT_EQ(llvm::toString(profile.takeError()),
            "no step is left to measure: expected more than the 1 skipped");
}

TEST(Profile, CrossesBetweenRanks) {
  Recorder recorder;
  recorder.run(1);
  std::string bytes = recorder.ranks[1].encode();
  auto record = RankRecord::decode(bytes);
  ASSERT_TRUE(bool(record)) << llvm::toString(record.takeError());
  EXPECT_EQ(record->place, 1);
  ASSERT_EQ(record->actions.size(), 5u);
  EXPECT_EQ(record->actions[1].ready, recorder.ranks[1].actions[1].ready);
  for (size_t size : {size_t(0), size_t(8), bytes.size() - 1}) {
    auto cut = RankRecord::decode(llvm::StringRef(bytes).take_front(size));
    EXPECT_FALSE(bool(cut));
    llvm::consumeError(cut.takeError());
  }
}

TEST(Profile, AlignsClocksOfMachines) {
  Recorder recorder;
  recorder.run(1);
  std::vector<RankRecord> records(recorder.ranks, recorder.ranks + 2);
  records[1].clockOffset = 500;
  int64_t begin = records[1].actions[0].begin;
  alignClocks(records); // one machine
  EXPECT_EQ(records[1].actions[0].begin, begin);
  records[1].machine = 1;
  records[0].clockOffset = 200;
  alignClocks(records);
  EXPECT_EQ(records[1].actions[0].begin, begin + 300);
}

TEST(TransferTimes, BoundsCountAsShorter) {
  TransferTimes times;
  EXPECT_EQ(times.typical(), std::nullopt);
  times.add(5, true);
  EXPECT_EQ(times.typical(), std::nullopt);
  for (double known : {1.0, 2.0, 8.0, 9.0, 10.0})
    times.add(known, false);
  // Of six, three are at most 5 for sure: half of them.
  EXPECT_EQ(times.typical(), 2);
  EXPECT_EQ(times.count(), 5);
  TransferTimes exact;
  for (double known : {3.0, 1.0, 2.0})
    exact.add(known, false);
  EXPECT_EQ(exact.typical(), 2);
}

TEST(StepTimes, MedianOfMeans) {
  EXPECT_EQ(median({}), std::nullopt);
  EXPECT_EQ(median({3, 1}), 2);
  StepTimes times;
  times.add(1, 2);
  times.add(1, 4);
  times.add(2, 5);
  times.add(3, 100);
  EXPECT_EQ(times.typical(), 5);
  EXPECT_EQ(times.count(), 4);
}
