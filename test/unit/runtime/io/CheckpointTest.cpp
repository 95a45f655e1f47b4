//===- CheckpointTest.cpp - checkpoints, whole and damaged ----------------===//

#include "runtime/io/Checkpoint.h"
#include "test/unit/runtime/io/TemporaryDirectory.h"
#include "gtest/gtest.h"

using namespace cleave::runtime;

namespace {

const float kWeights[] = {1, 2, 3, 4};

std::vector<TensorView> modelOf(std::vector<int64_t> shape) {
  return {{"w", DType::F32, std::move(shape), {reinterpret_cast<const uint8_t *>(kWeights), 16}}};
}

CheckpointState stateAt(int64_t step) {
  CheckpointState state;
  state.step = step;
  state.seed = ~0ull;
  state.rngOffset = 17;
  state.microbatches = 4;
  state.ranks = 2;
  state.programFingerprint = "fedcba9876543210";
  state.data = "text:a.txt";
  state.dataFingerprint = 5;
  state.dataPosition = step * 8;
  return state;
}

llvm::Error writeAt(const TemporaryDirectory &directory, int64_t step, int64_t keepLast = 0) {
  auto checkpoints = llvm::cantFail(CheckpointDirectory::open(directory / "c"));
  TensorView moment{"w.exp_avg", DType::F32, {4}, modelOf({4})[0].bytes};
  return checkpoints->write(stateAt(step), modelOf({2, 2}), {moment}, keepLast);
}

std::string readError(const std::string &path) {
  auto checkpoint = readCheckpoint(path);
  return checkpoint ? "" : llvm::toString(checkpoint.takeError());
}

TEST(Checkpoint, ReadsBackWhatWasWritten) {
  TemporaryDirectory directory;
  llvm::cantFail(writeAt(directory, 20));
  auto checkpoint = readCheckpoint(directory / "c/step-00000020");
  ASSERT_TRUE(bool(checkpoint)) << llvm::toString(checkpoint.takeError());
  const CheckpointState &state = checkpoint->state;
  EXPECT_EQ(state.step, 20);
  EXPECT_EQ(state.seed, ~0ull);
  EXPECT_EQ(state.rngOffset, 17);
  EXPECT_EQ(state.microbatches, 4);
  EXPECT_EQ(state.ranks, 2);
  EXPECT_EQ(state.programFingerprint, "fedcba9876543210");
  EXPECT_EQ(state.data, "text:a.txt");
  EXPECT_EQ(state.dataFingerprint, 5u);
  EXPECT_EQ(state.dataPosition, 160);
  const TensorEntry *weight = checkpoint->model->findEntry("w");
  ASSERT_TRUE(weight);
  std::vector<uint8_t> bytes(16);
  llvm::cantFail(checkpoint->model->read(*weight, wholeBox(weight->shape), bytes.data()));
  EXPECT_EQ(llvm::ArrayRef(bytes), modelOf({2, 2})[0].bytes);
  EXPECT_TRUE(checkpoint->optimizer->findEntry("w.exp_avg"));
}

TEST(Checkpoint, KeepsTheLastOnes) {
  TemporaryDirectory directory;
  for (int64_t step : {5, 10, 15})
    llvm::cantFail(writeAt(directory, step, /*keepLast=*/2));
  EXPECT_EQ(llvm::cantFail(listCheckpoints(directory / "c")), std::vector<int64_t>({10, 15}));
  EXPECT_EQ(readError(directory / "c/step-00000015"), "");
}

TEST(Checkpoint, RemainsOfAKilledRunAreNoCheckpointAndGoAway) {
  TemporaryDirectory directory;
  llvm::cantFail(writeAt(directory, 5));
  directory.write("c/.step-writing-6/model.safetensors", "half");
  directory.write("c/.step-removing-4/model.safetensors", "half");
  EXPECT_EQ(llvm::cantFail(listCheckpoints(directory / "c")), std::vector<int64_t>({5}));
  llvm::cantFail(writeAt(directory, 6));
  EXPECT_EQ(llvm::cantFail(listCheckpoints(directory / "c")), std::vector<int64_t>({5, 6}));
  EXPECT_FALSE(std::filesystem::exists(directory / "c/.step-removing-4"));
}

TEST(Checkpoint, NoDirectoryHasNoCheckpoints) {
  TemporaryDirectory directory;
  EXPECT_TRUE(llvm::cantFail(listCheckpoints(directory / "none")).empty());
}

TEST(Checkpoint, DirectoryIsCheckedAndLocked) {
  TemporaryDirectory directory;
  auto unwritable = CheckpointDirectory::open(directory.write("file", "x") + "/c");
  ASSERT_FALSE(bool(unwritable));
  EXPECT_NE(llvm::toString(unwritable.takeError()).find("cannot create the directory"),
            std::string::npos);
  auto first = llvm::cantFail(CheckpointDirectory::open(directory / "c"));
  auto second = CheckpointDirectory::open(directory / "c");
  ASSERT_FALSE(bool(second));
  EXPECT_NE(llvm::toString(second.takeError()).find("another run"), std::string::npos);
}

TEST(Checkpoint, DamageIsFound) {
  TemporaryDirectory directory;
  llvm::cantFail(writeAt(directory, 1));
  std::string path = directory / "c/step-00000001";
  std::string model = readFile(path + "/model.safetensors"), state = readFile(path + "/state.json");
  for (size_t size : {size_t(0), size_t(7), model.size() / 2, model.size() - 1}) {
    directory.write("c/step-00000001/model.safetensors", model.substr(0, size));
    EXPECT_NE(readError(path).find("model.safetensors: expected " + std::to_string(model.size()) +
                                   " bytes"),
              std::string::npos)
        << readError(path);
  }
  std::string changed = model;
  changed.back() ^= 1;
  directory.write("c/step-00000001/model.safetensors", changed);
  EXPECT_NE(readError(path).find("contents have changed"), std::string::npos);
  directory.write("c/step-00000001/model.safetensors", model);
  EXPECT_EQ(readError(path), "");
  for (size_t size = 0; size + 2 < state.size(); size += 7) {
    directory.write("c/step-00000001/state.json", state.substr(0, size));
    EXPECT_NE(readError(path).find("state.json: "), std::string::npos) << size;
  }
  directory.write("c/step-00000001/state.json", "{\"format\": 9}");
  EXPECT_NE(readError(path).find("expected checkpoint format 1 or 2, found 9"), std::string::npos);
  directory.write("c/step-00000001/state.json", "{\"format\": 1, \"step\": \"x\"}");
  EXPECT_NE(readError(path).find("expected an integer from 0 as \"step\""), std::string::npos);
  std::filesystem::remove(path + "/state.json");
  EXPECT_NE(readError(path).find("state.json: cannot open"), std::string::npos);
}

} // namespace
