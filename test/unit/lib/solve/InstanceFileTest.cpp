// Files of problems: what they say, and where they are wrong.

#include "lib/solve/InstanceFile.h"

#include <gtest/gtest.h>

using namespace cleave::solve;

static const char good[] = R"(# a comment
name x
usage_limit 10
nodes 2
0 4 2 0 6 9 1
2 6 2 0 2000000000000000000 9 1
matrices 1
2 2 0 1 1 1000000000000000000
edges 2
0 1 0
1 0 0
)";

TEST(InstanceFile, ReadsProblems) {
  auto problem = parseProblem(good, "f");
  ASSERT_TRUE(bool(problem)) << llvm::toString(problem.takeError());
  EXPECT_EQ(problem->limit, 10);
  EXPECT_EQ(problem->getNodes().size(), 2u);
  EXPECT_EQ(problem->getEdges().size(), 1u) << "parallel edges are merged";
  EXPECT_EQ(problem->getCosts(1)[1], forbidden);
  EXPECT_EQ(toString(*problem->getCost({1, 0})), "8");
  EXPECT_FALSE(problem->getCost({1, 1}));
  EXPECT_EQ(toString(problem->getPeak({0, 0})), "18");
  EXPECT_EQ(toString(problem->getPeak({1, 0})), "10");
  EXPECT_TRUE(problem->isFeasible({1, 0}));
  EXPECT_FALSE(problem->isFeasible({0, 0}));
}

TEST(InstanceFile, NodesWithoutTimeUseNoMemory) {
  auto problem =
      parseProblem("name x\nusage_limit 0\nnodes 1\n3 3 1 0 7\nmatrices 0\nedges 0\n", "f");
  ASSERT_TRUE(bool(problem));
  EXPECT_TRUE(problem->isFeasible({0}));
}

TEST(InstanceFile, SumsExceed64Bits) {
  std::string text = "name x\nusage_limit 0\nnodes 30\n";
  for (unsigned node = 0; node < 30; ++node)
    text += "0 0 1 999999999999999999 0\n";
  auto problem = parseProblem(text + "matrices 0\nedges 0\n", "f");
  ASSERT_TRUE(bool(problem));
  EXPECT_EQ(toString(*problem->getCost(Assignment(30, 0))), "29999999999999999970");
}

/// The good text with a line replaced.
static std::string errorWith(unsigned line, const char *text) {
  llvm::SmallVector<llvm::StringRef, 16> lines;
  llvm::StringRef(good).split(lines, '\n');
  std::string all;
  for (unsigned i = 0; i < lines.size(); ++i)
    all += (i + 1 == line ? std::string(text) : lines[i].str()) + "\n";
  auto problem = parseProblem(all, "f");
  return problem ? "" : llvm::toString(problem.takeError());
}

TEST(InstanceFile, ErrorsNameTheLine) {
  EXPECT_EQ(errorWith(2, "nam x"), "f:2: expected 'name', found 'nam x'");
  EXPECT_EQ(errorWith(3, "usage_limit nan"), "f:3: expected a number, found 'nan'");
  EXPECT_EQ(errorWith(4, "nodes -2"), "f:4: expected a number from 0 to 100000000, found -2");
  EXPECT_EQ(errorWith(5, "0 4 0"), "f:5: expected a number of choices from 1 to 1000000, found 0");
  EXPECT_EQ(errorWith(5, "0 4 2 0 6 9"), "f:5: expected a usage, found the end of the line");
  EXPECT_EQ(errorWith(5, "0 4 2 0 -6 9 1"), "f:5: expected a cost of at least 0, found -6");
  EXPECT_EQ(errorWith(5, "4 0 2 0 6 9 1"),
            "f:5: expected an end from 4 to 9223372036854775806, found 0");
  EXPECT_EQ(errorWith(6, "0 4 2 0 6 9 1 3"), "f:6: expected the end of the line, found '3'");
  EXPECT_EQ(errorWith(7, "edges 1"), "f:7: expected 'matrices' and a number, found 'edges 1'");
  EXPECT_EQ(errorWith(8, "2 2 0 1 1"), "f:8: expected a cost, found the end of the line");
  EXPECT_EQ(errorWith(8, "900000 900000 1"),
            "f:8: expected 810000000000 costs, found a line of 2 characters");
  EXPECT_EQ(errorWith(8, "1 4 0 1 1 2"),
            "f:10: expected a matrix of 2 x 2 for nodes 0 and 1, found 1 x 4");
  EXPECT_EQ(errorWith(10, "0 2 0"), "f:10: expected a node from 0 to 1, found 2");
  EXPECT_EQ(errorWith(10, "0 1 1"), "f:10: expected a matrix from 0 to 0, found 1");
  EXPECT_EQ(errorWith(11, "1 0 0\n1 0 0"), "f:12: expected the end of the file, found '1 0 0'");
  EXPECT_EQ(errorWith(11, ""), "f:13: expected an edge, found the end of the file");
}
