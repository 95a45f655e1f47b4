//===- SplitProgramTest.cpp - forward and backward as functions of their own --===//
//
// One computation as a joint microbatch, as forward and backward, and with the backward's weight
// part apart: equal results whenever the weight part runs, and the planned memory.
//
//===----------------------------------------------------------------------===//

#include "cleave/Session.h"
#include "runtime/aten/Allocator.h"
#include "test/unit/LoadProgram.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace cleave::runtime;

namespace {
// Kernels of these ops allocate nothing but their results. The view of the input is saved, the
// buffer is updated in the forward, and its old value is needed later.
constexpr const char *kForward = R"mlir(
    %b1 = aten.exp(%b) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %xt = aten.t(%x) : (tensor<32x64xf32>) -> tensor<64x32xf32>
    %h = aten.mm(%x, %w) : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
    %c = aten.cos(%h) : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %loss = aten.mean(%c) : (tensor<32x64xf32>) -> tensor<f32>
)mlir";
constexpr const char *kInput = R"mlir(
    %i0 = aten.sin(%h) : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %i1 = aten.neg(%i0) : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %d = aten.mul(%i1, %s) : (tensor<32x64xf32>, tensor<f32>) -> tensor<32x64xf32>
)mlir";
constexpr const char *kWeight = R"mlir(
    %g0 = aten.mm(%xt, %d) : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    %g1 = aten.mul(%g0, %b) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %g = train.accumulate %g1 into %a : tensor<64x64xf32>
)mlir";
constexpr const char *kUpdate = R"mlir(
  func.func @update(
      %w: tensor<64x64xf32> {train.role = #train.role<parameter "w">},
      %g: tensor<64x64xf32> {train.role = #train.role<gradient "w">},
      %t: tensor<f32> {train.role = #train.role<step>})
      -> (tensor<64x64xf32> {train.role = #train.role<parameter "w">})
      attributes {train.phase = #train.phase<update>} {
    %lr = train.learning_rate(%t) {base = 0.5 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
    %w1 = train.sgd(%w, %g, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<64x64xf32>
    return %w1 : tensor<64x64xf32>
  }
)mlir";

/// An argument or result: its value's name, type and role.
std::string port(const char *value, const char *type, const char *role) {
  return llvm::formatv("{0}{1}tensor<{2}> {{train.role = #train.role<{3}>}", value,
                       *value ? ": " : "", type, role);
}
std::string function(const char *phase, std::vector<std::string> arguments,
                     std::vector<std::string> results, const std::string &body) {
  return "  func.func @" + std::string(phase) + "(" + llvm::join(arguments, ", ") + ") -> (" +
         llvm::join(results, ", ") + ") attributes {train.phase = #train.phase<" + phase + ">} {" +
         body + "  }\n";
}

const std::string weight = port("%w", "64x64xf32", "parameter \"w\"");
const std::string accumulator = port("%a", "64x64xf32", "accumulator \"w\"");
const std::string buffer = port("%b", "64x64xf32", "buffer \"b\"");
const std::string input = port("%x", "32x64xf32", "input \"x\" batch 0");
const std::string seed = port("%s", "f32", "seed");
const std::string loss = port("", "f32", "loss");
const std::string gradient = port("", "64x64xf32", "gradient \"w\"");
const std::string newBuffer = port("", "64x64xf32", "buffer \"b\"");
std::string saved(const char *value, const char *type, const char *name) {
  return port(value, type, ("saved \"" + std::string(name) + "\"").c_str());
}

std::string jointProgram() {
  return function("microbatch", {weight, accumulator, buffer, input, seed},
                  {loss, gradient, newBuffer},
                  std::string(kForward) + kInput + kWeight +
                      "return %loss, %g, %b1 : tensor<f32>, tensor<64x64xf32>, tensor<64x64xf32>");
}
std::string forwardFunction() {
  return function("forward", {weight, buffer, input},
                  {loss, newBuffer, saved("", "64x32xf32", "xt"), saved("", "32x64xf32", "h"),
                   saved("", "64x64xf32", "b")},
                  std::string(kForward) +
                      "return %loss, %b1, %xt, %h, %b : tensor<f32>, tensor<64x64xf32>, "
                      "tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32>");
}
std::string splitProgram() {
  return forwardFunction() +
         function("backward",
                  {saved("%h", "32x64xf32", "h"), saved("%xt", "64x32xf32", "xt"),
                   saved("%b", "64x64xf32", "b"), accumulator, seed},
                  {gradient}, std::string(kInput) + kWeight + "return %g : tensor<64x64xf32>");
}
std::string splitBackwardProgram() {
  return forwardFunction() +
         function("backward_input", {saved("%h", "32x64xf32", "h"), seed},
                  {saved("", "32x64xf32", "d")},
                  std::string(kInput) + "return %d : tensor<32x64xf32>") +
         function("backward_weight",
                  {saved("%xt", "64x32xf32", "xt"), saved("%b", "64x64xf32", "b"),
                   saved("%d", "32x64xf32", "d"), accumulator},
                  {gradient}, std::string(kWeight) + "return %g : tensor<64x64xf32>");
}
/// The gradients are doubled once per step, the weights are halved.
std::string stepFunctions() {
  return function(
             "unshard", {weight}, {saved("", "64x64xf32", "half")},
             "%0 = aten.mul_scalar(%w, other = 0.5) : (tensor<64x64xf32>) -> tensor<64x64xf32>\n"
             "return %0 : tensor<64x64xf32>") +
         function(
             "reduce", {port("%g", "64x64xf32", "gradient \"w\"")}, {gradient},
             "%0 = aten.mul_scalar(%g, other = 2.0) : (tensor<64x64xf32>) -> tensor<64x64xf32>\n"
             "return %0 : tensor<64x64xf32>");
}

std::unique_ptr<Program> load(const std::string &functions) {
  return cleave::test::load("module @split {\n" + functions + kUpdate + "}\n");
}

class SplitProgramTest : public ::testing::Test {
protected:
  void SetUp() override { installCachingAllocator(); }

  static void fill(const TensorRef &tensor, float start) {
    float *data = reinterpret_cast<float *>(tensor.data);
    for (int64_t i = 0, e = tensor.type.numElements(); i < e; ++i)
      data[i] = std::sin(start + 0.1f * float(i));
  }

  /// Two steps of `microbatches`; every one has other data. All values by name, and the losses.
  static std::vector<std::vector<char>> train(const Program &program, int64_t microbatches,
                                              WeightGradients weightGradients,
                                              int64_t *peakBytes = nullptr) {
    int64_t before = memoryCounts().current;
    SessionOptions options;
    options.microbatches = microbatches;
    options.weightGradients = weightGradients;
    auto session = Session::create(program, options);
    EXPECT_TRUE(bool(session)) << llvm::toString(session.takeError());
    fill(*(*session)->weight("w"), 0.5f);
    fill(*(*session)->weight("b"), 0.25f);
    std::vector<std::vector<char>> values;
    auto keep = [&](const ConstTensorRef &tensor) { values.push_back(tensor.bytes().vec()); };
    for (int64_t step = 1; step <= 2; ++step) {
      resetMemoryPeak();
      for (int64_t index = 0; index < microbatches; ++index) {
        fill(*(*session)->input("x"), float(step * 10 + index));
        llvm::Error error = (*session)->runMicrobatch(step, index);
        EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
        keep(*(*session)->result("loss"));
      }
      keep(*(*session)->result("grad.w"));
      EXPECT_FALSE(bool((*session)->runUpdate(step)));
    }
    if (peakBytes)
      *peakBytes = memoryCounts().peak - before;
    keep(*(*session)->weight("w"));
    keep(*(*session)->weight("b"));
    return values;
  }
};

TEST_F(SplitProgramTest, EveryFormComputesTheSame) {
  auto joint = load(jointProgram()), split = load(splitProgram()),
       splitBackward = load(splitBackwardProgram());
  ASSERT_TRUE(joint && split && splitBackward);
  for (int64_t microbatches : {1, 2, 3}) {
    auto expected = train(*joint, microbatches, WeightGradients::Immediate);
    EXPECT_EQ(train(*split, microbatches, WeightGradients::Immediate), expected);
    EXPECT_EQ(train(*splitBackward, microbatches, WeightGradients::Immediate), expected);
    EXPECT_EQ(train(*splitBackward, microbatches, WeightGradients::Deferred), expected);
  }
}

TEST_F(SplitProgramTest, UnshardAndReduceRunOnceAStep) {
  // `half` in place of the weight, which the joint program then halves itself.
  auto replaceAll = [](std::string text, const std::string &from, const std::string &to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    return text;
  };
  std::string half =
      "%half = aten.mul_scalar(%w, other = 0.5) : (tensor<64x64xf32>) -> tensor<64x64xf32>";
  std::string twice =
      "%g2 = aten.mul_scalar(%g1, other = 2.0) : (tensor<64x64xf32>) -> tensor<64x64xf32>\n"
      "%g = train.accumulate %g2";
  auto joint = load(replaceAll(replaceAll(replaceAll(jointProgram(), "(%x, %w)", "(%x, %half)"),
                                          "%g = train.accumulate %g1", twice),
                               "%b1 =", half + "\n%b1 ="));
  auto split = load(stepFunctions() +
                    replaceAll(splitBackwardProgram(), weight, saved("%w", "64x64xf32", "half")));
  ASSERT_TRUE(joint && split);
  for (int64_t microbatches : {1, 3}) {
    // A factor of two, before or after the sum, changes no bits.
    auto expected = train(*joint, microbatches, WeightGradients::Immediate);
    EXPECT_EQ(train(*split, microbatches, WeightGradients::Immediate), expected);
    EXPECT_EQ(train(*split, microbatches, WeightGradients::Deferred), expected);
  }
}

TEST_F(SplitProgramTest, MeasuredPeakIsThePlannedOne) {
  // Scalars (seed, step, random state, one offset for each microbatch) are left out.
  auto splitBackward = load(splitBackwardProgram()), split = load(splitProgram());
  ASSERT_TRUE(splitBackward && split);
  auto check = [&](const Program &program, int64_t microbatches, WeightGradients when) {
    int64_t measured = 0, planned = computeCosts(program, microbatches, when).peakBytes;
    train(program, microbatches, when, &measured);
    EXPECT_GE(measured, planned) << microbatches;
    EXPECT_LE(measured, planned + 64 * (microbatches + 1)) << microbatches;
  };
  for (int64_t microbatches : {1, 2, 4}) {
    check(*split, microbatches, WeightGradients::Immediate);
    check(*splitBackward, microbatches, WeightGradients::Immediate);
    check(*splitBackward, microbatches, WeightGradients::Deferred);
  }
}

TEST_F(SplitProgramTest, SavedBytesCountViewsAndArgumentsOnce) {
  auto splitBackward = load(splitBackwardProgram());
  ASSERT_TRUE(splitBackward);
  // %h; the view of the input and the buffer are memory of arguments.
  EXPECT_EQ(computeCosts(*splitBackward).savedBytes, 32 * 64 * 4);
}

TEST_F(SplitProgramTest, MisuseIsAnError) {
  auto split = load(splitProgram()), splitBackward = load(splitBackwardProgram());
  ASSERT_TRUE(split && splitBackward);
  SessionOptions options;
  options.weightGradients = WeightGradients::Deferred;
  auto refused = Session::create(*split, options);
  ASSERT_FALSE(bool(refused));
  EXPECT_NE(llvm::toString(refused.takeError())
                .find("has no function of phase backward_weight, so its weight gradients cannot be "
                      "deferred"),
            std::string::npos);
  options.microbatches = 3;
  auto session = Session::create(*splitBackward, options);
  ASSERT_TRUE(bool(session));
  EXPECT_EQ(llvm::toString((*session)->runMicrobatch(1, 1)),
            "expected microbatch 0 of step 1 next, found 1");
}
} // namespace
