//===- TransitionsTest.cpp - which op takes which type to which --------------===//
//
// The table is stated here again, in the words of docs/types.md, and the verifiers are asked about
// every pair of placements: legal ones verify, all others are refused.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Transitions.h"
#include "dialects/dist/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace cleave::dist;

namespace {

/// `op` stands for its text, with IN for the operand; `pairs` are the legal ones of docs/types.md.
/// `shape` says what becomes of the dimension: "=" it stays, ">" it grows, "<" it shrinks, "x" it
/// is exchanged. A list of pairs that are not like this follows in `other`.
struct Row {
  const char *op;
  std::set<std::string> pairs;
  char shape;
};

const std::vector<std::string> kinds = {"R", "P", "P(max)", "I", "V", "S(0)", "S(1)"};

const std::vector<Row> rows = {
    {"all_reduce sum(IN) over @mesh [\"tp\"]", {"P>R", "P>I", "V>V", "V>R", "V>I"}, '='},
    {"all_reduce max(IN) over @mesh [\"tp\"]", {"P(max)>R", "P(max)>I", "V>V", "V>R", "V>I"}, '='},
    {"all_reduce bor(IN) over @mesh [\"tp\"]", {"V>V", "V>R", "V>I"}, '='},
    {"reduce_scatter sum(IN) dim 0 over @mesh [\"tp\"]", {"P>S(0)", "P>V", "V>V"}, '<'},
    {"reduce_scatter max(IN) dim 0 over @mesh [\"tp\"]", {"P(max)>S(0)", "P(max)>V", "V>V"}, '<'},
    {"all_gather(IN) dim 0 over @mesh [\"tp\"]", {"S(0)>R", "S(0)>I", "V>R", "V>I", "V>V"}, '>'},
    {"all_to_all(IN) split 1 concat 0 over @mesh [\"tp\"]", {"S(0)>S(1)", "V>V"}, 'x'},
    {"broadcast(IN) root 0 over @mesh [\"tp\"]", {"V>V", "V>R", "V>I"}, '='},
    {"reduce sum(IN) root 0 over @mesh [\"tp\"]", {"V>V", "P>V"}, '='},
    {"reduce max(IN) root 0 over @mesh [\"tp\"]", {"V>V", "P(max)>V"}, '='},
    {"gather(IN) dim 0 root 0 over @mesh [\"tp\"]", {"V>V"}, '>'},
    {"scatter(IN) dim 0 root 0 over @mesh [\"tp\"]", {"V>V"}, '<'},
    {"permute(IN) [0 -> 1] over @mesh [\"tp\"]", {"V>V"}, '='},
    {"shift(IN) by 1 over @mesh [\"tp\"]", {"V>V"}, '='},
    {"fake_broadcast(IN) over @mesh [\"tp\"]", {"I>V", "I>R"}, '='},
    {"fake_reduce(IN) over @mesh [\"tp\"]", {"V>I", "P>I"}, '='},
    {"fake_scatter(IN) dim 0 over @mesh [\"tp\"]", {"I>V", "I>S(0)"}, '<'},
    {"fake_gather(IN) dim 0 over @mesh [\"tp\"]", {"V>I", "S(0)>I"}, '>'},
    {"convert IN", {"I>R", "I>P", "R>P", "R>I"}, '='},
    {"convert IN", {"I>S(0)", "R>S(0)"}, '<'},
    {"convert IN dim 0", {"I>V", "R>V"}, '<'},
    {"convert IN", {"S(0)>P"}, '>'},
    {"convert IN dim 0", {"V>P"}, '>'},
    {"reinterpret IN",
     {"R>V", "V>P", "V>P(max)", "R>P", "V>S(0)", "V>S(1)", "S(0)>V", "S(1)>V"},
     '='},
};

class Transitions : public testing::Test {
protected:
  Transitions() {
    context.loadDialect<DistDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      message = diagnostic.str();
      return success();
    });
  }

  bool verifies(const Row &row, const std::string &source, const std::string &destination,
                const std::string &element) {
    auto type = [&](const std::string &shape, const std::string &placement) {
      return "tensor<" + shape + "x" + element + ", #dist.on<@mesh, tp = " + placement + ">>";
    };
    std::string from = row.shape == '>' ? "4x8" : row.shape == 'x' ? "4x8" : "8x8";
    std::string to = row.shape == '<' ? "4x8" : row.shape == 'x' ? "8x4" : "8x8";
    std::string op = row.op;
    op.replace(op.find("IN"), 2, "%x");
    std::string text = "dist.mesh @mesh [\"tp\" = 2]\nfunc.func @f(%x: " + type(from, source) +
                       ") {\n  %0 = dist." + op + " : " + type(from, source) + " -> " +
                       type(to, destination) + "\n  return\n}\n";
    message.clear();
    return bool(parseSourceString<ModuleOp>(text, ParserConfig(&context)));
  }

  MLIRContext context;
  std::string message;
};

