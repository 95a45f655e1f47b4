//===- RandomBucketsTest.cpp - buckets change nothing ------------------------===//
//
// Random programs (parameter sets, element types, uses, optimizer groups, reductions), random
// ranks, microbatches and bucket sizes: --bucket-gradients gives the parameters that one reduction
// a gradient gives, after two steps.
//
//===----------------------------------------------------------------------===//

#include "cleave/Session.h"
#include "passes/gradients/Passes.h"
#include "test/unit/LoadProgram.h"
#include "test/unit/passes/gradients/BucketPrograms.h"
#include "test/unit/runtime/comm/ThreadRanks.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <cmath>
#include <mutex>
#include <random>

using namespace cleave::runtime;
using namespace cleave::test;
using llvm::formatv;

namespace {
class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  Case make() {
    Case result;
    int count = 1 + pick(8);
    for (int i = 0; i < count; ++i) {
      Parameter parameter;
      parameter.name = "p" + std::to_string(i);
      std::string shape;
      for (int rank = pick(3); rank > 0; --rank)
        shape += std::to_string(1 + pick(9)) + "x";
      const char *elements[] = {"f32", "f32", "f32", "f64", "bf16"};
      llvm::StringRef element = elements[pick(5)];
      // A bf16 scalar times an f32 one would be f32.
      if (element == "bf16" && shape.empty())
        shape = "1x";
      parameter.type = ("tensor<" + shape + element + ">").str();
      parameter.isFrozen = i > 0 && pick(8) == 0;
      parameter.isReduced = pick(8) != 0;
      parameter.uses = 1 + pick(3);
      parameter.isFast = pick(4) == 0;
      parameter.isDecayed = pick(4) == 0;
      parameter.readiness = pick(1000);
      result.parameters.push_back(parameter);
    }
    int ranks[] = {1, 2, 4}, microbatches[] = {1, 2, 8};
    result.ranks = ranks[pick(3)];
    result.microbatches = microbatches[pick(3)];
    const char *sizes[] = {"0.000001", "0.0001", "0.0005", "25"};
    result.options =
        formatv("bucket-size-mb={0} first-bucket-mb={1}", sizes[pick(4)], sizes[pick(4)]);
    if (pick(2))
      result.options += " require-accumulations=" + std::to_string(result.microbatches);
    if (pick(4) == 0)
      result.options += " reduce-in-fp32";
    return result;
  }

private:
  int pick(int count) { return int(random() % count); }
  std::mt19937 random;
};
} // namespace

/// What passes make of `text`; empty if they refuse it.
static std::string runPasses(const std::string &text, const std::string &pipeline) {
  static std::once_flag registered;
  std::call_once(registered, [] { cleave::gradients::registerPasses(); });
  mlir::DialectRegistry registry;
  registry.insert<cleave::aten::AtenDialect, cleave::dist::DistDialect, cleave::train::TrainDialect,
                  mlir::func::FuncDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  mlir::PassManager passes(&context);
  if (!module || failed(mlir::parsePassPipeline(pipeline, passes)) || failed(passes.run(*module)))
    return "";
  std::string result;
  llvm::raw_string_ostream os(result);
  module->print(os);
  return result;
}

static std::string putIntoBuckets(const std::string &text, const std::string &options) {
  return runPasses(text, "bucket-gradients{" + options + "}");
}

/// Fills a tensor with numbers that depend on `salt` and are exact in every type.
static void fill(TensorRef tensor, unsigned salt) {
  std::mt19937 random(salt);
  int64_t count = 1;
  for (int64_t size : tensor.type.shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i) {
    double value = (int(random() % 129) - 64) / 64.0;
    if (tensor.type.dtype == DType::F64)
      reinterpret_cast<double *>(tensor.data)[i] = value;
    else if (tensor.type.dtype == DType::F32)
      reinterpret_cast<float *>(tensor.data)[i] = float(value);
    else
      reinterpret_cast<uint16_t *>(tensor.data)[i] =
          uint16_t(llvm::bit_cast<uint32_t>(float(value)) >> 16);
  }
}

