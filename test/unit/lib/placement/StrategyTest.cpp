//===- StrategyTest.cpp - strategies against the types' algebra ------------===//
//
// For every op of the aten and train dialects' own test programs: `inferAxis` is asked what the
// results of each strategy's operands are, and each assignment of operands that it allows must be
// a strategy.
//
//===----------------------------------------------------------------------===//

#include "lib/placement/Strategy.h"
#include "dialects/Register.h"
#include "lib/typing/AxisInference.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <gtest/gtest.h>

#include <set>

using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using mlir::RankedTensorType;
using sharding::OpKind;
using sharding::ShardingRule;

namespace {

std::vector<AxisOperand> toOperands(mlir::Operation *op, llvm::ArrayRef<AxisPlacement> placements) {
  std::vector<AxisOperand> operands(placements.size());
  for (size_t i = 0; i < placements.size(); ++i)
    if (mlir::isa<RankedTensorType>(op->getOperand(i).getType()))
      operands[i].placement = placements[i];
  return operands;
}

std::string describe(mlir::Operation *op, const AxisStrategy &strategy) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os);
  os << " as";
  for (AxisPlacement placement : strategy.operands)
    os << " " << placement;
  os << " ->";
  for (AxisPlacement placement : strategy.results)
    os << " " << placement;
  return text;
}

/// What is I in an inferred choice (constants) is R in a placed program.
bool gives(mlir::Operation *op, const AxisChoice &choice, const AxisStrategy &strategy) {
  for (auto [i, placement] : llvm::enumerate(choice.results)) {
    AxisPlacement result = placement.isInvariant() ? AxisPlacement::replicate() : placement;
    if (mlir::isa<RankedTensorType>(op->getResult(i).getType()) && result != strategy.results[i])
      return false;
  }
  return true;
}

/// R, P, and an even S of each dimension.
std::vector<AxisPlacement> placementsOf(mlir::Type type, int64_t ranks) {
  std::vector<AxisPlacement> all = {AxisPlacement::replicate()};
  auto tensor = mlir::dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return all;
  if (dist::isReducible(dist::Reduction::Sum, tensor.getElementType()))
    all.push_back(AxisPlacement::partial());
  for (auto [dim, size] : llvm::enumerate(tensor.getShape()))
    if (size && size % ranks == 0)
      all.push_back(AxisPlacement::shard(dim));
  return all;
}

class Strategies : public testing::Test {
protected:
  Strategies() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
  }

  template <typename Check> void forEachOp(Check check) {
    for (llvm::StringRef folder : {"test/dialects/aten", "test/dialects/train"}) {
      std::error_code error;
      std::string root = (llvm::Twine(CLEAVE_SOURCE_DIR) + "/" + folder).str();
      std::set<std::string> files;
      for (llvm::sys::fs::directory_iterator it(root, error), end; it != end && !error;
           it.increment(error))
        files.insert(it->path());
      for (llvm::StringRef file : files) {
        if (!file.ends_with(".mlir") || file.contains("invalid") || file.ends_with("folding.mlir"))
          continue;
        mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) {});
        auto module = mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
        if (!module) // a file of several programs, or of wrong ones
          continue;
        module->walk([&](mlir::Operation *op) {
          if (mlir::isa<aten::AtenDialect, train::TrainDialect>(op->getDialect()))
            check(op);
        });
      }
    }
  }

  mlir::MLIRContext context;
};

/// What lends its shape has the shape of a rank's part, where the others are parts.
bool fitsShapes(const ShardingRule &rule, llvm::ArrayRef<AxisPlacement> placements,
                const AxisChoice &choice) {
  return !choice.factor || rule.kind != OpKind::Compute ||
         llvm::all_of(rule.shapeOnly, [&](unsigned i) {
           bool isCut = llvm::any_of(rule.operands[i], [&](const auto &factors) {
             return llvm::is_contained(factors, *choice.factor);
           });
           return placements[i].isShard() == isCut;
         });
}

} // namespace

