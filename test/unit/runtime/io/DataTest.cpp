//===- DataTest.cpp - which examples a microbatch gets --------------------===//

#include "runtime/io/Data.h"
#include "runtime/io/Safetensors.h"
#include "test/unit/runtime/io/TemporaryDirectory.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <cstring>
#include <set>
#include <sys/stat.h>

using namespace cleave::runtime;

namespace {

InputSpec tokens(std::vector<int64_t> shape, bool isTarget = false, int64_t vocabulary = 0) {
  return {isTarget ? "y" : "x", DType::I64, std::move(shape), 0u, isTarget, vocabulary};
}

std::vector<int64_t> valuesOf(const HostTensor &tensor) {
  std::vector<int64_t> values(tensor.bytes.size() / 8);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::string errorOf(const DataOptions &options, std::vector<InputSpec> inputs) {
  auto source = DataSource::open(options, inputs);
  return source ? "" : llvm::toString(source.takeError());
}

#define EXPECT_ERROR(expression, part)                                                             \
  do {                                                                                             \
    std::string found = expression;                                                                \
    EXPECT_NE(found.find(part), std::string::npos) << "found: " << found;                          \
  } while (false)

DataOptions optionsFor(std::string source) {
  DataOptions options;
  options.source = std::move(source);
  return options;
}

TEST(Permute, IsABijectionThatDependsOnSeedAndEpoch) {
  for (uint64_t size : {1, 2, 3, 4, 5, 16, 17, 100, 1000}) {
    std::set<uint64_t> images;
    for (uint64_t i = 0; i < size; ++i) {
      uint64_t image = permute(i, size, 7, 0);
      EXPECT_LT(image, size);
      images.insert(image);
    }
    EXPECT_EQ(images.size(), size);
  }
  auto order = [](uint64_t seed, uint64_t epoch) {
    std::vector<uint64_t> result;
    for (uint64_t i = 0; i < 100; ++i)
      result.push_back(permute(i, 100, seed, epoch));
    return result;
  };
  EXPECT_NE(order(1, 0), order(2, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
}

TEST(Text, TargetIsTheNextToken) {
  TemporaryDirectory directory;
  DataOptions options = optionsFor("text:" + directory.write("a.txt", "abcdefghi"));
  options.shuffle = false;
  auto source = DataSource::open(options, {tokens({2, 4}), tokens({2, 4}, true)});
  ASSERT_TRUE(bool(source)) << llvm::toString(source.takeError());
  auto batch = (*source)->read({0, 0, 0});
  ASSERT_TRUE(bool(batch));
  EXPECT_EQ(valuesOf((*batch)[0]), std::vector<int64_t>({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}));
  EXPECT_EQ(valuesOf((*batch)[1]), std::vector<int64_t>({'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'}));
  EXPECT_EQ((*source)->describe(), "9 byte tokens from 1 file, 2 windows of 4");
}

TEST(Text, DirectoryIsReadInOrderOfPathsWithoutLinks) {
  TemporaryDirectory directory;
  directory.write("texts/b.txt", "cd");
  directory.write("texts/a/z.txt", "ab");
  directory.write("texts/empty.txt", "");
  directory.write("texts/z.txt", "ef");
  std::filesystem::create_symlink("z.txt", directory / "texts/link.txt");
  DataOptions options = optionsFor("text:" + (directory / "texts"));
  options.shuffle = false;
  auto source = DataSource::open(options, {tokens({1, 6})});
  ASSERT_TRUE(bool(source)) << llvm::toString(source.takeError());
  EXPECT_EQ(valuesOf((*(*source)->read({0, 0, 0}))[0]),
            std::vector<int64_t>({'a', 'b', 'c', 'd', 'e', 'f'}));
}

TEST(Text, RanksAndMicrobatchesDivideTheSequentialBatch) {
  TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += char(i);
  DataOptions one = optionsFor("text:" + directory.write("a.txt", text));
  one.seed = 3;
  one.microbatches = 6;
  DataOptions many = one;
  many.ranks = 3;
  many.microbatches = 2;
  auto sequential = DataSource::open(one, {tokens({2, 5})});
  auto divided = DataSource::open(many, {tokens({2, 5})});
  ASSERT_TRUE(bool(sequential) && bool(divided));
  std::set<int64_t> firstTokens;
  for (int64_t step = 0; step < 10; ++step)
    for (int64_t m = 0; m < 6; ++m) {
      auto expected = (*sequential)->read({step, 0, m});
      auto found = (*divided)->read({step, m / 2, m % 2});
      ASSERT_TRUE(bool(expected) && bool(found));
      EXPECT_EQ((*expected)[0].bytes, (*found)[0].bytes) << "step " << step << ", microbatch " << m;
      if (step * 12 + m * 2 < 40) // the first epoch has 40 windows
        for (int row : {0, 5}) {
          EXPECT_TRUE(firstTokens.insert(valuesOf((*found)[0])[row]).second);
        }
    }
}

TEST(Tokens, ReadsLittleEndianOfBothWidths) {
  TemporaryDirectory directory;
  std::string file = directory.write("a.bin", std::string("\1\0\2\0\xff\xff\4\0", 8));
  DataOptions options = optionsFor("u16:" + file);
  options.shuffle = false;
  auto narrow = DataSource::open(options, {tokens({1, 4})});
  options.source = "u32:" + file;
  auto wide = DataSource::open(options, {tokens({1, 2})});
  ASSERT_TRUE(bool(narrow) && bool(wide));
  EXPECT_EQ(valuesOf((*(*narrow)->read({0, 0, 0}))[0]), std::vector<int64_t>({1, 2, 65535, 4}));
  EXPECT_EQ(valuesOf((*(*wide)->read({0, 0, 0}))[0]), std::vector<int64_t>({0x20001, 0x4ffff}));
}

TEST(Tokens, BadDataIsRefused) {
  TemporaryDirectory directory;
  std::string empty = directory.write("empty.txt", ""),
              text = directory.write("a.txt", "hello\xc3\xa9");
  EXPECT_ERROR(errorOf(optionsFor(text), {tokens({1, 2})}), "expected data as text:PATH");
  EXPECT_ERROR(errorOf(optionsFor("text:"), {tokens({1, 2})}), "expected data as text:PATH");
  EXPECT_ERROR(errorOf(optionsFor("csv:" + text), {tokens({1, 2})}), "expected data as text:PATH");
  EXPECT_ERROR(errorOf(optionsFor("text:" + empty), {tokens({1, 2})}), "the data is empty");
  EXPECT_ERROR(errorOf(optionsFor("text:" + (directory / "none.txt")), {tokens({1, 2})}),
               "cannot open");
  EXPECT_ERROR(errorOf(optionsFor("text:" + text), {tokens({1, 8})}), "at least 8 tokens");
  EXPECT_ERROR(errorOf(optionsFor("text:" + text), {tokens({1, 7}), tokens({1, 7}, true)}),
               "at least 8 tokens, a window of 7 and the token after it, found 7");
  EXPECT_ERROR(errorOf(optionsFor("text:" + text), {tokens({1, 2}, false, 128)}),
               "a.txt: token 195 at position 5 is outside the vocabulary of 128 (0 to 127)");
  EXPECT_ERROR(errorOf(optionsFor("u32:" + text), {tokens({1, 2})}),
               "tokens of 4 bytes, found 7 bytes");
  EXPECT_ERROR(errorOf(optionsFor("text:" + text), {tokens({1, 2}), tokens({1, 2})}),
               "a second one");
  EXPECT_ERROR(errorOf(optionsFor("text:" + text), {tokens({1, 2}), tokens({1, 3}, true)}),
               "a target with the input's shape");
  EXPECT_ERROR(errorOf(optionsFor("text:" + text), {{"image", DType::F32, {1, 2}, 0u}}),
               "input \"image\", F32 [1, 2]");
  EXPECT_ERROR(errorOf(optionsFor("text:" + text), {}), "takes no inputs");
}

TEST(Batch, DividesOrSaysWhyNot) {
  auto good = countMicrobatches(24, 2, 3);
  ASSERT_TRUE(bool(good));
  EXPECT_EQ(*good, 4);
  for (auto [batch, ranks, size] : {std::tuple(25, 2, 3), {0, 1, 1}, {-6, 2, 3}}) {
    auto bad = countMicrobatches(batch, ranks, size);
    ASSERT_FALSE(bool(bad));
    EXPECT_ERROR(llvm::toString(bad.takeError()), "is not divisible by");
  }
}

/// A file with x: 8 examples along dimension 1, and mask, the same for every microbatch.
std::string writeBatches(const TemporaryDirectory &directory, const std::string &name,
                         float first) {
  std::vector<float> x(2 * 8), mask = {1, 0};
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = first + i;
  auto bytesOf = [](std::vector<float> &values) {
    return llvm::ArrayRef<uint8_t>(reinterpret_cast<uint8_t *>(values.data()), values.size() * 4);
  };
  std::vector<TensorView> tensors = {{"x", DType::F32, {2, 8}, bytesOf(x)},
                                     {"mask", DType::F32, {2}, bytesOf(mask)}};
  llvm::cantFail(writeSafetensors(directory / name, tensors));
  return directory / name;
}

const std::vector<InputSpec> kTensorInputs = {{"x", DType::F32, {2, 2}, 1u, false, 0},
                                              {"mask", DType::F32, {2}, std::nullopt, false, 0}};

TEST(Tensors, SlicesTheBatchDimensionInFileOrder) {
  TemporaryDirectory directory;
  DataOptions options = optionsFor("safetensors:" + writeBatches(directory, "a.safetensors", 0) +
                                   "," + writeBatches(directory, "b.safetensors", 100));
  options.ranks = 2;
  auto source = DataSource::open(options, kTensorInputs);
  ASSERT_TRUE(bool(source)) << llvm::toString(source.takeError());
  auto x = [&](int64_t step, int64_t rank) {
    auto batch = llvm::cantFail((*source)->read({step, rank, 0}));
    std::vector<float> values(4);
    std::memcpy(values.data(), batch[0].bytes.data(), 16);
    return values;
  };
  EXPECT_EQ(x(0, 0), std::vector<float>({0, 1, 8, 9}));
  EXPECT_EQ(x(1, 1), std::vector<float>({6, 7, 14, 15}));
  EXPECT_EQ(x(2, 0), std::vector<float>({100, 101, 108, 109}));
  EXPECT_EQ(x(4, 0), x(0, 0)); // two files of two steps each
  EXPECT_EQ((*source)->describe(), "batches for 4 steps from 2 files");
}

TEST(Tensors, BadBatchesAreRefused) {
  TemporaryDirectory directory;
  DataOptions options = optionsFor("safetensors:" + writeBatches(directory, "a.safetensors", 0));
  options.microbatches = 3;
  EXPECT_ERROR(errorOf(options, kTensorInputs),
               "\"x\" has 8 examples along dimension 1, which do not divide into batches of 6 "
               "(1 ranks x 3 microbatches x 2)");
  options.microbatches = 1;
  EXPECT_ERROR(errorOf(options, {kTensorInputs[0]}), "no input named \"mask\"");
  EXPECT_ERROR(errorOf(options, {kTensorInputs[0], kTensorInputs[1], tokens({2, 2}, true)}),
               "the program's target \"y\", I64 [2, 2], is missing");
  std::vector<InputSpec> wrong = kTensorInputs;
  wrong[0].shape = {3, 2};
  EXPECT_ERROR(errorOf(options, wrong),
               "expected F32 [3, 2] or more along dimension 1, found F32 [2, 8]");
  options.microbatches = 0;
  EXPECT_ERROR(errorOf(options, kTensorInputs), "found 0 and 1");
}

TEST(Tensors, TokensOutsideTheVocabularyAreRefused) {
  TemporaryDirectory directory;
  std::vector<int64_t> values = {1, 2, -1, 9};
  TensorView x{"x", DType::I64, {4, 1}, {reinterpret_cast<uint8_t *>(values.data()), 32}};
  llvm::cantFail(writeSafetensors(directory / "a.safetensors", {x}));
  EXPECT_ERROR(errorOf(optionsFor("safetensors:" + (directory / "a.safetensors")),
                       {tokens({1, 1}, false, 5)}),
               "token -1 at position 2 is outside the vocabulary of 5");
}

TEST(Tensors, WhatTheLossIgnoresIsNoToken) {
  TemporaryDirectory directory;
  std::vector<int64_t> values = {1, 2, -100, 9};
  TensorView x{"x", DType::I64, {4, 1}, {reinterpret_cast<uint8_t *>(values.data()), 32}};
  llvm::cantFail(writeSafetensors(directory / "a.safetensors", {x}));
  InputSpec target = tokens({1, 1}, true, 10);
  target.name = "x";
  DataOptions options = optionsFor("safetensors:" + (directory / "a.safetensors"));
  EXPECT_ERROR(errorOf(options, {target}),
               "target \"x\": token -100 at position 2 is outside the vocabulary of 10 (0 to 9)");
  target.ignored = -100;
  llvm::cantFail(DataSource::open(options, {target}));
  target.vocabulary = 9;
  EXPECT_ERROR(errorOf(options, {target}),
               "token 9 at position 3 is outside the vocabulary of 9 (0 to 8, or -100, which the "
               "loss ignores)");
}

TEST(Tensors, DirectoryIsItsFilesInTheOrderOfTheirPaths) {
  TemporaryDirectory directory;
  EXPECT_ERROR(errorOf(optionsFor("safetensors:" + directory.path()), kTensorInputs),
               "expected .safetensors files in the directory, found none");
  writeBatches(directory, "b.safetensors", 100);
  writeBatches(directory, "a.safetensors", 0);
  directory.write("notes.txt", "not a batch");
  auto source = llvm::cantFail(
      DataSource::open(optionsFor("safetensors:" + directory.path()), kTensorInputs));
  EXPECT_NE(source->describe().find("from 2 files"), std::string::npos);
  float first;
  std::memcpy(&first, llvm::cantFail(source->read({}))[0].bytes.data(), sizeof first);
  EXPECT_EQ(first, 0);
}

TEST(Data, PatternsAndDirectoriesOfTokens) {
  TemporaryDirectory directory;
  directory.write("t/b.bin", std::string("\3\0\4\0", 4));
  directory.write("t/a.bin", std::string("\1\0\2\0", 4));
  directory.write("t/a.idx", "no tokens");
  for (std::string path : {"t/*.bin", "t/[ab].b?n", "t", "*"}) {
    DataOptions options = optionsFor("u16:" + (directory / path));
    options.shuffle = false;
    auto source = DataSource::open(options, {tokens({1, 4})});
    ASSERT_TRUE(bool(source)) << llvm::toString(source.takeError());
    EXPECT_EQ(valuesOf((*(*source)->read({}))[0]), std::vector<int64_t>({1, 2, 3, 4}));
  }
  // A file whose name looks like a pattern is that file.
  directory.write("[1].bin", std::string("\7\0\7\0", 4));
  DataOptions options = optionsFor("u16:" + (directory / "[1].bin"));
  auto source = DataSource::open(options, {tokens({1, 2})});
  ASSERT_TRUE(bool(source)) << llvm::toString(source.takeError());
  EXPECT_EQ(valuesOf((*(*source)->read({}))[0]), std::vector<int64_t>({7, 7}));
  EXPECT_EQ(listDataPaths("u16:" + (directory / "t/*.bin")),
            std::vector<std::string>({directory / "t/a.bin", directory / "t/b.bin"}));
  EXPECT_ERROR(errorOf(optionsFor("u16:" + (directory / "*.txt")), {tokens({1, 2})}),
               "*.txt: expected files that match, found none");
  std::filesystem::create_directory(directory / "empty");
  EXPECT_ERROR(errorOf(optionsFor("u32:" + (directory / "empty")), {tokens({1, 2})}),
               "expected .bin files in the directory, found none");
}

class MixtureTest : public ::testing::Test {
protected:
  /// Each of the bytes 1 to 100, 101 to 120, and 121 to 124 as an input of one element.
  void SetUp() override {
    std::string a, b;
    for (int i = 1; i <= 100; ++i)
      a += char(i);
    for (int i = 101; i <= 120; ++i)
      b += char(i);
    directory.write("a.txt", a);
    directory.write("b.txt", b);
    std::vector<int64_t> values = {121, 122, 123, 124};
    TensorView x{"x", DType::I64, {4, 1}, {reinterpret_cast<uint8_t *>(values.data()), 32}};
    llvm::cantFail(writeSafetensors(directory / "c.safetensors", {x}));
    source = "mix:7=text:" + (directory / "a.txt") + ";2=text:" + (directory / "b.txt") +
             ";1=safetensors:" + (directory / "c.safetensors");
  }
  /// The first `count` examples of a run with batches of 12.
  std::vector<int64_t> examples(DataOptions options, int64_t count) {
    options.microbatches = 6 / options.ranks;
    auto opened = llvm::cantFail(DataSource::open(options, {tokens({2, 1})}));
    std::vector<int64_t> found;
    for (int64_t i = 0; i * 2 < count; ++i) {
      BatchPosition position{i / 6, i % 6 / options.microbatches, i % options.microbatches};
      llvm::append_range(found, valuesOf(llvm::cantFail(opened->read(position))[0]));
    }
    return found;
  }

  TemporaryDirectory directory;
  std::string source;
};

TEST_F(MixtureTest, GivesEachSourceItsShare) {
  DataOptions options = optionsFor(source);
  options.seed = 3;
  std::vector<int64_t> all = examples(options, 1 << 16);
  auto count = [&](int64_t from, int64_t to, size_t until) {
    return std::count_if(all.begin(), all.begin() + until,
                         [&](int64_t value) { return value >= from && value <= to; });
  };
  // Exactly, but for rounding, in a block; nearly so in a part of it.
  EXPECT_EQ(count(1, 100, 1 << 16), 45875);
  EXPECT_EQ(count(101, 120, 1 << 16), 13107);
  EXPECT_EQ(count(121, 124, 1 << 16), 6554);
  EXPECT_NEAR(count(1, 100, 3000), 2100, 100);
  EXPECT_NEAR(count(121, 124, 3000), 300, 60);
  // A source goes through all of its data before it begins again: each value as often as the
  // others.
  for (int value : {1, 57, 100})
    EXPECT_NEAR(count(value, value, 1 << 16), 45875 / 100, 1);
  for (int value : {121, 122, 123, 124})
    EXPECT_NEAR(count(value, value, 1 << 16), 6554 / 4, 1);
}

TEST_F(MixtureTest, DependsOnSeedAndPositionAlone) {
  DataOptions one = optionsFor(source), two = one, other = one, inOrder = one;
  two.ranks = 3;
  other.seed = 1;
  inOrder.shuffle = false;
  std::vector<int64_t> first = examples(one, 600);
  EXPECT_EQ(first, examples(two, 600));
  EXPECT_NE(first, examples(other, 600));
  // Without shuffling a source is read in order, and still mixed with the others.
  std::vector<int64_t> ordered = examples(inOrder, 120), fromA;
  llvm::copy_if(ordered, std::back_inserter(fromA), [](int64_t value) { return value <= 100; });
  EXPECT_LT(fromA.size(), ordered.size());
  auto fingerprint = [](const DataOptions &options) {
    return llvm::cantFail(DataSource::open(options, {tokens({2, 1})}))->fingerprint();
  };
  EXPECT_NE(fingerprint(one), fingerprint(other));
  DataOptions reweighted = one;
  reweighted.source[4] = '6';
  EXPECT_NE(fingerprint(one), fingerprint(reweighted));
}

TEST_F(MixtureTest, CanBeListedInAFile) {
  DataOptions options = optionsFor(source);
  std::string list = directory.write(
      "list", "# sources\n7 text:" + (directory / "a.txt") + "\n\n2 text:" + (directory / "b.txt") +
                  " # half\n1 safetensors:" + (directory / "*.safetensors") + "\n");
  EXPECT_EQ(examples(optionsFor("mix:@" + list), 300), examples(options, 300));
  EXPECT_EQ(listDataPaths("mix:@" + list).size(), 4u);
  auto opened = llvm::cantFail(DataSource::open(options, {tokens({2, 1})}));
  EXPECT_EQ(
      opened->describe(),
      "a mixture of 70.0% 100 byte tokens from 1 file, 100 windows of 1; 20.0% 20 byte tokens "
      "from 1 file, 20 windows of 1; 10.0% batches for 2 steps from 1 file");
  // 100 examples at 70 % last for 142, 20 at 20 % for 100, 4 at 10 % for 40.
  EXPECT_EQ(opened->countSteps(), 71u);
}

TEST_F(MixtureTest, WhatIsNotOneIsRefused) {
  auto refused = [&](std::string text) { return errorOf(optionsFor(text), {tokens({2, 1})}); };
  std::string a = "text:" + (directory / "a.txt");
  EXPECT_ERROR(refused("mix:"), "expected mix:WEIGHT=SOURCE;WEIGHT=SOURCE..., found \"mix:\"");
  EXPECT_ERROR(refused("mix:0=" + a), "expected a weight above 0 before a source, found \"0\"");
  EXPECT_ERROR(refused("mix:-1=" + a), "expected a weight above 0");
  EXPECT_ERROR(refused("mix:nan=" + a), "expected a weight above 0");
  EXPECT_ERROR(refused("mix:" + a), "expected a weight above 0 before a source, found \"text:");
  EXPECT_ERROR(refused("mix:1=mix:1=" + a), "expected a source that is not itself a mixture");
  EXPECT_ERROR(refused("mix:1=words:x"), "expected data as text:PATH");
  EXPECT_ERROR(refused("mix:1e9=" + a + ";1=" + a), "is below one example in 65536");
  EXPECT_ERROR(refused("mix:@" + (directory / "none")), "none: cannot open");
  std::string list = directory.write("list", "1 " + a + "\nheavy " + a + "\n");
  EXPECT_ERROR(refused("mix:@" + list), list + ":2: expected a weight above 0 before a source, "
                                               "found \"heavy\"");
  list = directory.write("list", "1 " + a + "\n\n1 text:/none.txt\n");
  EXPECT_ERROR(refused("mix:@" + list), list + ":3: /none.txt: cannot open");
  list = directory.write("list", "# none\n");
  EXPECT_ERROR(refused("mix:@" + list), "expected lines with a weight and a source, found none");
  InputSpec mask{"mask", DType::F32, {2}, std::nullopt, false, 0};
  EXPECT_ERROR(errorOf(optionsFor(source), {tokens({2, 1}), mask}),
               "a mixture draws examples, but the program's input \"mask\", F32 [2], has no batch "
               "dimension");
}

TEST(Data, NamedPipeIsRefusedAtOnce) {
  TemporaryDirectory directory;
  std::string pipe = directory / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_ERROR(errorOf(optionsFor("text:" + pipe), {tokens({1, 2})}),
               "pipe: expected a file, found something that is not a regular file");
}

TEST(Data, FingerprintTellsDataApart) {
  TemporaryDirectory directory;
  std::string a = directory.write("a.txt", "some text"), b = directory.write("b.txt", "some more");
  auto fingerprint = [](std::string path, uint64_t seed) {
    DataOptions options = optionsFor("text:" + path);
    options.seed = seed;
    return llvm::cantFail(DataSource::open(options, {tokens({1, 2})}))->fingerprint();
  };
  EXPECT_EQ(fingerprint(a, 1), fingerprint(a, 1));
  EXPECT_NE(fingerprint(a, 1), fingerprint(b, 1));
  EXPECT_NE(fingerprint(a, 1), fingerprint(a, 2));
}

} // namespace
