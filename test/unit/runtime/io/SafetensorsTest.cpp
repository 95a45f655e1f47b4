//===- SafetensorsTest.cpp - hostile and good .safetensors files ----------===//

#include "runtime/io/Safetensors.h"
#include "test/unit/runtime/io/TemporaryDirectory.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"
#include <cstring>
#include <random>

using namespace cleave::runtime;

namespace {

std::string lengthPrefix(uint64_t length) {
  return std::string(reinterpret_cast<const char *>(&length), sizeof length);
}

/// A file of this header and this many bytes of data.
std::string fileOf(const std::string &header, size_t dataBytes) {
  return lengthPrefix(header.size()) + header + std::string(dataBytes, '\1');
}

/// The error that opening `contents` gives; empty if there is none.
std::string errorOf(const std::string &contents) {
  TemporaryDirectory directory;
  auto file = SafetensorsFile::open(directory.write("x.safetensors", contents));
  return file ? "" : llvm::toString(file.takeError());
}

struct HostileCase {
  const char *name;
  std::string contents;
  const char *expected;
};

class Hostile : public testing::TestWithParam<HostileCase> {};

TEST_P(Hostile, IsRefusedWithTheReason) {
  std::string error = errorOf(GetParam().contents);
  EXPECT_NE(error.find(GetParam().expected), std::string::npos) << "found: " << error;
  EXPECT_NE(error.find("x.safetensors: "), std::string::npos) << "found: " << error;
}

const HostileCase kHostile[] = {
    {"Empty", "", "at least 8 bytes, found 0"},
    {"ShorterThanTheLength", "\1\2\3", "at least 8 bytes, found 3"},
    {"HugeHeaderLength", lengthPrefix(~0ull) + "{}", "found a length of 18446744073709551615"},
    {"HeaderLengthAboveTheLimit", lengthPrefix(100'000'001) + "{}", "at most 100000000 bytes"},
    {"TruncatedHeader", lengthPrefix(100) + "{}", "the file is truncated"},
    {"NotAnObject", fileOf("[]", 0), "start with {"},
    {"MalformedJson", fileOf("{\"a\":", 0), "the header is not valid"},
    {"UnterminatedString", fileOf("{\"a", 0), "the header is not valid"},
    {"DeepNesting", fileOf("{\"a\":" + std::string(5'000'000, '['), 0), "nested at most 3"},
    {"NotUtf8", fileOf("{\"\xff\":1}", 0), "the header is not valid"},
    {"DuplicateKey",
     fileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
            R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
            1),
     "found \"a\" twice"},
    {"DuplicateKeySpelledDifferently",
     fileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
            R"("\u0061":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
            1),
     "found \"a\" twice"},
    {"DuplicateField",
     fileOf(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
     "found \"dtype\" twice"},
    {"UnknownField", fileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1),
     "found \"x\""},
    {"UnknownDtype", fileOf(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", 1),
     "found F4"},
    {"DtypeNotAString", fileOf(R"({"a":{"dtype":3,"shape":[1],"data_offsets":[0,1]}})", 1),
     "expected a string as \"dtype\""},
    {"MissingShape", fileOf(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1),
     "expected \"shape\" to be an array"},
    {"NegativeSize", fileOf(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1),
     "found -1"},
    {"FractionalSize", fileOf(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1),
     "found 1.5"},
    {"SizeAbove63Bits",
     fileOf(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1),
     "found 18446744073709551615"},
    {"OverflowingShape",
     fileOf(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
     "overflows"},
    {"OverflowingBytes",
     fileOf(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0),
     "overflows"},
    {"HugeRank",
     fileOf(R"({"a":{"dtype":"U8","shape":[1)" +
                llvm::join(std::vector<std::string>(100, ",1"), "") + R"(],"data_offsets":[0,1]}})",
            1),
     "at most 64 elements, found 101"},
    {"OffsetsOutOfRange", fileOf(R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", 8),
     "inside the 8 bytes of data, found [0, 9]"},
    {"OffsetsReversed", fileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[2,1]}})", 8),
     "found [2, 1]"},
    {"OneOffset", fileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1),
     "expected 2 data_offsets"},
    {"SizeAgainstOffsets", fileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
     "F32 [2] takes 8 bytes"},
    {"Overlap",
     fileOf(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
            R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
            6),
     "tensor \"b\": its data overlaps"},
    {"Hole",
     fileOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
            R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
            6),
     "tensor \"b\": 2 bytes before"},
    {"TrailingData", fileOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 5),
     "3 bytes at the end"},
    {"MetadataNotStrings", fileOf(R"({"__metadata__":{"a":1}})", 0),
     "expected a string under \"a\""},
    {"MetadataNotAnObject", fileOf(R"({"__metadata__":"a"})", 0), "expected __metadata__ to be"},
    {"ComplexIsNoType", fileOf(R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", 8),
     "found C64"},
    {"ComplexNotAList", fileOf(R"({"__metadata__":{"complex":"3"}})", 0),
     "expected \"complex\" in __metadata__ to be a list of names, found 3"},
    {"ComplexNotJson", fileOf(R"({"__metadata__":{"complex":"["}})", 0),
     "\"complex\" in __metadata__ is not valid"},
    {"ComplexWithoutTensor", fileOf(R"({"__metadata__":{"complex":"[\"a\"]"}})", 0),
     "\"complex\" in __metadata__ lists \"a\"; expected the name of a tensor"},
    {"ComplexWithoutPairs",
     fileOf(R"({"__metadata__":{"complex":"[\"a\"]"},)"
            R"("a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})",
            12),
     "tensor \"a\": expected pairs of F32 or F64 along the last dimension"},
    {"ComplexTwice",
     fileOf(R"({"__metadata__":{"complex":"[\"a\",\"a\"]"},)"
            R"("a":{"dtype":"F64","shape":[1,2],"data_offsets":[0,16]}})",
            16),
     "found C128 [1]"},
    {"TensorNotAnObject", fileOf(R"({"a":1})", 0), "expected an object, found 1"},
};
INSTANTIATE_TEST_SUITE_P(Safetensors, Hostile, testing::ValuesIn(kHostile),
                         [](const auto &info) { return info.param.name; });