static std::vector<double> read(ConstTensorRef tensor) {
  std::vector<double> values;
  int64_t count = 1;
  for (int64_t size : tensor.type.shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i)
    if (tensor.type.dtype == DType::F64)
      values.push_back(reinterpret_cast<const double *>(tensor.data)[i]);
    else if (tensor.type.dtype == DType::F32)
      values.push_back(reinterpret_cast<const float *>(tensor.data)[i]);
    else
      values.push_back(llvm::bit_cast<float>(
          uint32_t(reinterpret_cast<const uint16_t *>(tensor.data)[i]) << 16));
  return values;
}

/// Two steps; the parameters afterwards, rank by rank and parameter by parameter.
static llvm::Expected<std::vector<std::vector<double>>>
runSteps(const Program &program, const Case &test, Communicator *communicator) {
  SessionOptions options;
  options.communicator = communicator;
  options.microbatches = test.microbatches;
  auto session = Session::create(program, options);
  if (!session)
    return session.takeError();
  int rank = communicator ? communicator->rank() : 0;
  for (auto [index, weight] : llvm::enumerate(program.weights())) {
    auto data = (*session)->weight(weight.name);
    if (!data)
      return data.takeError();
    fill(*data, 17 * index + 1 + (test.isSharded ? 1000 * rank : 0));
  }
  for (int step = 1; step <= 2; ++step) {
    for (int index = 0; index < test.microbatches; ++index) {
      auto input = (*session)->input("x");
      if (!input)
        return input.takeError();
      fill(*input, 1000 * step + 10 * index + rank);
      if (llvm::Error error = (*session)->runMicrobatch(step, index))
        return error;
    }
    if (llvm::Error error = (*session)->runUpdate(step))
      return error;
  }
  std::vector<std::vector<double>> result;
  for (const ValueInfo &weight : program.weights()) {
    auto data = (*session)->weight(weight.name);
    if (!data)
      return data.takeError();
    result.push_back(read(ConstTensorRef(*data)));
  }
  return result;
}

using Results = std::vector<std::vector<std::vector<double>>>;

static Results runRanks(const Program &program, const Case &test) {
  Results results(test.ranks);
  auto body = [&](Communicator *communicator) -> llvm::Error {
    auto values = runSteps(program, test, communicator);
    if (!values)
      return values.takeError();
    results[communicator ? communicator->rank() : 0] = std::move(*values);
    // No rank leaves before all have their last sums.
    return communicator ? communicator->finish() : llvm::Error::success();
  };
  if (test.ranks == 1) {
    if (llvm::Error error = body(nullptr))
      ADD_FAILURE() << llvm::toString(std::move(error));
    return results;
  }
  for (const test::Outcome &outcome :
       test::runThreadRanks(test.ranks, std::chrono::seconds(60),
                            [&](Communicator &communicator) { return body(&communicator); }))
    EXPECT_FALSE(outcome.failed) << outcome.message;
  return results;
}

static void expectEqual(const Case &test, const Program &program, const Results &found,
                        const Results &expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t rank = 0; rank < found.size(); ++rank) {
    ASSERT_EQ(found[rank].size(), expected[rank].size());
    for (size_t weight = 0; weight < found[rank].size(); ++weight) {
      DType dtype = program.weights()[weight].type.dtype;
      // bf16 has 8 bits: sums in another order differ in the last of them, which is that of the
      // largest partial sum, not of what is left of it; with reduce-in-fp32 they are rounded later.
      bool isNarrow = dtype == DType::BF16;
      double tolerance = isNarrow ? 1.5e-1 : dtype == DType::F64 ? 1e-13 : 1e-5;
      bool isBitwise =
          test.isBitwise() && !(isNarrow && test.options.find("fp32") != std::string::npos);
      for (size_t i = 0; i < found[rank][weight].size(); ++i) {
        double a = found[rank][weight][i], b = expected[rank][weight][i];
        if (isBitwise)
          ASSERT_EQ(a, b) << "rank " << rank << ", parameter " << weight << "[" << i << "]";
        else
          ASSERT_NEAR(a, b, tolerance * std::max(1.0, std::abs(b)))
              << "rank " << rank << ", parameter " << weight << "[" << i << "]";
      }
    }
  }
}