TEST_F(Strategies, ResultsAreThoseOfTheAlgebra) {
  std::set<std::string> names;
  unsigned sharded = 0, partial = 0;
  forEachOp([&](mlir::Operation *op) {
    names.insert(op->getName().getStringRef().str());
    ShardingRule rule = sharding::getShardingRule(op);
    for (int64_t ranks : {2, 3, 4}) {
      auto strategies = getStrategies(op, {mlir::StringAttr::get(&context, "x"), ranks});
      ASSERT_FALSE(strategies.empty());
      EXPECT_TRUE(llvm::all_of(strategies.front().operands,
                               [](AxisPlacement p) { return p.isReplicate(); }));
      for (const AxisStrategy &strategy : strategies) {
        if (strategy.form)
          continue;
        sharded += strategy.factor.has_value();
        partial += llvm::any_of(strategy.operands, [](AxisPlacement p) { return p.isPartial(); });
        // Each rank draws the whole and takes its part, or draws its part: no type says so.
        if (rule.kind == OpKind::Random && strategy.factor)
          continue;
        // Only beside other axes.
        if (!strategy.inFront.empty())
          continue;
        AxisResult inferred = inferAxis(rule, toOperands(op, strategy.operands));
        auto *choices = std::get_if<0>(&inferred);
        ASSERT_TRUE(choices) << describe(op, strategy);
        EXPECT_TRUE(llvm::any_of(*choices, [&](const AxisChoice &choice) {
          return gives(op, choice, strategy);
        })) << describe(op, strategy);
        for (auto [i, placement] : llvm::enumerate(strategy.operands))
          if (placement.isShard()) {
            auto shape = mlir::cast<RankedTensorType>(op->getOperand(i).getType()).getShape();
            EXPECT_EQ(shape[placement.dim] % ranks, 0) << describe(op, strategy);
          }
      }
    }
  });
  // All categories have been seen.
  EXPECT_GT(names.size(), 100u);
  EXPECT_GT(sharded, 500u);
  EXPECT_GT(partial, 100u);
}

TEST_F(Strategies, WhatTheAlgebraAllowsIsOffered) {
  unsigned allowed = 0;
  forEachOp([&](mlir::Operation *op) {
    ShardingRule rule = sharding::getShardingRule(op);
    auto strategies = getStrategies(op, {mlir::StringAttr::get(&context, "x"), 2});
    std::vector<std::vector<AxisPlacement>> all;
    size_t combinations = 1;
    for (auto [i, type] : llvm::enumerate(op->getOperandTypes())) {
      all.push_back(placementsOf(type, 2));
      // Of what lends its shape only, elements may be placed in any way: whole or sharded stands
      // for all.
      if (llvm::is_contained(rule.shapeOnly, i))
        llvm::erase_if(all.back(), [&](AxisPlacement p) {
          return !p.isReplicate() && (rule.kind != OpKind::Compute || !p.isShard());
        });
      combinations *= all.back().size();
    }
    if (combinations > 5000)
      return;
    for (size_t number = 0; number < combinations; ++number) {
      std::vector<AxisPlacement> placements;
      size_t rest = number;
      for (const auto &choices : all) {
        placements.push_back(choices[rest % choices.size()]);
        rest /= choices.size();
      }
      AxisResult inferred = inferAxis(rule, toOperands(op, placements));
      auto *choices = std::get_if<0>(&inferred);
      if (!choices)
        continue;
      // Booleans are not terms of sums, and only even shards are offered.
      bool isPossible = llvm::any_of(*choices, [&](const AxisChoice &choice) {
        for (auto [i, placement] : llvm::enumerate(choice.results))
          if (auto type = mlir::dyn_cast<RankedTensorType>(op->getResult(i).getType());
              type && placement.isPartial() &&
              !dist::isReducible(placement.reduction, type.getElementType()))
            return false;
        return fitsShapes(rule, placements, choice) &&
               (!choice.factor || rule.factors[*choice.factor].size % 2 == 0);
      });
      if (!isPossible)
        continue;
      ++allowed;
      AxisStrategy wanted;
      wanted.operands.assign(placements.begin(), placements.end());
      wanted.results.assign(choices->front().results.begin(), choices->front().results.end());
      EXPECT_TRUE(llvm::any_of(strategies, [&](const AxisStrategy &strategy) {
        return strategy.operands == wanted.operands &&
               llvm::any_of(*choices,
                            [&](const AxisChoice &choice) { return gives(op, choice, strategy); });
      })) << describe(op, wanted);
    }
  });
  EXPECT_GT(allowed, 500u);
}

