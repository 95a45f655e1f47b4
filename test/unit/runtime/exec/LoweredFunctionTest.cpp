//===- LoweredFunctionTest.cpp - planned memory changes no value -------------===//
//
// One function with what the runtime does with results: views, overloads that write into given
// tensors, operators that ask for memory, several results, results that turn out to be views or to
// have gaps, operands that are overwritten, accumulators. Run as it is, and lowered by hand.
//
//===----------------------------------------------------------------------===//

#include "runtime/aten/Allocator.h"
#include "test/unit/runtime/exec/ProgramText.h"

using namespace cleave::runtime;

namespace {
// `{memory = ...}` becomes `exec.memory` in the lowered program, and goes in the other.
constexpr const char *kProgram = R"mlir(
module @lowered {
  func.func @microbatch(
      %w: tensor<16x16xf32> {train.role = #train.role<parameter "w">},
      %b: tensor<16xf32> {train.role = #train.role<parameter "b">},
      %a: tensor<16x16xf32> {train.role = #train.role<accumulator "w">},
      %x: tensor<8x16xf32> {train.role = #train.role<input "x" batch 0>})
      -> (tensor<8x16xf32> {train.role = #train.role<output "0" batch 0>},
          tensor<16x16xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>LOWERED} {
    %0 = aten.mm(%x, %w) {memory = [#exec.at<0>]} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %1 = aten.add(%0, %b) {memory = [#exec.same<0>]} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %2, %3, %4 = aten.native_layer_norm(%1, normalized_shape = [16], none, %b, eps = 1.0e-5) {memory = [#exec.at<512>, #exec.at<1024>, #exec.at<1088>]} : (tensor<8x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8x1xf32>, tensor<8x1xf32>)
    %5 = aten.t(%2) {memory = [#exec.same<0>]} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %6 = aten.gelu(%5) {memory = [#exec.at<1152>]} : (tensor<16x8xf32>) -> tensor<16x8xf32>
    %7 = aten.mul(%5, %6) {memory = [#exec.same<1>]} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %8 = aten.mul_scalar(%7, other = 0.5) {memory = [#exec.at<4096>]} : (tensor<16x8xf32>) -> tensor<16x8xf32>
    %9 = aten.mm(%8, %1) {memory = [#exec.at<2048>]} : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %10 = train.accumulate %9 into %a {memory = [#exec.same<1>]} : tensor<16x16xf32>
    %11 = aten.cat([%1, %2]) {memory = [#exec.at<3072>]} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %12:2 = aten.split(%11, split_size = 8) {memory = [#exec.same<0>, #exec.same<0>]} : (tensor<16x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
    %13 = aten.clone(%12#1) {memory = [#exec.at<1152>]} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %14 = aten.add(%12#0, %13) {memory = [#exec.apart]} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    return %14, %10 : tensor<8x16xf32>, tensor<16x16xf32>
  }
  func.func @update(
      %w: tensor<16x16xf32> {train.role = #train.role<parameter "w">},
      %g: tensor<16x16xf32> {train.role = #train.role<gradient "w">},
      %m: tensor<16x16xf32> {train.role = #train.role<optimizer_state "w" slot "momentum_buffer">},
      %t: tensor<f32> {train.role = #train.role<step>})
      -> (tensor<16x16xf32> {train.role = #train.role<parameter "w">},
          tensor<16x16xf32> {train.role = #train.role<optimizer_state "w" slot "momentum_buffer">})
      attributes {train.phase = #train.phase<update>LOWERED} {
    %lr = train.learning_rate(%t) {base = 0.5 : f64, schedule = #train.schedule<constant>, memory = [#exec.at<0>]} : (tensor<f32>) -> tensor<f64>
    %w1, %m1 = train.sgd(%w, %g, %m, %t, %lr) {momentum = 0.5 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64, memory = [#exec.same<0>, #exec.same<2>]} : tensor<16x16xf32>
    return %w1, %m1 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}
)mlir";

std::string unlowered() {
  return withoutPlan(kProgram);
}
std::string lowered() {
  return withPlan(kProgram, "#exec.lowered<cpu, arena = 4608, alignment = 64>");
}

class LoweredFunctionTest : public ::testing::Test {
protected:
  void SetUp() override { installCachingAllocator(); }

  static std::unique_ptr<Session> start(const Program &program, int64_t microbatches) {
    SessionOptions options;
    options.microbatches = microbatches;
    auto session = Session::create(program, options);
    EXPECT_TRUE(bool(session)) << llvm::toString(session.takeError());
    fill(*(*session)->weight("w"), 0.5f);
    fill(*(*session)->weight("b"), 0.25f);
    return std::move(*session);
  }

  /// All values of three steps of `microbatches`, each with other data.
  static std::vector<std::vector<char>> train(const Program &program, int64_t microbatches) {
    std::unique_ptr<Session> session = start(program, microbatches);
    std::vector<std::vector<char>> values;
    auto keep = [&](const ConstTensorRef &tensor) { values.push_back(tensor.bytes().vec()); };
    for (int64_t step = 1; step <= 3; ++step) {
      for (int64_t index = 0; index < microbatches; ++index) {
        fill(*session->input("x"), float(step * 10 + index));
        llvm::Error error = session->runMicrobatch(step, index);
        EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
        keep(*session->result("output.0"));
      }
      keep(*session->result("grad.w"));
      llvm::Error error = session->runUpdate(step);
      EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
      keep(*session->weight("w"));
      keep(*session->optimizerState("w", "momentum_buffer"));
    }
    return values;
  }
};

TEST_F(LoweredFunctionTest, ComputesTheSameBits) {
  auto plain = load(unlowered()), planned = load(lowered());
  ASSERT_TRUE(plain && planned);
  for (int64_t microbatches : {1, 3})
    EXPECT_TRUE(train(*planned, microbatches) == train(*plain, microbatches)) << microbatches;
}

TEST_F(LoweredFunctionTest, AllocatesNothingButWhatIsApart) {
  auto planned = load(lowered());
  ASSERT_TRUE(planned);
  std::unique_ptr<Session> session = start(*planned, 1);
  fill(*session->input("x"), 1.0f);
  for (int64_t step = 1; step <= 2; ++step) {
    int64_t before = memoryCounts().current;
    resetMemoryPeak();
    ASSERT_FALSE(bool(session->runMicrobatch(step, 0)));
    // The output, and the gradient, which the first microbatch has no accumulator for.
    constexpr int64_t kOutput = 8 * 16 * 4, kGradient = 16 * 16 * 4;
    int64_t released = step == 1 ? 0 : kOutput; // of the step before
    EXPECT_EQ(memoryCounts().tensorPeak, before - released + kOutput + kGradient) << step;
    ASSERT_FALSE(bool(session->runUpdate(step)));
  }
}

TEST_F(LoweredFunctionTest, ParametersAreUpdatedInPlace) {
  auto planned = load(lowered());
  ASSERT_TRUE(planned);
  std::unique_ptr<Session> session = start(*planned, 1);
  fill(*session->input("x"), 1.0f);
  const char *weight = session->weight("w")->data;
  for (int64_t step = 1; step <= 2; ++step) {
    ASSERT_FALSE(bool(session->runMicrobatch(step, 0)));
    ASSERT_FALSE(bool(session->runUpdate(step)));
    EXPECT_EQ(session->weight("w")->data, weight);
  }
}

TEST_F(LoweredFunctionTest, OutputsOutliveTheRunsThatFollow) {
  auto planned = load(lowered());
  ASSERT_TRUE(planned);
  SessionOptions options;
  options.microbatches = 2;
  options.keepOutputs = true;
  auto session = Session::create(*planned, options);
  ASSERT_TRUE(bool(session)) << llvm::toString(session.takeError());
  fill(*(*session)->weight("w"), 0.5f);
  fill(*(*session)->weight("b"), 0.25f);
  std::vector<std::vector<char>> seen;
  for (int64_t index = 0; index < 2; ++index) {
    fill(*(*session)->input("x"), float(index));
    ASSERT_FALSE(bool((*session)->runMicrobatch(1, index)));
    seen.push_back((*session)->result("output.0")->bytes().vec());
  }
  ASSERT_FALSE(bool((*session)->runUpdate(1)));
  std::vector<ConstTensorRef> kept = (*session)->keptOutputs("output.0");
  ASSERT_EQ(kept.size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(kept[i].bytes() == llvm::ArrayRef(seen[i]));
  EXPECT_TRUE(seen[0] != seen[1]);
}

} // namespace