TEST_F(Transitions, VerifiersTakeExactlyTheContract) {
  unsigned taken = 0, refused = 0;
  for (const Row &row : rows)
    for (const std::string &source : kinds)
      for (const std::string &destination : kinds) {
        bool legal = row.pairs.contains(source + ">" + destination);
        std::string element = StringRef(row.op).contains(" bor") ? "i64" : "f32";
        EXPECT_EQ(verifies(row, source, destination, element), legal)
            << row.op << " from " << source << " to " << destination << ": " << message;
        EXPECT_EQ(message.empty(), legal);
        ++(legal ? taken : refused);
      }
  RecordProperty("taken", taken);
  RecordProperty("refused", refused);
}

TEST_F(Transitions, TheTableHasExactlyTheContract) {
  std::set<std::string> stated, found;
  for (const Row &row : rows) {
    std::string op = StringRef(row.op).split('(').first.split(' ').first.str();
    for (const std::string &pair : row.pairs) {
      auto [source, destination] = StringRef(pair).split('>');
      stated.insert(op + " " + source.take_front().str() + ">" + destination.take_front().str());
    }
  }
  for (const Transition &row : transitions())
    if (row.source && row.destination)
      found.insert(row.op.str() + " " + stringifyPlacementKind(*row.source).str() + ">" +
                   stringifyPlacementKind(*row.destination).str());
  EXPECT_EQ(found, stated);
}

TEST_F(Transitions, MessagesNameOtherOps) {
  const auto R = AxisPlacement::replicate(), I = AxisPlacement::invariant(),
             V = AxisPlacement::varying(), P = AxisPlacement::partial(),
             S = AxisPlacement::shard(0);
  EXPECT_EQ(suggestOps("permute", P, R, ShapeEffect::Same), "dist.all_reduce");
  EXPECT_EQ(suggestOps("scatter", P, S, ShapeEffect::Scatter), "dist.reduce_scatter");
  EXPECT_EQ(suggestOps("gather", S, I, ShapeEffect::Gather), "dist.all_gather");
  EXPECT_EQ(suggestOps("broadcast", I, R, ShapeEffect::Same), "dist.convert");
  EXPECT_EQ(suggestOps("permute", V, R, ShapeEffect::Same), "dist.all_reduce or dist.broadcast");
  EXPECT_EQ(suggestOps("gather", V, R, ShapeEffect::Gather), "dist.all_gather");
  // Two steps: neither changes the shape, or the one that was written does.
  EXPECT_EQ(suggestOps("reinterpret", R, AxisPlacement::partial(Reduction::Max), ShapeEffect::Same),
            "dist.reinterpret to V, then dist.reinterpret");
  EXPECT_EQ(suggestOps("reinterpret", I, V, ShapeEffect::Same),
            "dist.convert to R, then dist.reinterpret");
  EXPECT_EQ(suggestOps("reduce_scatter", V, S, ShapeEffect::Scatter),
            "dist.reduce_scatter to V, then dist.reinterpret");
  // Of another shape than was asked for.
  EXPECT_EQ(suggestOps("all_gather", P, R, ShapeEffect::Gather),
            "dist.all_reduce, whose result has the shape of the operand");
  EXPECT_EQ(describeTransitions("all_gather"), "S(d) to R or I; V to R, I or V");
  EXPECT_EQ(describeTransitions("send"), "V");
}

TEST_F(Transitions, BytesSent) {
  auto module = parseSourceString<ModuleOp>(R"(
    dist.mesh @mesh ["tp" = 4]
    func.func @f(%x: tensor<8xf32>, %b: tensor<8xi1>) {
      %0 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32>
      %1:2 = dist.all_gather(%x, %b) dim 0 over @mesh ["tp"]
          : tensor<8xf32>, tensor<8xi1> -> tensor<32xf32>, !dist.future<tensor<32xi1>>
      return
    })",
                                            ParserConfig(&context));
  // Futures and values do not mix in one op.
  EXPECT_FALSE(module);
  module = parseSourceString<ModuleOp>(R"(
    dist.mesh @mesh ["tp" = 4]
    func.func @f(%x: tensor<8xf32>, %b: tensor<8xi1>) {
      %0 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32>
      %1:2 = dist.all_gather(%x, %b) dim 0 over @mesh ["tp"]
          : tensor<8xf32>, tensor<8xi1> -> !dist.future<tensor<32xf32>>, !dist.future<tensor<32xi1>>
      %2 = dist.reduce_scatter sum(%x) dim 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<2xf32>
      %3 = dist.permute(%x) [0 -> 0] over @mesh ["tp"] : tensor<8xf32>
      %4 = dist.shift(%x) by 1 over @mesh ["tp"] : tensor<8xf32>
      %5 = dist.fake_broadcast(%x) over @mesh ["tp"] : tensor<8xf32>
      return
    })",
                                       ParserConfig(&context));
  ASSERT_TRUE(module);
  std::vector<int64_t> bytes;
  std::vector<bool> started;
  module->walk([&](CommunicationOpInterface op) {
    bytes.push_back(op.getBytesSent(4));
    started.push_back(op.isStarted());
    EXPECT_EQ(op.getMeshAttr().getValue(), "mesh");
    EXPECT_EQ(op.getAxesAttr().size(), 1u);
  });
  EXPECT_EQ(bytes, (std::vector<int64_t>{48, 120, 24, 0, 32}));
  EXPECT_EQ(started, (std::vector<bool>{false, true, false, false, false}));
}

} // namespace
