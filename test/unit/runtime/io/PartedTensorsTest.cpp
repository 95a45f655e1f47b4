//===- PartedTensorsTest.cpp - checkpoints that all ranks write -----------===//

#include "runtime/io/Checkpoint.h"
#include "test/unit/runtime/io/TemporaryDirectory.h"
#include "gtest/gtest.h"

using namespace cleave::runtime;

namespace {

const float kValues[] = {0, 1, 2, 3, 4, 5};

llvm::ArrayRef<uint8_t> bytesOf(const float *values, size_t count) {
  return {reinterpret_cast<const uint8_t *>(values), count * sizeof(float)};
}

/// A model of a 2 x 3 tensor under two names, of which each of two ranks writes a column or two.
class PartedTensorsTest : public testing::Test {
protected:
  void SetUp() override {
    checkpoints = llvm::cantFail(CheckpointDirectory::open(directory / "c"));
    const float left[] = {0, 3}, right[] = {1, 2, 4, 5};
    llvm::cantFail(checkpoints->begin(3));
    std::vector<std::string> reports;
    for (int rank : {0, 1}) {
      CheckpointViews views;
      views[0].push_back(rank == 0 ? TensorView{"w", DType::F32, {2, 1}, bytesOf(left, 2)}
                                   : TensorView{"w", DType::F32, {2, 2}, bytesOf(right, 4)});
      if (rank == 1)
        views[2].push_back({"w.exp_avg", DType::F32, {6}, bytesOf(kValues, 6)});
      reports.push_back(
          llvm::cantFail(writeCheckpointParts(directory / "c", 3, rank, /*ranks=*/2, views)));
    }
    llvm::cantFail(checkpoints->finish(state(), layout(), reports));
  }

  static CheckpointState state() {
    CheckpointState state;
    state.step = 3;
    state.programFingerprint = "f";
    return state;
  }

  static CheckpointParts layout() {
    CheckpointParts parts;
    std::string first = getPartFile(CheckpointGroup::Model, 0, 2);
    std::string second = getPartFile(CheckpointGroup::Model, 1, 2);
    parts[0] = {
        {"w", DType::F32, {2, 3}, {{first, {{0, 2}, {0, 1}}}, {second, {{0, 2}, {1, 2}}}}, ""},
        {"tied", DType::F32, {2, 3}, {}, "w"}};
    parts[2] = {{"w.exp_avg",
                 DType::F32,
                 {6},
                 {{getPartFile(CheckpointGroup::Optimizer, 1, 2), {{0, 6}}}},
                 ""}};
    return parts;
  }

  std::string path(const std::string &file) const {
    return directory / ("c/step-00000003/" + file);
  }

  /// Opens the model with the index changed, and gives the error.
  std::string openChanged(const std::string &from, const std::string &to) {
    std::string text = readFile(path("parts.json"));
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << text;
    if (at == std::string::npos)
      return "";
    directory.write("c/step-00000003/parts.json",
                    text.substr(0, at) + to + text.substr(at + from.size()));
    auto opened = PartedTensors::open(path(""), "model");
    directory.write("c/step-00000003/parts.json", text);
    return opened ? "" : llvm::toString(opened.takeError());
  }