TEST(RandomBuckets, ChangeNothing) {
  unsigned seed = std::random_device()();
  if (const char *text = std::getenv("CLEAVE_TEST_SEED"))
    seed = unsigned(std::strtoul(text, nullptr, 10));
  std::printf("seed %u (CLEAVE_TEST_SEED repeats it)\n", seed);
  for (unsigned number = 0; number < 300; ++number) {
    Case test = Generator(seed + number).make();
    SCOPED_TRACE("case " + std::to_string(number) + ": " + std::to_string(test.ranks) + " ranks, " +
                 std::to_string(test.microbatches) + " microbatches, " + test.options);
    std::string text = writeProgram(test), changed = putIntoBuckets(text, test.options);
    ASSERT_FALSE(changed.empty()) << text;
    auto plain = load(text), buckets = load(changed);
    ASSERT_TRUE(plain && buckets);
    Results expected = runRanks(*plain, test);
    Results found = runRanks(*buckets, test);
    expectEqual(test, *plain, found, expected);
    if (HasFatalFailure() || HasNonfatalFailure())
      return;
  }
}

//===----------------------------------------------------------------------===//
// Sharded parameters
//===----------------------------------------------------------------------===//

TEST(ScatteredBuckets, ChangeNothing) {
  for (int dp : {1, 2})
    for (int microbatches : {1, 3})
      for (const char *size : {"0.000001", "0.0001", "25"}) {
        Case test;
        test.ranks = 2 * dp;
        test.isSharded = true;
        test.microbatches = microbatches;
        test.options = formatv("bucket-size-mb={0} first-bucket-mb={0} require-accumulations={1}",
                               size, microbatches);
        SCOPED_TRACE(std::to_string(test.ranks) + " ranks, " + test.options);
        std::string text = writeShardedProgram(dp), changed = putIntoBuckets(text, test.options);
        ASSERT_NE(changed.find("scatter [\"fsdp\"]"), std::string::npos) << text << changed;
        EXPECT_EQ(changed.find("dist.reduce_scatter"), std::string::npos);
        EXPECT_EQ(changed.find("@reduce"), std::string::npos);
        auto plain = load(text), buckets = load(changed);
        ASSERT_TRUE(plain && buckets);
        Results expected = runRanks(*plain, test);
        Results found = runRanks(*buckets, test);
        // Two ranks along each axis: every sum is of two numbers.
        ASSERT_EQ(found, expected);
        ASSERT_NE(found[0], found[1]); // shards differ
      }
}

//===----------------------------------------------------------------------===//
// Without an update
//===----------------------------------------------------------------------===//

/// The step's gradient of "w", for each of two steps, by rank.
static Results runWithoutUpdate(const Program &program, int ranks, int microbatches) {
  Results results(ranks);
  auto body = [&](Communicator &communicator) -> llvm::Error {
    SessionOptions options;
    options.communicator = &communicator;
    options.microbatches = microbatches;
    auto session = Session::create(program, options);
    if (!session)
      return session.takeError();
    fill(*(*session)->weight("w"), 1);
    for (int step = 1; step <= 2; ++step) {
      for (int index = 0; index < microbatches; ++index) {
        fill(*(*session)->input("x"), 1000 * step + 10 * index + communicator.rank());
        if (llvm::Error error = (*session)->runMicrobatch(step, index))
          return error;
      }
      auto gradient = (*session)->result("grad.w");
      if (!gradient)
        return gradient.takeError();
      results[communicator.rank()].push_back(read(*gradient));
    }
    return communicator.finish();
  };
  for (const test::Outcome &outcome :
       test::runThreadRanks(ranks, std::chrono::seconds(60),
                            [&](Communicator &communicator) { return body(communicator); }))
    EXPECT_FALSE(outcome.failed) << outcome.message;
  return results;
}

