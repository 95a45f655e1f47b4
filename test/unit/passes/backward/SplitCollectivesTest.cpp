//===- SplitCollectivesTest.cpp - fully sharded training on several ranks ----===//
//
// Two layers under fully and hybrid sharded data parallelism, written by hand: gathered for use in
// forward and backward, gradients reduced and scattered. With --split-fsdp-collectives, before or
// after --split-backward, ranks train as they did, and as one rank does, with fewer collectives.
//
//===----------------------------------------------------------------------===//

#include "cleave/Session.h"
#include "passes/backward/Passes.h"
#include "test/unit/LoadProgram.h"
#include "test/unit/runtime/comm/ThreadRanks.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <map>
#include <mutex>

using namespace cleave::runtime;
using llvm::formatv;

namespace {
constexpr int64_t kWidth = 8, kExamples = 2, kSteps = 2;

/// The ranks of a mesh: `replicas` groups that each shard the parameters over `shards` ranks.
struct Grid {
  int replicas, shards;
  int ranks() const { return replicas * shards; }
};

/// The program of one rank of `grid`; of one rank, without mesh and collectives.
std::string makeProgram(Grid grid) {
  bool isSharded = grid.ranks() > 1;
  std::string shard = formatv("tensor<{0}x8xf32>", kWidth / grid.shards);
  auto gather = [&](llvm::StringRef result, llvm::StringRef weight) {
    return isSharded ? formatv("{0} = dist.all_gather({1}) dim 0 over @mesh [\"fsdp\"] : {2} -> "
                               "tensor<8x8xf32>\n",
                               result, weight, shard)
                           .str()
                     : formatv("{0} = aten.alias({1}) : (tensor<8x8xf32>) -> tensor<8x8xf32>\n",
                               result, weight)
                           .str();
  };
  auto reduce = [&](llvm::StringRef result, llvm::StringRef gradient) {
    if (!isSharded)
      return formatv("{0} = aten.alias({1}) : (tensor<8x8xf32>) -> tensor<8x8xf32>\n", result,
                     gradient)
          .str();
    std::string text = formatv("{0}s = dist.reduce_scatter sum({1}) dim 0 over @mesh [\"fsdp\"] : "
                               "tensor<8x8xf32> -> {2}\n",
                               result, gradient, shard);
    // Over one replica this is a copy, over several the second half of hybrid sharding.
    text += formatv("{0} = dist.all_reduce sum({0}s) over @mesh [\"dp\"] : {1}\n", result, shard);
    return text;
  };
  std::string text = isSharded ? formatv("dist.mesh @mesh [\"dp\" = {0}, \"fsdp\" = {1}]\n",
                                         grid.replicas, grid.shards)
                                     .str()
                               : "";
  text += R"mlir(
func.func @forward(%w1: SHARD {train.role = #train.role<parameter "w1">},
                   %w2: SHARD {train.role = #train.role<parameter "w2">},
                   %x: tensor<2x8xf32> {train.role = #train.role<input "x" batch 0OVER>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<2x8xf32> {train.role = #train.role<saved "h">},
        tensor<2x8xf32> {train.role = #train.role<saved "r">},
        tensor<2x8xf32> {train.role = #train.role<saved "y">})
    attributes {train.phase = #train.phase<forward>} {
)mlir" + gather("%a", "%w1") +
          gather("%b", "%w2") + R"mlir(
  %at = aten.t(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %h = aten.mm(%x, %at) : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %r = aten.relu(%h) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %bt = aten.t(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = aten.mm(%r, %bt) : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %q = aten.mul(%y, %y) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %loss = aten.sum(%q) : (tensor<2x8xf32>) -> tensor<f32>
  return %loss, %h, %r, %y : tensor<f32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
}
func.func @backward(%w1: SHARD {train.role = #train.role<parameter "w1">},
                    %w2: SHARD {train.role = #train.role<parameter "w2">},
                    %a1: SHARD {train.role = #train.role<accumulator "w1">},
                    %a2: SHARD {train.role = #train.role<accumulator "w2">},
                    %x: tensor<2x8xf32> {train.role = #train.role<input "x" batch 0OVER>},
                    %h: tensor<2x8xf32> {train.role = #train.role<saved "h">},
                    %r: tensor<2x8xf32> {train.role = #train.role<saved "r">},
                    %y: tensor<2x8xf32> {train.role = #train.role<saved "y">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (SHARD {train.role = #train.role<gradient "w1">},
        SHARD {train.role = #train.role<gradient "w2">},
        tensor<2x8xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  %q = aten.mul_scalar(%y, other = 2.0) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %dy = aten.mul(%q, %seed) : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %dyt = aten.t(%dy) : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %d2 = aten.mm(%dyt, %r) : (tensor<8x2xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
)mlir" + reduce("%g2", "%d2") +
          gather("%b", "%w2") + R"mlir(
  %dr = aten.mm(%dy, %b) : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %dh = aten.threshold_backward(%dr, %h, threshold = 0) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %dht = aten.t(%dh) : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %d1 = aten.mm(%dht, %x) : (tensor<8x2xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
)mlir" + reduce("%g1", "%d1") +
          gather("%a", "%w1") + R"mlir(
  %dx = aten.mm(%dh, %a) : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %s1 = train.accumulate %g1 into %a1 : SHARD
  %s2 = train.accumulate %g2 into %a2 : SHARD
  return %s1, %s2, %dx : SHARD, SHARD, tensor<2x8xf32>
}
func.func @update(%w1: SHARD {train.role = #train.role<parameter "w1">},
                  %w2: SHARD {train.role = #train.role<parameter "w2">},
                  %g1: SHARD {train.role = #train.role<gradient "w1">},
                  %g2: SHARD {train.role = #train.role<gradient "w2">},
                  %t: tensor<f32> {train.role = #train.role<step>})
    -> (SHARD {train.role = #train.role<parameter "w1">},
        SHARD {train.role = #train.role<parameter "w2">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 5.0e-02 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  %n1 = train.sgd(%w1, %g1, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : SHARD
  %n2 = train.sgd(%w2, %g2, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : SHARD
  return %n1, %n2 : SHARD, SHARD
}
)mlir";
  auto replaceAll = [&](const std::string &from, const std::string &to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  replaceAll("SHARD", shard);
  replaceAll("OVER", isSharded ? " over [\"dp\", \"fsdp\"]" : "");
  return text;
}

enum class Form { Whole, Collectives, CollectivesThenBackward, BackwardThenCollectives };

std::unique_ptr<Program> load(Grid grid, Form form) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::func::FuncDialect, cleave::aten::AtenDialect, cleave::dist::DistDialect,
                      cleave::train::TrainDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(makeProgram(grid), &context);
  EXPECT_TRUE(module);
  mlir::PassManager passes(&context);
  if (form == Form::BackwardThenCollectives)
    passes.addPass(cleave::backward::createSplitBackward());
  if (form != Form::Whole)
    passes.addPass(cleave::backward::createSplitFsdpCollectives());
  if (form == Form::CollectivesThenBackward)
    passes.addPass(cleave::backward::createSplitBackward());
  EXPECT_TRUE(succeeded(passes.run(*module)));
  return cleave::test::load(llvm::formatv("{0}", *module));
}

struct Outcome {
  /// w1 and w2, whole, after the last step.
  std::vector<float> parameters = std::vector<float>(2 * kWidth * kWidth);
  std::map<std::string, int> collectives; ///< of all steps, of one rank
};

/// Element `i` of what the whole run knows as `what`: the same for any number of ranks.
float element(int64_t what, int64_t i) {
  return std::sin(0.7f * float(what) + 0.3f * float(i));
}

llvm::Error runRank(const Program &program, Grid grid, int64_t microbatches, WeightGradients when,
                    Communicator *communicator, Outcome &outcome, std::mutex &mutex) {
  int rank = communicator ? communicator->rank() : 0;
  std::map<std::string, int> collectives;
  SessionOptions options;
  options.communicator = communicator;
  options.microbatches = microbatches;
  options.weightGradients = when;
  options.onOp = [&](const OpEvent &event) {
    if (event.name.starts_with("dist."))
      ++collectives[event.name.str()];
  };
  auto session = Session::create(program, options);
  if (!session)
    return session.takeError();
  int64_t rows = kWidth / grid.shards, first = rank % grid.shards * rows * kWidth;
  for (int64_t w = 0; w < 2; ++w) {
    auto weight = (*session)->weight(w ? "w2" : "w1");
    if (!weight)
      return weight.takeError();
    for (int64_t i = 0; i < rows * kWidth; ++i)
      reinterpret_cast<float *>(weight->data)[i] = 0.3f * element(w, first + i);
  }
  for (int64_t step = 1; step <= kSteps; ++step) {
    for (int64_t index = 0; index < microbatches; ++index) {
      auto input = (*session)->input("x");
      if (!input)
        return input.takeError();
      int64_t batch = 100 * step + rank * microbatches + index;
      for (int64_t i = 0; i < kExamples * kWidth; ++i)
        reinterpret_cast<float *>(input->data)[i] = element(batch, i);
      if (llvm::Error error = (*session)->runMicrobatch(step, index))
        return error;
    }
    if (llvm::Error error = (*session)->runUpdate(step))
      return error;
  }
  {
    std::lock_guard lock(mutex);
    for (int64_t w = 0; w < 2; ++w)
      if (rank < grid.shards)
        std::copy_n(reinterpret_cast<float *>((*session)->weight(w ? "w2" : "w1")->data),
                    rows * kWidth, outcome.parameters.begin() + w * kWidth * kWidth + first);
    if (rank == 0)
      outcome.collectives = collectives;
  }
  return communicator ? communicator->finish() : llvm::Error::success();
}

Outcome train(Grid grid, Form form, int64_t microbatches,
              WeightGradients when = WeightGradients::Immediate) {
  Outcome outcome;
  std::mutex mutex;
  auto program = load(grid, form);
  if (!program)
    return outcome;
  if (grid.ranks() == 1) {
    llvm::Error error = runRank(*program, grid, microbatches, when, nullptr, outcome, mutex);
    EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
    return outcome;
  }
  for (const test::Outcome &rank : test::runThreadRanks(
           grid.ranks(), std::chrono::seconds(60), [&](Communicator &communicator) {
             return runRank(*program, grid, microbatches, when, &communicator, outcome, mutex);
           }))
    EXPECT_FALSE(rank.failed) << rank.message;
  return outcome;
}

void expectNear(const std::vector<float> &found, const std::vector<float> &expected) {
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-6) << i;
}

TEST(SplitFsdpCollectives, TrainsAsOneRankWithOneCollectiveAStep) {
  for (Grid grid : {Grid{1, 2}, Grid{1, 4}, Grid{2, 2}})
    for (int64_t microbatches : {1, 3}) {
      SCOPED_TRACE(
          formatv("{0} x {1} ranks, {2} microbatches", grid.replicas, grid.shards, microbatches)
              .str());
      Outcome one = train({1, 1}, Form::Whole, microbatches * grid.ranks());
      Outcome whole = train(grid, Form::Whole, microbatches);
      expectNear(whole.parameters, one.parameters);
      EXPECT_EQ(whole.collectives["dist.all_gather"], 4 * microbatches * kSteps);
      EXPECT_EQ(whole.collectives["dist.reduce_scatter"], 2 * microbatches * kSteps);

      Outcome split = train(grid, Form::Collectives, microbatches);
      expectNear(split.parameters, one.parameters);
      // The sums over microbatches and over ranks have changed places.
      if (microbatches == 1)
        EXPECT_EQ(split.parameters, whole.parameters);
      EXPECT_EQ(split.collectives["dist.all_gather"], 2 * kSteps);
      EXPECT_EQ(split.collectives["dist.reduce_scatter"], 2 * kSteps);
      EXPECT_EQ(split.collectives["dist.all_reduce"], 2 * kSteps);

      for (Form form : {Form::CollectivesThenBackward, Form::BackwardThenCollectives})
        for (WeightGradients when : {WeightGradients::Immediate, WeightGradients::Deferred}) {
          Outcome halves = train(grid, form, microbatches, when);
          EXPECT_EQ(halves.parameters, split.parameters);
          EXPECT_EQ(halves.collectives, split.collectives);
        }
    }
}
} // namespace