TEST_F(Strategies, RowParallelAddmm) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    func.func @f(%b: tensor<6xf32>, %x: tensor<4x8xf32>, %w: tensor<8x6xf32>) {
      %0 = aten.addmm(%b, %x, %w)
          : (tensor<6xf32>, tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      return
    })",
                                                        &context);
  ASSERT_TRUE(module);
  mlir::Operation *op = &(*module->getOps<mlir::func::FuncOp>().begin()).front().front();
  auto list = [&](int64_t ranks) {
    std::string text;
    llvm::raw_string_ostream os(text);
    for (const AxisStrategy &strategy : getStrategies(op, {nullptr, ranks})) {
      llvm::interleave(strategy.operands, os, " ");
      os << " -> " << strategy.results[0] << "\n";
    }
    return text;
  };
  EXPECT_EQ(list(2), "R R R -> R\nR S(0) R -> S(0)\nP S(1) S(0) -> P\nS(0) R S(1) -> S(1)\n"
                     "P P R -> P\nP R P -> P\n");
  // 6 columns are not four parts.
  EXPECT_EQ(list(4), "R R R -> R\nR S(0) R -> S(0)\nP S(1) S(0) -> P\nP P R -> P\nP R P -> P\n");
}

TEST_F(Strategies, RandomNumbersMayBeDrawnInParts) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    func.func @f(%x: tensor<4xf32>, %seed: tensor<i64>, %offset: tensor<i64>) {
      %0 = aten.rng_uniform(%x, %seed, %offset, from = 0.0, to = 1.0, position = 0,
                            generator = #aten.generator<mt19937>)
          : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
      return
    })",
                                                        &context);
  ASSERT_TRUE(module);
  mlir::Operation *op = &(*module->getOps<mlir::func::FuncOp>().begin()).front().front();
  auto strategies = getStrategies(op, {nullptr, 2});
  // R, and P as only the shape of `like` counts; S(0).
  ASSERT_EQ(strategies.size(), 3u);
  EXPECT_EQ(strategies[1].operands[0], AxisPlacement::partial());
  EXPECT_EQ(strategies[1].results[0], AxisPlacement::replicate());
  EXPECT_EQ(strategies[2].operands[0], AxisPlacement::shard(0));
  EXPECT_EQ(strategies[2].results[0], AxisPlacement::shard(0));
}

TEST_F(Strategies, BehindFactorsThatOtherAxesCut) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    func.func @f(%x: tensor<2x4x3xf32>, %y: tensor<8x3xf32>) {
      %0 = aten.view(%x, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
      %1 = aten.view(%y, size = [2, 4, 3]) : (tensor<8x3xf32>) -> tensor<2x4x3xf32>
      return
    })",
                                                        &context);
  ASSERT_TRUE(module);
  mlir::Block &body = (*module->getOps<mlir::func::FuncOp>().begin()).front();
  mlir::Operation *merge = &body.front(), *split = merge->getNextNode();
  // The time of batch times time: by itself only behind a batch that is cut to single examples.
  auto find = [&](mlir::Operation *op, int64_t from, int64_t to) {
    std::optional<AxisStrategy> found;
    for (AxisStrategy &strategy : getStrategies(op, {nullptr, 2}))
      if (strategy.operands[0] == AxisPlacement::shard(from) &&
          strategy.results[0] == AxisPlacement::shard(to))
        found = strategy;
    return found;
  };
  for (auto [op, from, to] : {std::tuple(merge, 1, 0), std::tuple(split, 0, 1)}) {
    ShardingRule rule = sharding::getShardingRule(op);
    std::optional<AxisStrategy> batch = find(op, 0, 0), time = find(op, from, to);
    ASSERT_TRUE(batch && time);
    EXPECT_TRUE(batch->inFront.empty());
    ASSERT_EQ(time->inFront.size(), 1u);
    EXPECT_EQ(time->inFront.front(), *batch->factor);
    EXPECT_TRUE(isCutInFront(rule, *batch, {}));
    EXPECT_FALSE(isCutInFront(rule, *time, {}));
    EXPECT_FALSE(isCutInFront(rule, *time, {{*time->factor, 2}}));
    EXPECT_TRUE(isCutInFront(rule, *time, {{*batch->factor, 2}, {*time->factor, 2}}));
  }
}