TEST(WithoutUpdate, GradientsGatherAndAreReduced) {
  std::string text = R"(
    func.func @microbatch(%w: tensor<5xf64> {train.role = #train.role<parameter "w">},
                          %x: tensor<5xf64> {train.role = #train.role<input "x" batch 0>})
        -> (tensor<5xf64> {train.role = #train.role<gradient "w">})
        attributes {train.phase = #train.phase<microbatch>} {
      %0 = aten.mul(%x, %w) : (tensor<5xf64>, tensor<5xf64>) -> tensor<5xf64>
      return %0 : tensor<5xf64>
    })";
  constexpr int kRanks = 2, kMicrobatches = 3;
  auto value = [](unsigned salt) {
    std::vector<double> values(5);
    fill({{DType::F64, {5}}, reinterpret_cast<char *>(values.data())}, salt);
    return values;
  };
  for (const char *pipeline : {"sync-gradients", "sync-gradients,bucket-gradients"}) {
    auto loaded = load(runPasses(text, pipeline));
    ASSERT_TRUE(loaded);
    Results found = runWithoutUpdate(*loaded, kRanks, kMicrobatches);
    for (int step = 1; step <= 2; ++step) {
      std::vector<double> expected(5), weight = value(1);
      for (int index = 0; index < kMicrobatches; ++index)
        for (int rank = 0; rank < kRanks; ++rank)
          for (auto [sum, w, x] :
               llvm::zip(expected, weight, value(1000 * step + 10 * index + rank)))
            sum += w * x;
      for (int rank = 0; rank < kRanks; ++rank)
        EXPECT_EQ(found[rank][step - 1], expected) << pipeline << ", step " << step;
    }
  }
}

//===----------------------------------------------------------------------===//
// Out of order
//===----------------------------------------------------------------------===//

namespace {
/// One rank's session of a program with one bucket.
struct Misuse : testing::Test {
  Case test;
  std::unique_ptr<Program> loaded;
  std::unique_ptr<Session> session;

  void start(int microbatches, const std::string &options) {
    Parameter parameter;
    parameter.name = "p0";
    parameter.type = "tensor<3xf32>";
    test.parameters.push_back(parameter);
    test.microbatches = microbatches;
    loaded = load(putIntoBuckets(writeProgram(test), options));
    SessionOptions sessionOptions;
    sessionOptions.microbatches = microbatches;
    auto made = Session::create(*loaded, sessionOptions);
    ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
    session = std::move(*made);
    fill(*session->weight("p0"), 1);
    fill(*session->input("x"), 2);
  }
  std::string messageOf(llvm::Error error) { return llvm::toString(std::move(error)); }
};
} // namespace

TEST_F(Misuse, OneMoreContributionAfterTheReduction) {
  start(2, "");
  ASSERT_EQ(messageOf(session->runMicrobatch(1, 0)), "");
  ASSERT_EQ(messageOf(session->runMicrobatch(1, 1)), "");
  std::string message = messageOf(session->runMicrobatch(1, 1));
  EXPECT_NE(message.find("bucket 'bucket0' (\"p0\") has all 2 microbatches of the step and is "
                         "reduced; one more contribution, of \"p0\", needs a new step"),
            std::string::npos)
      << message;
}

TEST_F(Misuse, UpdateBeforeTheLastMicrobatch) {
  start(3, "");
  ASSERT_EQ(messageOf(session->runMicrobatch(1, 0)), "");
  std::string message = messageOf(session->runUpdate(1));
  EXPECT_NE(message.find("bucket 'bucket0' (\"p0\") has 1 of the step's 3 microbatches"),
            std::string::npos)
      << message;
}

TEST_F(Misuse, AnotherNumberOfMicrobatches) {
  start(2, "require-accumulations=2");
  SessionOptions options;
  options.microbatches = 4;
  auto made = Session::create(*loaded, options);
  ASSERT_FALSE(bool(made));
  EXPECT_NE(llvm::toString(made.takeError())
                .find("bucket 'bucket0' requires 2 accumulations, but a step has 4 microbatches"),
            std::string::npos);
}

TEST_F(Misuse, AfterAFailureANewStepBeginsWell) {
  start(2, "");
  ASSERT_EQ(messageOf(session->runMicrobatch(1, 0)), "");
  // The first step is given up; the next one begins with an empty bucket.
  ASSERT_EQ(messageOf(session->runMicrobatch(2, 0)), "");
  auto once = session->result("grad.p0");
  ASSERT_TRUE(bool(once));
  std::vector<double> after = read(*once);
  ASSERT_EQ(messageOf(session->runMicrobatch(3, 0)), "");
  auto again = session->result("grad.p0");
  ASSERT_TRUE(bool(again));
  EXPECT_EQ(read(*again), after);
}
