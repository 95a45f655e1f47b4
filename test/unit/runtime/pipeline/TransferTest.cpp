//===- TransferTest.cpp - memory and layouts of what crosses between ranks ------===//

#include "runtime/aten/Allocator.h"
#include "runtime/pipeline/StageTransfers.h"
#include "runtime/ranks/RankGrid.h"
#include "test/unit/LoadProgram.h"
#include "test/unit/runtime/comm/ThreadRanks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <c10/core/Allocator.h>

using namespace cleave::runtime;
using cleave::test::load;
using Kind = ScheduledAction::Kind;

namespace {
constexpr const char *kProgram = R"mlir(
module @transfers {
  func.func @forward_0(%x: tensor<4x6xf32> {train.role = #train.role<input "x" batch 0>})
      -> (tensor<6x4xf32> {train.role = #train.role<crossing "turned">},
          tensor<4x3xf32> {train.role = #train.role<crossing "sliced">})
      attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
    %0 = aten.t(%x) : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %1 = aten.slice(%x, dim = 1, start = 0, end = 3, step = 1) : (tensor<4x6xf32>) -> tensor<4x3xf32>
    return %0, %1 : tensor<6x4xf32>, tensor<4x3xf32>
  }
  func.func @forward_1(%0: tensor<6x4xf32> {train.role = #train.role<crossing "turned">},
                       %1: tensor<4x3xf32> {train.role = #train.role<crossing "sliced">})
      -> (tensor<6x3xf32> {train.role = #train.role<output "0">})
      attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
    %2 = aten.mm(%0, %1) : (tensor<6x4xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
    return %2 : tensor<6x3xf32>
  }
  pipeline.schedule @schedule "test" ranks 2 stages 2 microbatches 4 topology loop forward_only transfers explicit {
    rank 0: F0.0 sendF0.0 F0.1 sendF0.1 F0.2 sendF0.2 F0.3 sendF0.3
    rank 1: recvF1.0 recvF1.1 F1.0 recvF1.2 F1.1 recvF1.3 F1.2 F1.3
  }
}
)mlir";

/// Counts what a thread asks for.
class CountingAllocator final : public c10::Allocator {
public:
  explicit CountingAllocator(c10::Allocator &inner) : inner(inner) {}
  c10::DataPtr allocate(size_t bytes) override {
    ++count;
    return inner.allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner.raw_deleter(); }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    inner.copy_data(to, from, bytes);
  }
  static thread_local int count;

private:
  c10::Allocator &inner;
};
thread_local int CountingAllocator::count = 0;

/// What stage 0 makes of a microbatch: a transposed view, and one with gaps.
StageTransfers::Values makeValues(int64_t step, int64_t microbatch) {
  at::Tensor x = at::arange(24, at::kFloat).view({4, 6}).add(100 * step + 10 * microbatch);
  return {x.t(), x.slice(1, 0, 3)};
}

class Steps {
public:
  Steps(const Program &program, Communicator &ranks) : program(program), ranks(ranks) {}

  llvm::Error run() {
    auto made = RankGrid::create(program, &ranks);
    if (!made)
      return made.takeError();
    RankGrid &grid = **made;
    StageMap stages(program, grid);
    auto compiled = ActionList::compile(program, stages);
    if (!compiled)
      return compiled.takeError();
    list = std::move(*compiled);
    auto group = grid.group({program.schedule()->axis});
    if (!group)
      return group.takeError();
    auto transfers =
        StageTransfers::create(std::move(*group), list, *program.schedule(), 2, Device::host());
    if (!transfers)
      return transfers.takeError();
    for (int64_t step = 0; step < kSteps; ++step)
      if (llvm::Error error = runStep(step, **transfers))
        return error;
    return llvm::Error::success();
  }

  static constexpr int64_t kSteps = 6;
  /// By step: what transfers asked the allocator for.
  int allocations[kSteps] = {};

private:
  llvm::Error runStep(int64_t step, StageTransfers &transfers) {
    std::vector<uint32_t> sends;
    auto counted = [&](auto body) {
      int before = CountingAllocator::count;
      auto result = body();
      allocations[step] += CountingAllocator::count - before;
      return result;
    };
    for (const ScheduledAction &entry : list.actions) {
      if (entry.kind == Kind::Send) {
        auto values = makeValues(step, entry.microbatch);
        sends.push_back(entry.send);
        if (auto error = counted([&] { return transfers.startSend(entry, values); }))
          return error;
      } else if (entry.kind == Kind::Receive) {
        if (auto error = counted([&] { return transfers.startReceive(entry); }))
          return error;
      } else if (entry.channel != ScheduledAction::kNone) {
        auto values =
            counted([&] { return transfers.finishReceive(entry.channel, entry.microbatch); });
        if (!values)
          return values.takeError();
        for (auto [value, expected] :
             llvm::zip_equal(*values, makeValues(step, entry.microbatch))) {
          EXPECT_TRUE(at::equal(value, expected)) << "step " << step << ", " << entry.text;
          EXPECT_EQ(value.strides(), expected.strides());
        }
        // One value outlives its slot, as an accumulator does.
        if (entry.microbatch == 1)
          kept = std::move(*values);
      }
    }
    for (uint32_t send : sends)
      if (auto error = counted([&] { return transfers.finishSend(send); }))
        return error;
    return transfers.finishLayouts();
  }

  const Program &program;
  Communicator &ranks;
  ActionList list;
  StageTransfers::Values kept;
};

TEST(Transfers, UseTheirMemoryAgain) {
  // Nothing has a higher priority than what is put back below: it has to be what other tests count
  // by.
  installCachingAllocator();
  static CountingAllocator counting(*c10::GetAllocator(c10::kCPU));
  c10::Allocator *before = c10::GetAllocator(c10::kCPU);
  // Cleave's own priority: a higher one would keep sessions of later tests from setting theirs.
  constexpr uint8_t kPriority = 100;
  c10::SetAllocator(c10::kCPU, &counting, kPriority);
  auto loaded = load(kProgram);
  ASSERT_TRUE(loaded);
  auto outcomes =
      test::runThreadRanks(2, std::chrono::seconds(20), [&](Communicator &ranks) -> llvm::Error {
        Steps steps(*loaded, ranks);
        if (llvm::Error error = steps.run())
          return error;
        EXPECT_GT(steps.allocations[0], 0);
        for (int64_t step = 2; step < Steps::kSteps; ++step)
          EXPECT_EQ(steps.allocations[step], 0) << "rank " << ranks.rank() << ", step " << step;
        // A rank that is gone is lost to those that still receive.
        return ranks.finish();
      });
  c10::SetAllocator(c10::kCPU, before, kPriority);
  for (const test::Outcome &outcome : outcomes)
    EXPECT_FALSE(outcome.failed) << outcome.message;
}

TEST(Transfers, HaveAsManySlotsAsOverlap) {
  auto loaded = load(kProgram);
  ASSERT_TRUE(loaded);
  auto outcomes =
      test::runThreadRanks(2, std::chrono::seconds(20), [&](Communicator &ranks) -> llvm::Error {
        auto grid = RankGrid::create(*loaded, &ranks);
        if (!grid)
          return grid.takeError();
        auto list = ActionList::compile(*loaded, StageMap(*loaded, **grid));
        if (!list)
          return list.takeError();
        // Two receives are in flight at a time; 6 x 4 and 4 x 3 numbers, each from an aligned
        // address.
        EXPECT_EQ(list->receiveSlots,
                  (ranks.rank() == 1 ? std::vector<int64_t>{192, 192} : std::vector<int64_t>{}));
        EXPECT_EQ(list->sendSlots.empty(), ranks.rank() == 1);
        return llvm::Error::success();
      });
  for (const test::Outcome &outcome : outcomes)
    EXPECT_FALSE(outcome.failed) << outcome.message;
}
} // namespace