TEST(Safetensors, MissingFileAndDirectoryAreErrors) {
  TemporaryDirectory directory;
  auto missing = SafetensorsFile::open(directory / "none.safetensors");
  ASSERT_FALSE(bool(missing));
  EXPECT_NE(llvm::toString(missing.takeError()).find("cannot open: No such file"),
            std::string::npos);
  auto folder = SafetensorsFile::open(directory.path());
  ASSERT_FALSE(bool(folder));
  EXPECT_NE(llvm::toString(folder.takeError()).find("found a directory"), std::string::npos);
}

TEST(Safetensors, EveryTruncationOfAGoodFileIsAnError) {
  std::string good = fileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  ASSERT_EQ(errorOf(good), "");
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(errorOf(good.substr(0, size)), "") << size << " bytes";
}

TEST(Safetensors, MutatedFilesAreReadOrRefused) {
  std::string good =
      fileOf(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,1],)"
             R"("data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})",
             9);
  ASSERT_EQ(errorOf(good), "");
  TemporaryDirectory directory;
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string mutated = good;
    for (unsigned change = 0; change <= random() % 3; ++change) {
      size_t at = random() % mutated.size();
      switch (random() % 3) {
      case 0:
        mutated[at] = char(random());
        break;
      case 1:
        mutated.erase(at, 1 + random() % 4);
        break;
      default:
        mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 8));
      }
      if (mutated.empty())
        break;
    }
    auto file = SafetensorsFile::open(directory.write("x.safetensors", mutated));
    if (!file) {
      EXPECT_FALSE(llvm::toString(file.takeError()).empty());
      ++refused;
      continue;
    }
    // What is accepted lies inside the file.
    size_t bytes = 0;
    for (const TensorView &tensor : (*file)->tensors()) {
      EXPECT_EQ(countBytes(tensor.dtype, tensor.shape), int64_t(tensor.bytes.size()));
      bytes += tensor.bytes.size();
    }
    EXPECT_LE(bytes + 8, mutated.size());
  }
  EXPECT_GT(refused, 300);
}

TEST(Safetensors, WritesWhatItReads) {
  TemporaryDirectory directory;
  std::string path = directory / "x.safetensors";
  float floats[] = {1, -0.0f, 3};
  int64_t integers[] = {7};
  float pairs[] = {1, 2, 3, 4};
  uint8_t bit = 1;
  auto bytesOf = [](auto &value) {
    return llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(&value), sizeof value);
  };
  std::vector<TensorView> tensors = {{"b\"\\é", DType::F32, {3}, bytesOf(floats)},
                                     {"a", DType::I64, {}, bytesOf(integers)},
                                     {"mask", DType::Bool, {1, 1}, bytesOf(bit)},
                                     {"z", DType::C64, {2}, bytesOf(pairs)},
                                     {"nothing", DType::BF16, {4, 0}, {}}};
  ASSERT_FALSE(bool(writeSafetensors(path, tensors, {{"step", "3"}})));
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(bool(file)) << llvm::toString(file.takeError());
  EXPECT_EQ((*file)->tensors().size(), tensors.size());
  EXPECT_EQ((*file)->metadata().at("step"), "3");
  for (const TensorView &tensor : tensors) {
    const TensorView *found = (*file)->find(tensor.name);
    ASSERT_TRUE(found) << tensor.name;
    EXPECT_EQ(found->dtype, tensor.dtype);
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(found->bytes, tensor.bytes);
  }
  EXPECT_FALSE((*file)->find("none"));
  EXPECT_EQ((*file)->metadata().at("complex"), "[\"z\"]");
}

TEST(Safetensors, WriterRefusesWhatCouldNotBeRead) {
  TemporaryDirectory directory;
  uint8_t bytes[4] = {};
  auto errorOfWriting = [&](std::vector<TensorView> tensors) {
    return llvm::toString(writeSafetensors(directory / "x.safetensors", tensors));
  };
  TensorView good{"a", DType::F32, {1}, bytes};
  EXPECT_NE(errorOfWriting({good, good}).find("two tensors named \"a\""), std::string::npos);
  EXPECT_NE(errorOfWriting({{"a", DType::F64, {1}, bytes}}).find("F64 [1], but has 4 bytes"),
            std::string::npos);
  EXPECT_NE(errorOfWriting({{"__metadata__", DType::F32, {1}, bytes}}).find("reserved"),
            std::string::npos);
  EXPECT_NE(errorOfWriting({{"\xff", DType::F32, {1}, bytes}}).find("UTF-8"), std::string::npos);
  // Nothing is left behind, neither the file nor a temporary one.
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

} // namespace
