//===- RankGridTest.cpp - meshes over ranks -----------------------------------===//

#include "runtime/ranks/RankGrid.h"

#include "gtest/gtest.h"

using namespace cleave::runtime;

namespace {
std::string refuse(llvm::ArrayRef<MeshAxis> mesh, Communicator *world = nullptr) {
  auto grid = RankGrid::create(mesh, world);
  EXPECT_FALSE(bool(grid));
  return grid ? "" : llvm::toString(grid.takeError());
}

TEST(RankGridTest, OneRankNeedsNoMesh) {
  auto grid = RankGrid::create({}, nullptr);
  ASSERT_TRUE(bool(grid));
  EXPECT_EQ((*grid)->rank(), 0);
  EXPECT_EQ((*grid)->ranks(), 1);
  EXPECT_EQ((*grid)->along({"dp"}).count, 1);
}

TEST(RankGridTest, OneRankOnAMesh) {
  std::unique_ptr<Communicator> world = makeSingleRankCommunicator();
  auto grid = RankGrid::create({{"pp", 1}, {"dp", 0}}, world.get());
  ASSERT_TRUE(bool(grid));
  EXPECT_EQ((*grid)->along({"pp", "dp"}).count, 1);
  llvm::Expected<RankGroup> group = (*grid)->group({"dp"});
  ASSERT_TRUE(bool(group));
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->place, 0);
  EXPECT_EQ(group->communicator->size(), 1);
  EXPECT_EQ((*grid)->size("dp"), 1);
  EXPECT_EQ((*grid)->coordinate("dp"), 0);
}

TEST(RankGridTest, RanksThatDoNotFit) {
  EXPECT_EQ(refuse({{"dp", 2}}), "the program's mesh [\"dp\" = 2] expects 2 ranks, found 1");
  EXPECT_EQ(refuse({{"pp", 2}, {"dp", 0}}),
            "the program's mesh [\"pp\" = 2, \"dp\" = ?] expects a multiple of 2 ranks, found 1");
}
} // namespace