  TemporaryDirectory directory;
  std::unique_ptr<CheckpointDirectory> checkpoints;
};

TEST_F(PartedTensorsTest, PartsAreRead) {
  for (int rank : {0, 1}) {
    Checkpoint checkpoint = llvm::cantFail(readCheckpoint(path(""), rank, /*ranks=*/2));
    EXPECT_FALSE(checkpoint.loss);
    EXPECT_EQ(checkpoint.state.step, 3);
    for (const char *name : {"w", "tied"}) {
      const TensorEntry *entry = checkpoint.model->findEntry(name);
      ASSERT_TRUE(entry);
      std::vector<float> values(6);
      llvm::cantFail(checkpoint.model->read(*entry, wholeBox(entry->shape),
                                            reinterpret_cast<uint8_t *>(values.data())));
      EXPECT_EQ(values, std::vector<float>(kValues, kValues + 6));
      // The last column of the second row, across both parts.
      llvm::cantFail(checkpoint.model->read(*entry, {{1, 1}, {0, 2}},
                                            reinterpret_cast<uint8_t *>(values.data())));
      EXPECT_EQ(values[0], 3);
      EXPECT_EQ(values[1], 4);
    }
    EXPECT_TRUE(llvm::cantFail(checkpoint.model->areEqual(*checkpoint.model->findEntry("w"),
                                                          *checkpoint.model->findEntry("tied"),
                                                          {{0, 2}, {0, 3}})));
  }
}

TEST_F(PartedTensorsTest, IndexesThatLieAreRefused) {
  const std::pair<std::pair<const char *, const char *>, const char *> cases[] = {
      {{"model-00002-of", "model-00003-of"}, "the file model-00003-of-00002.safetensors, which"},
      {{"model-00002-of", "../model-00002-of"}, "expected the name of a file in the same folder"},
      {{"\"begin\": [\n            0,\n            1",
        "\"begin\": [\n            0,\n            0"},
       "tensor \"w\": two chunks hold the same elements"},
      {{"\"begin\": [\n            0,\n            1",
        "\"begin\": [\n            1,\n            1"},
       "tensor \"w\": a chunk lies outside of the tensor"},
      {{"\"dtype\": \"F32\"", "\"dtype\": \"F64\""}, "the index says F64 [2, 1] in model-00001"},
      {{"\"alias_of\": \"w\"", "\"alias_of\": \"v\""}, "\"tied\" is said to be \"v\""},
      {{"\"w\": {", "\"v\": {"}, "is said to have a part in model-00001-of-00002.safetensors"},
      {{"\"format\": 1", "\"format\": 2"}, "expected an index of parts of format 1"},
      {{"\"model\"", "\"models\""}, "with an object \"model\""},
      {{"\"dtype\": \"F32\"", "\"dtype\": 3"}, "expected a dtype, a shape"},
  };
  for (const auto &[change, message] : cases)
    EXPECT_NE(openChanged(change.first, change.second).find(message), std::string::npos)
        << openChanged(change.first, change.second);
}

TEST_F(PartedTensorsTest, DamageIsFound) {
  std::string file = "c/step-00000003/" + getPartFile(CheckpointGroup::Model, 1, 2);
  std::string whole = readFile(directory / file), changed = whole;
  changed.back() ^= 1;
  directory.write(file, changed);
  // Of the ranks that read it together, one has it to check.
  std::string errors;
  for (int rank : {0, 1}) {
    auto checkpoint = readCheckpoint(path(""), rank, 2);
    if (!checkpoint)
      errors += llvm::toString(checkpoint.takeError());
  }
  EXPECT_NE(errors.find("contents have changed"), std::string::npos) << errors;
  directory.write(file, whole.substr(0, whole.size() - 1));
  for (int rank : {0, 1}) {
    auto checkpoint = readCheckpoint(path(""), rank, 2);
    ASSERT_FALSE(bool(checkpoint));
    EXPECT_NE(llvm::toString(checkpoint.takeError()).find("the checkpoint is damaged"),
              std::string::npos);
  }
  std::filesystem::remove(directory / file);
  auto checkpoint = readCheckpoint(path(""));
  ASSERT_FALSE(bool(checkpoint));
  EXPECT_NE(llvm::toString(checkpoint.takeError()).find("cannot open"), std::string::npos);
}

TEST_F(PartedTensorsTest, WholeTensorsHaveAnIndexForOthers) {
  // The model's only tensor is in parts, so there is none.
  EXPECT_FALSE(std::filesystem::exists(path("model.safetensors.index.json")));
  CheckpointViews views;
  views[0].push_back({"w", DType::F32, {2, 3}, bytesOf(kValues, 6)});
  llvm::cantFail(checkpoints->begin(4));
  std::string report = llvm::cantFail(writeCheckpointParts(directory / "c", 4, 1, 2, views));
  CheckpointParts parts;
  parts[0] = {{"w",
               DType::F32,
               {2, 3},
               {{getPartFile(CheckpointGroup::Model, 1, 2), {{0, 2}, {0, 3}}}},
               ""}};
  CheckpointState next = state();
  next.step = 4;
  llvm::cantFail(checkpoints->finish(next, parts, {"{}", report}));
  std::string index = readFile(directory / "c/step-00000004/model.safetensors.index.json");
  EXPECT_NE(index.find("\"w\": \"model-00002-of-00002.safetensors\""), std::string::npos) << index;
  EXPECT_NE(index.find("\"total_size\": 24"), std::string::npos) << index;
}

TEST_F(PartedTensorsTest, DirectoriesThatRanksDoNotShareAreRefused) {
  auto report = writeCheckpointParts(directory / "elsewhere", 5, /*rank=*/1, /*ranks=*/2, {});
  ASSERT_FALSE(bool(report));
  EXPECT_NE(llvm::toString(report.takeError()).find("expected a directory that all ranks share"),
            std::string::npos);
  llvm::cantFail(checkpoints->begin(5));
  CheckpointState next = state();
  next.step = 5;
  llvm::Error error = checkpoints->finish(
      next, {}, {R"({"model-00001-of-00001.safetensors": {"bytes": 8, "xxh3": "0"}})"});
  EXPECT_NE(llvm::toString(std::move(error)).find("written by rank 0, and not found whole"),
            std::string::npos);
  // What was there is there, and nothing else.
  EXPECT_EQ(llvm::cantFail(listCheckpoints(directory / "c")), std::vector<int64_t>({3}));
}

} // namespace
