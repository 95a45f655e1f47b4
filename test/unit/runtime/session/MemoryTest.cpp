//===- MemoryTest.cpp - planned memory is what runs take -----------------------===//

#include "cleave/Session.h"
#include "runtime/aten/Allocator.h"
#include "test/unit/LoadProgram.h"

#include <cmath>

using namespace cleave::runtime;

namespace {
// Kernels of these ops allocate nothing but their results.
constexpr const char *kProgram = R"mlir(
module @memory {
  func.func @microbatch(
      %w: tensor<64x64xf32> {train.role = #train.role<parameter "w">},
      %a: tensor<64x64xf32> {train.role = #train.role<accumulator "w">},
      %x: tensor<32x64xf32> {train.role = #train.role<input "x" batch 0>})
      -> (tensor<32x64xf32> {train.role = #train.role<output "0">},
          tensor<64x64xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = aten.call "aten::mul.Tensor"(self = %x, other = %x) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    %1 = aten.call "aten::cos"(self = %0) : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %2 = aten.call "aten::t"(self = %1) : (tensor<32x64xf32>) -> tensor<64x32xf32>
    %3 = aten.call "aten::exp"(self = %0) : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %4 = aten.call "aten::cat"(tensors = [%0, %3]) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    %5 = aten.call "aten::t"(self = %2) : (tensor<64x32xf32>) -> tensor<32x64xf32>
    %6 = aten.call "aten::add.Tensor"(self = %5, other = %3) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    %7 = aten.call "aten::mul.Tensor"(self = %4, other = %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %8 = train.accumulate %7 into %a : tensor<64x64xf32>
    return %6, %8 : tensor<32x64xf32>, tensor<64x64xf32>
  }
  func.func @update(
      %w: tensor<64x64xf32> {train.role = #train.role<parameter "w">},
      %g: tensor<64x64xf32> {train.role = #train.role<gradient "w">},
      %m: tensor<64x64xf32> {train.role = #train.role<optimizer_state "w" slot "momentum_buffer">},
      %t: tensor<f32> {train.role = #train.role<step>})
      -> (tensor<64x64xf32> {train.role = #train.role<parameter "w">},
          tensor<64x64xf32> {train.role = #train.role<optimizer_state "w" slot "momentum_buffer">})
      attributes {train.phase = #train.phase<update>} {
    %lr = train.learning_rate(%t) {base = 0.5 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
    %w1, %m1 = train.sgd(%w, %g, %m, %t, %lr) {momentum = 0.5 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<64x64xf32>
    return %w1, %m1 : tensor<64x64xf32>, tensor<64x64xf32>
  }
}
)mlir";

class MemoryTest : public ::testing::Test {
protected:
  void SetUp() override {
    installCachingAllocator();
    program = cleave::test::load(kProgram);
    ASSERT_TRUE(program);
  }

  std::unique_ptr<Session> start(int64_t microbatches) {
    SessionOptions options;
    options.microbatches = microbatches;
    auto session = Session::create(*program, options);
    EXPECT_TRUE(bool(session));
    for (const char *name : {"w"})
      fill(*(*session)->weight(name), 0.5f);
    fill(*(*session)->input("x"), 0.25f);
    return std::move(*session);
  }
  static void fill(const TensorRef &tensor, float value) {
    std::fill_n(reinterpret_cast<float *>(tensor.data), tensor.type.numElements(), value);
  }
  /// Peak of the second of two steps, above what was there before the session.
  int64_t measure(int64_t microbatches) {
    int64_t before = memoryCounts().current;
    std::unique_ptr<Session> session = start(microbatches);
    for (int64_t step = 1; step <= 2; ++step) {
      resetMemoryPeak();
      for (int64_t index = 0; index < microbatches; ++index)
        EXPECT_FALSE(bool(session->runMicrobatch(step, index)));
      EXPECT_FALSE(bool(session->runUpdate(step)));
    }
    return memoryCounts().peak - before;
  }

  std::unique_ptr<Program> program;
};

constexpr int64_t kSmall = 32 * 64 * 4, kLarge = 64 * 64 * 4;

TEST_F(MemoryTest, PeakOfActivationsCountsViewsOnce) {
  ProgramCosts costs = computeCosts(*program, 1);
  EXPECT_EQ(costs.stateBytes, 2 * kLarge + kSmall);
  EXPECT_EQ(costs.gradientBytes, kLarge);
  // While %7 is made: %4, %6 and %7; or while %4 is: %0, %1 (through its views), %3 and %4.
  EXPECT_EQ(costs.activationPeakBytes, std::max(2 * kLarge + kSmall, kLarge + 3 * kSmall));
}

TEST_F(MemoryTest, MeasuredPeakIsThePlannedOne) {
  // Scalars (seed, step, random state) are all that the plan leaves out.
  constexpr int64_t kScalars = 64;
  for (int64_t microbatches : {1, 2, 3}) {
    int64_t planned = computeCosts(*program, microbatches).peakBytes;
    int64_t measured = measure(microbatches);
    EXPECT_GE(measured, planned) << microbatches;
    EXPECT_LE(measured, planned + kScalars) << microbatches;
  }
}

TEST_F(MemoryTest, NothingIsLeftBehind) {
  int64_t before = memoryCounts().current;
  measure(2);
  EXPECT_EQ(memoryCounts().current, before);
}

TEST_F(MemoryTest, UpdateWritesInPlace) {
  std::unique_ptr<Session> session = start(1);
  const char *data = session->weight("w")->data;
  const char *state = session->optimizerState("w", "momentum_buffer")->data;
  ASSERT_FALSE(bool(session->runMicrobatch(1, 0)));
  auto gradient = session->result("grad.w");
  ASSERT_TRUE(bool(gradient));
  float expected = 0.5f - 0.5f * reinterpret_cast<const float *>(gradient->data)[0];
  ASSERT_FALSE(bool(session->runUpdate(1)));
  EXPECT_EQ(session->weight("w")->data, data);
  EXPECT_EQ(session->optimizerState("w", "momentum_buffer")->data, state);
  EXPECT_FLOAT_EQ(reinterpret_cast<const float *>(data)[0], expected);
}

TEST_F(MemoryTest, MisuseIsAnError) {
  std::unique_ptr<Session> session = start(2);
  EXPECT_EQ(llvm::toString(session->runUpdate(1)),
            "there are no gradients for an update of step 1: run its microbatches first");
  EXPECT_NE(llvm::toString(session->runMicrobatch(1, 2)), "");
  EXPECT_NE(llvm::toString(session->runMicrobatch(0, 0)), "");
  EXPECT_NE(llvm::toString(session->weight("nothing").takeError()), "");
  EXPECT_NE(llvm::toString(session->result("grad.w").takeError()), "");
  EXPECT_TRUE(std::isnan(session->loss()));
}
} // namespace
