//===- FrameTest.cpp - values that functions of a microbatch save ------------===//
//
// A microbatch in three functions, whose saved values lie in its frame: as many frames as there are
// microbatches in flight. And plans that are wrong on purpose, which no program that is loaded can
// have: NaN in dead memory shows them.
//
//===----------------------------------------------------------------------===//

#include "dialects/exec/Lowered.h"
#include "runtime/aten/Allocator.h"
#include "runtime/program/MicrobatchFrames.h"
#include "runtime/program/ProgramImpl.h"
#include "test/unit/runtime/exec/ProgramText.h"

using namespace cleave::runtime;
namespace exec = cleave::exec;

namespace {
// `{memory = ...}` becomes `exec.memory` in the lowered program, and goes in the other. The
// backward-input has read "b" when it writes "c", so both have one place.
constexpr const char *kProgram = R"mlir(
module @frames {
  func.func @forward(
      %w: tensor<16x16xf32> {train.role = #train.role<parameter "w">},
      %x: tensor<16x16xf32> {train.role = #train.role<input "x" batch 0>})
      -> (tensor<16x16xf32> {train.role = #train.role<output "0" batch 0>},
          tensor<16x16xf32> {train.role = #train.role<saved "a">},
          tensor<16x16xf32> {train.role = #train.role<saved "b">})
      attributes {train.phase = #train.phase<forward>LOWERED} {
    %0 = aten.mm(%x, %w) {memory = [#exec.frame<0>]} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = aten.gelu(%x) {memory = [#exec.frame<1024>]} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %2 = aten.tanh(%1) {memory = [#exec.apart]} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    return %2, %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
  }
  func.func @backward_input(
      %b: tensor<16x16xf32> {train.role = #train.role<saved "b">})
      -> (tensor<16x16xf32> {train.role = #train.role<saved "c">})
      attributes {train.phase = #train.phase<backward_input>LOWERED} {
    %0 = aten.tanh(%b) {memory = [#exec.at<0>]} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = aten.sin(%b) {memory = [#exec.at<1024>]} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %2 = aten.cos(%1) {memory = [#exec.at<2048>]} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %3 = aten.mul(%0, %2) {memory = [#exec.frame<1024>]} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %3 : tensor<16x16xf32>
  }
  func.func @backward_weight(
      %acc: tensor<16x16xf32> {train.role = #train.role<accumulator "w">},
      %a: tensor<16x16xf32> {train.role = #train.role<saved "a">},
      %c: tensor<16x16xf32> {train.role = #train.role<saved "c">})
      -> (tensor<16x16xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<backward_weight>LOWERED} {
    %0 = aten.sin(%c) {memory = [#exec.at<0>]} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = aten.mm(%0, %a) {memory = [#exec.at<1024>]} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %2 = train.accumulate %1 into %acc {memory = [#exec.same<1>]} : tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}
)mlir";

std::string unlowered() {
  return withoutPlan(kProgram);
}
std::string lowered() {
  return withPlan(kProgram, "#exec.lowered<cpu, arena = 3072, frame = 2048, alignment = 64>");
}

class FrameTest : public ::testing::Test {
protected:
  void SetUp() override { installCachingAllocator(); }

  /// The gradient and the outputs of two steps of three microbatches.
  static std::vector<float> run(const Program &program, WeightGradients weightGradients,
                                bool poisons = true) {
    SessionOptions options;
    options.microbatches = 3;
    options.weightGradients = weightGradients;
    options.poisonsDeadMemory = poisons;
    auto session = Session::create(program, options);
    EXPECT_TRUE(bool(session)) << llvm::toString(session.takeError());
    fill(*(*session)->weight("w"), 0.5f);
    std::vector<float> values;
    auto keep = [&](const char *name) {
      llvm::Expected<ConstTensorRef> tensor = (*session)->result(name);
      ASSERT_TRUE(bool(tensor)) << llvm::toString(tensor.takeError());
      const auto *data = reinterpret_cast<const float *>(tensor->data);
      values.insert(values.end(), data, data + tensor->type.numElements());
    };
    for (int64_t step = 1; step <= 2; ++step) {
      for (int64_t index = 0; index < 3; ++index) {
        fill(*(*session)->input("x"), float(step * 10 + index));
        llvm::Error error = (*session)->runMicrobatch(step, index);
        EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
        keep("output.0");
      }
      keep("grad.w");
    }
    return values;
  }

  /// The lowered program, with the result of one op moved after it has been verified.
  static std::unique_ptr<Program> loadWrong(llvm::StringRef function, llvm::StringRef op,
                                            exec::ResultMemory memory) {
    std::unique_ptr<Program> program = load(lowered());
    auto found = program->impl().module.get().lookupSymbol<mlir::func::FuncOp>(function);
    for (mlir::Operation &each : found.getOps())
      if (each.getName().getStringRef() == op)
        exec::setResultMemory(&each, memory);
    return program;
  }
  static bool hasNaN(const std::vector<float> &values) {
    return llvm::any_of(values, [](float value) { return std::isnan(value); });
  }
};

TEST_F(FrameTest, ComputesTheSameBits) {
  auto plain = load(unlowered()), planned = load(lowered());
  ASSERT_TRUE(plain && planned);
  for (WeightGradients when : {WeightGradients::Immediate, WeightGradients::Deferred})
    for (bool poisons : {false, true})
      EXPECT_TRUE(run(*planned, when, poisons) == run(*plain, when, false))
          << int(when) << " " << poisons;
}

TEST_F(FrameTest, AsManyFramesAsMicrobatchesUnderWay) {
  auto planned = load(lowered());
  ASSERT_TRUE(planned);
  EXPECT_EQ(computeCosts(*planned, 3, WeightGradients::Immediate).frameBytes, 2048);
  EXPECT_EQ(computeCosts(*planned, 3, WeightGradients::Deferred).frameBytes, 3 * 2048);
  MicrobatchFrames frames = planFrames(*planned, 3, WeightGradients::Deferred);
  EXPECT_EQ(frames.slotOf(0, 2), 2u);
}

TEST_F(FrameTest, NoMemoryIsAllocatedForSavedValues) {
  auto planned = load(lowered());
  ASSERT_TRUE(planned);
  SessionOptions options;
  options.microbatches = 2;
  auto session = Session::create(*planned, options);
  ASSERT_TRUE(bool(session)) << llvm::toString(session.takeError());
  for (int64_t step = 1; step <= 2; ++step)
    for (int64_t index = 0; index < 2; ++index) {
      int64_t before = memoryCounts().current;
      resetMemoryPeak();
      ASSERT_FALSE(bool((*session)->runMicrobatch(step, index)));
      // The output, and at first the accumulator, which the step before or the microbatch before
      // has left.
      int64_t kept = (step == 1 && index == 0) ? 2 * 1024 : 1024;
      EXPECT_LE(memoryCounts().tensorPeak, before + kept) << step << " " << index;
    }
}

TEST_F(FrameTest, PoisonShowsAValueOverAnotherInTheArena) {
  // The sine over the hyperbolic tangent, which the product still reads.
  auto wrong = loadWrong("backward_input", "aten.sin", {exec::ResultMemory::Arena, 0, 0});
  EXPECT_FALSE(hasNaN(run(*wrong, WeightGradients::Immediate, /*poisons=*/false)));
  EXPECT_TRUE(hasNaN(run(*wrong, WeightGradients::Immediate)));
}

TEST_F(FrameTest, PoisonShowsAValueOverAnotherInTheFrame) {
  // "b" over "a", which the backward-weight still reads.
  for (WeightGradients when : {WeightGradients::Immediate, WeightGradients::Deferred}) {
    auto wrong = loadWrong("forward", "aten.gelu", {exec::ResultMemory::Frame, 0, 0});
    EXPECT_FALSE(hasNaN(run(*wrong, when, /*poisons=*/false)));
    EXPECT_TRUE(hasNaN(run(*wrong, when)));
  }
}

TEST_F(FrameTest, AWrongPlanIsNotLoaded) {
  std::string text = edit(lowered(), "frame<1024>", "frame<512>");
  auto program = cleave::test::tryToLoad(text);
  ASSERT_FALSE(bool(program));
  EXPECT_NE(llvm::toString(program.takeError()).find("still lies"), std::string::npos);
}
} // namespace
