//===- PlannedResultsTest.cpp - results are put where the plan has them -----===//

#include "runtime/exec/PlannedInstruction.h"

#include <ATen/ops/full.h>

#include "gtest/gtest.h"

using namespace cleave::runtime;

namespace {
class PlannedResultsTest : public ::testing::Test {
protected:
  void SetUp() override {
    installCachingAllocator();
    frame.slots.resize(4);
    frame.fixed.resize(4);
  }
  /// Result of 64 bytes at `offset` of the arena, which goes to `slot`.
  PlannedResult at(int64_t offset, uint32_t slot) const {
    return {PlannedResult::Arena, {slot}, arena.at(offset), 64, 0};
  }
  static at::Tensor made(double value) { return at::full({4, 4}, value); }

  c10::InferenceMode inferenceMode;
  Arena arena{Device::host(), 256, 64};
  Frame frame;
};

TEST_F(PlannedResultsTest, TheFirstRunIsCopiedAndTheNextAskForTheirPlace) {
  PlannedResults results({at(64, 0)}, arena);
  for (double value : {1.0, 2.0}) {
    at::Tensor result;
    {
      Requests::Scope scope = results.open();
      at::Tensor workspace = made(7);
      result = made(value);
    }
    if (!results.isSettled()) {
      results.settle(frame, {result}, {});
    } else {
      EXPECT_EQ(result.const_data_ptr(), arena.at(64));
      results.place(frame, {result});
    }
    EXPECT_TRUE(frame.isFixed(0));
    EXPECT_EQ(frame.slots[0].toTensor().const_data_ptr(), arena.at(64));
    EXPECT_TRUE(frame.slots[0].toTensor().equal(made(value)));
  }
}

TEST_F(PlannedResultsTest, ResultsThatHaveChangedPlacesAreCopied) {
  PlannedResults results({at(0, 0), at(64, 1)}, arena);
  std::vector<at::Tensor> values;
  auto run = [&](bool isSwapped) {
    Requests::Scope scope = results.open();
    values = {made(1), made(2)};
    if (isSwapped)
      std::swap(values[0], values[1]);
  };
  run(false);
  results.settle(frame, values, {});
  run(true);
  ASSERT_EQ(values[0].const_data_ptr(), arena.at(64));
  results.place(frame, values);
  EXPECT_TRUE(frame.slots[0].toTensor().equal(made(2)));
  EXPECT_TRUE(frame.slots[1].toTensor().equal(made(1)));
}

TEST_F(PlannedResultsTest, ViewsOfFixedTensorsAreFixed) {
  PlannedResults matrix({at(0, 0)}, arena);
  matrix.settle(frame, {made(1)}, {});
  at::Tensor fixed = frame.slots[0].toTensor();
  PlannedResults view({{PlannedResult::View, {1}, nullptr, 0, 0}}, arena);
  view.settle(frame, {fixed.t()}, {fixed});
  EXPECT_TRUE(frame.isFixed(1));
  EXPECT_TRUE(view.areAllViews());
  // Of a tensor that changes from run to run they are not.
  frame.slots[2] = made(3);
  PlannedResults other({{PlannedResult::View, {3}, nullptr, 0, 2}}, arena);
  at::Tensor operand = frame.slots[2].toTensor();
  other.settle(frame, {operand.t()}, {operand});
  EXPECT_FALSE(frame.isFixed(3));
  EXPECT_FALSE(other.areAllViews());
}

TEST_F(PlannedResultsTest, AnOperandIsOverwrittenOnlyElementByElement) {
  PlannedResults matrix({at(0, 0)}, arena);
  matrix.settle(frame, {made(1)}, {});
  at::Tensor operand = frame.slots[0].toTensor();
  PlannedResults sum({{PlannedResult::InPlace, {1}, nullptr, 0, 0}}, arena);
  sum.settle(frame, {made(2)}, {operand});
  EXPECT_EQ(sum.tensor(0).const_data_ptr(), operand.const_data_ptr());
  EXPECT_TRUE(sum.areAllWritable());
  // The same memory read in another order: the kernel writes elsewhere, and that is copied.
  PlannedResults transposed({{PlannedResult::InPlace, {1}, nullptr, 0, 0}}, arena);
  transposed.settle(frame, {made(3)}, {operand, operand.t()});
  EXPECT_FALSE(transposed.areAllWritable());
  EXPECT_TRUE(frame.slots[1].toTensor().equal(made(3)));
}

TEST_F(PlannedResultsTest, AResultOverAnOperandIsRefused) {
  PlannedResults matrix({at(0, 0)}, arena);
  matrix.settle(frame, {made(1)}, {});
  PlannedResults wrong({at(0, 1)}, arena);
  EXPECT_THROW(wrong.settle(frame, {made(2)}, {frame.slots[0].toTensor()}), c10::Error);
}

TEST_F(PlannedResultsTest, ResultsWithGapsStayWhereTheyAre) {
  PlannedResults results({at(0, 0)}, arena);
  at::Tensor wide = at::full({4, 8}, 1.0);
  results.settle(frame, {wide.narrow(1, 0, 4)}, {});
  EXPECT_FALSE(frame.isFixed(0));
  EXPECT_EQ(frame.slots[0].toTensor().const_data_ptr(), wide.const_data_ptr());
}

TEST_F(PlannedResultsTest, WhatIsApartDoesNotShowTheArena) {
  PlannedResults matrix({at(0, 0)}, arena);
  matrix.settle(frame, {made(1)}, {});
  at::Tensor fixed = frame.slots[0].toTensor();
  PlannedResults apart({{PlannedResult::Apart, {1}, nullptr, 0, 0}}, arena);
  apart.settle(frame, {fixed.t()}, {fixed});
  EXPECT_FALSE(arena.contains(frame.slots[1].toTensor().const_data_ptr()));
  apart.place(frame, {fixed.t()});
  EXPECT_FALSE(arena.contains(frame.slots[1].toTensor().const_data_ptr()));
}

TEST_F(PlannedResultsTest, AnotherLayoutThanInTheFirstRunIsRefused) {
  PlannedResults results({at(0, 0)}, arena);
  results.settle(frame, {made(1)}, {});
  EXPECT_THROW(results.place(frame, {made(1).t()}), c10::Error);
  results.reset();
  results.settle(frame, {made(1).t()}, {});
  EXPECT_EQ(results.tensor(0).strides(), (std::vector<int64_t>{1, 4}));
}
/// As a device's variants of operators are: results in a layout of their own, one with padding, one
/// that is left out, all of them via others in memory that is not planned.
class Variant : public Instruction {
public:
  double value = 0;

  void execute(Frame &frame) override {
    at::Tensor wide = at::full({4, 4}, value, at::kDouble);
    frame.slots[0] = wide.t().to(at::kFloat);
    frame.slots[1] = at::full({4, 8}, value + 1).narrow(1, 0, 4);
  }
};

TEST_F(PlannedResultsTest, AnyInstructionCanHaveItsResultsPlanned) {
  auto inner = std::make_unique<Variant>();
  Variant &variant = *inner;
  PlannedInstruction planned(std::move(inner), {at(0, 0), at(64, 1), at(128, 2)}, arena);
  for (double value : {1.0, 2.0, 3.0}) {
    variant.value = value;
    planned.execute(frame);
    at::Tensor first = frame.slots[0].toTensor(), padded = frame.slots[1].toTensor();
    EXPECT_EQ(first.const_data_ptr(), arena.at(0));
    EXPECT_TRUE(first.equal(made(value)));
    EXPECT_FALSE(arena.contains(padded.const_data_ptr()));
    EXPECT_TRUE(padded.equal(made(value + 1)));
    EXPECT_FALSE(frame.slots[2].toTensor().defined());
    // What is not fixed goes with its last use.
    frame.slots[1] = frame.slots[2] = c10::IValue();
  }
}
} // namespace
