//===- HeldValuesTest.cpp - what is held from dI to dW is minimal ------------===//
//
// Random backward functions: the bytes that the plan holds against the best of all choices.
//
//===----------------------------------------------------------------------===//

#include "lib/backward/HeldValues.h"
#include "lib/backward/Recompute.h"

#include "dialects/aten/Aten.h"
#include "lib/memory/MemoryPlan.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace cleave;

namespace {
/// A forward that saves three values, and a backward of elementwise ops, conversions, views and
/// products on square matrices, with gradients of one input and two parameters.
std::string randomProgram(std::mt19937 &random) {
  std::string body;
  struct Known {
    std::string name;
    bool isHalf;
  };
  std::vector<Known> values{{"%s0", false}, {"%s1", false}, {"%s2", false}, {"%w", false}};
  auto typeOf = [](bool isHalf) { return isHalf ? "tensor<4x4xbf16>" : "tensor<4x4xf32>"; };
  for (unsigned i = 0; i < 9; ++i) {
    Known a = values[random() % values.size()], b = values[random() % values.size()];
    std::string name = llvm::formatv("%v{0}", i);
    std::string typeA = typeOf(a.isHalf);
    bool isHalf = a.isHalf;
    switch (random() % 5) {
    case 0:
      body += llvm::formatv("{0} = aten.t({1}) : ({2}) -> {2}\n", name, a.name, typeA);
      break;
    case 1:
      body += llvm::formatv("{0} = aten.exp({1}) : ({2}) -> {2}\n", name, a.name, typeA);
      break;
    case 2:
      isHalf = !isHalf;
      body += llvm::formatv("{0} = aten._to_copy({1}, dtype = {3}) : ({2}) -> {4}\n", name, a.name,
                            typeA, isHalf ? "bf16" : "f32", typeOf(isHalf));
      break;
    default:
      b = a.isHalf == b.isHalf ? b : a;
      body += llvm::formatv("{0} = aten.{5}({1}, {2}) : ({3}, {3}) -> {4}\n", name, a.name, b.name,
                            typeA, typeA, random() % 2 ? "mm" : "mul");
      break;
    }
    values.push_back({name, isHalf});
  }
  auto pick = [&] { return values[4 + random() % (values.size() - 4)]; };
  Known results[] = {pick(), pick(), pick()};
  std::string types[3], returned;
  for (unsigned i = 0; i < 3; ++i)
    types[i] = typeOf(results[i].isHalf);
  return llvm::formatv(R"mlir(
func.func @forward(%w: tensor<4x4xf32> {{train.role = #train.role<parameter "w">},
                   %b: tensor<4x4xf32> {{train.role = #train.role<parameter "b">},
                   %x: tensor<4x4xf32> {{train.role = #train.role<input "x">})
    -> (tensor<4x4xf32> {{train.role = #train.role<saved "0">},
        tensor<4x4xf32> {{train.role = #train.role<saved "1">},
        tensor<4x4xf32> {{train.role = #train.role<saved "2">})
    attributes {{train.phase = #train.phase<forward>} {{
  return %x, %x, %x : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
func.func @backward(%w: tensor<4x4xf32> {{train.role = #train.role<parameter "w">},
                    %s0: tensor<4x4xf32> {{train.role = #train.role<saved "0">},
                    %s1: tensor<4x4xf32> {{train.role = #train.role<saved "1">},
                    %s2: tensor<4x4xf32> {{train.role = #train.role<saved "2">})
    -> ({0} {{train.role = #train.role<gradient "w">},
        {1} {{train.role = #train.role<gradient "x">},
        {2} {{train.role = #train.role<gradient "b">})
    attributes {{train.phase = #train.phase<backward>} {{
  {3}
  return {4}, {5}, {6} : {0}, {1}, {2}
})mlir",
                       types[0], types[1], types[2], body, results[0].name, results[1].name,
                       results[2].name);
}

Value viewSource(Value value) {
  auto aten = value.getDefiningOp<aten::AtenOpInterface>();
  return aten ? aten.getViewedOperand(0) : Value();
}

/// The fewest bytes from which dW can have what it needs, over all sets of values to hold.
int64_t fewestBytes(func::FuncOp function, const backward::SplitPlan &plan, bool recomputeCheap) {
  SmallVector<Value> candidates(function.getArguments().begin() + 1, function.getArguments().end());
  for (Operation &op : function.front().without_terminator())
    if (plan.input.contains(op.getResult(0)) && !viewSource(op.getResult(0)))
      candidates.push_back(op.getResult(0));
  SmallVector<Value> needs;
  for (Operation &op : function.front().without_terminator())
    if (plan.weight.containsOp(&op))
      llvm::append_range(needs, op.getOperands());
  for (unsigned result : plan.weightResults)
    needs.push_back(function.front().getTerminator()->getOperand(result));
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (unsigned subset = 0; subset < 1u << candidates.size(); ++subset) {
    llvm::DenseSet<Value> there{function.getArgument(0)};
    int64_t bytes = 0;
    for (auto [i, value] : llvm::enumerate(candidates))
      if (subset >> i & 1) {
        there.insert(value);
        bytes += memory::getByteSize(value.getType());
      }
    if (bytes >= fewest)
      continue;
    for (Operation &op : function.front().without_terminator()) {
      Value result = op.getResult(0);
      bool canRepeat =
          plan.weight.contains(result) || viewSource(result) ||
          (recomputeCheap && backward::isRecomputable(&op, backward::RecomputeLevel::Cheap));
      if (canRepeat && llvm::all_of(op.getOperands(), [&](Value v) { return there.contains(v); }))
        there.insert(result);
    }
    if (llvm::all_of(needs, [&](Value v) { return there.contains(v); }))
      fewest = bytes;
  }
  return fewest;
}

TEST(HeldValues, AreTheFewestBytes) {
  MLIRContext context;
  context.loadDialect<func::FuncDialect, aten::AtenDialect, train::TrainDialect>();
  unsigned withByProducts = 0, recomputing = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::string text = randomProgram(random);
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    train::ProgramFunctions program;
    for (auto function : module->getOps<func::FuncOp>())
      (function.getName() == "forward" ? program.forward : program.backward) = function;
    bool recomputeCheap = seed % 2;
    auto plan = backward::planSplit(program, program.backward, {"roles", recomputeCheap});
    ASSERT_TRUE(succeeded(plan));
    EXPECT_EQ((*plan)->memory.totalBytes(), fewestBytes(program.backward, **plan, recomputeCheap))
        << "seed " << seed << text;
    withByProducts += (*plan)->memory.byProductBytes != 0;
    recomputing += recomputeCheap && !(*plan)->recomputed.empty();
  }
  EXPECT_GT(withByProducts, 50u);
  EXPECT_GT(recomputing, 10u);
}
} // namespace
