//===- OutputFileTest.cpp - what outputs do to what is there already ------===//

#include "runtime/io/OutputFile.h"
#include "test/unit/runtime/io/TemporaryDirectory.h"
#include "gtest/gtest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

llvm::Error writeText(const std::string &path, llvm::StringRef text) {
  auto file = OutputFile::open(path);
  if (!file)
    return file.takeError();
  if (llvm::Error error = (*file)->write(text))
    return error;
  return (*file)->commit();
}

std::string messageOf(const std::string &path) {
  return llvm::toString(writeText(path, "x"));
}

size_t countEntries(const TemporaryDirectory &directory) {
  return std::distance(std::filesystem::directory_iterator(directory.path()), {});
}

TEST(OutputFile, WithoutCommitTheOldFileStays) {
  TemporaryDirectory directory;
  std::string path = directory.write("x", "old");
  {
    auto file = llvm::cantFail(OutputFile::open(path));
    llvm::cantFail(file->write("new"));
  }
  EXPECT_EQ(readFile(path), "old");
  EXPECT_EQ(countEntries(directory), 1u);
  llvm::cantFail(writeText(path, "new"));
  EXPECT_EQ(readFile(path), "new");
  EXPECT_EQ(countEntries(directory), 1u);
}

TEST(OutputFile, LinksAreFollowed) {
  TemporaryDirectory directory;
  directory.write("real", "old");
  std::filesystem::create_symlink("real", directory / "link");
  std::filesystem::create_symlink("link", directory / "link of link");
  std::filesystem::create_symlink("later", directory / "link to nothing");
  llvm::cantFail(writeText(directory / "link of link", "new"));
  llvm::cantFail(writeText(directory / "link to nothing", "first"));
  EXPECT_EQ(readFile(directory / "real"), "new");
  EXPECT_EQ(readFile(directory / "later"), "first");
  for (const char *link : {"link", "link of link", "link to nothing"})
    EXPECT_TRUE(std::filesystem::is_symlink(directory / link)) << link;
}

TEST(OutputFile, ModeOfTheOldFileStays) {
  TemporaryDirectory directory;
  std::string path = directory.write("x", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  llvm::cantFail(writeText(path, "new"));
  struct stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST(OutputFile, PipeWithAReaderIsWrittenTo) {
  TemporaryDirectory directory;
  std::string path = directory / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(messageOf(path), path + ": cannot write: no process is reading from it");
  int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  llvm::cantFail(writeText(path, "text"));
  char buffer[8];
  EXPECT_EQ(::read(reader, buffer, sizeof buffer), 4);
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_EQ(countEntries(directory), 1u);
}

TEST(OutputFile, DeviceStaysADevice) {
  EXPECT_EQ(messageOf("/dev/null"), "");
  EXPECT_EQ(messageOf("/dev/full"), "/dev/full: cannot write: No space left on device");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(OutputFile, DirectoryIsRefused) {
  TemporaryDirectory directory;
  EXPECT_EQ(messageOf(directory.path()),
            directory.path() + ": expected a file to write, found a directory");
  EXPECT_NE(messageOf(directory / "no/x").find("cannot write: No such file"), std::string::npos);
}

std::string check(const std::vector<NamedPath> &inputs, const std::vector<NamedPath> &outputs) {
  return llvm::toString(checkOutputs(inputs, outputs));
}

TEST(CheckOutputs, InputsAreFoundUnderAnyName) {
  TemporaryDirectory directory;
  std::string input = directory.write("w", "x"), link = directory / "link",
              hard = directory / "hard";
  std::filesystem::create_symlink("w", link);
  std::filesystem::create_hard_link(input, hard);
  for (const std::string &output :
       {input, link, hard,
        directory / "../" + directory.path().substr(directory.path().rfind('/') + 1) + "/w"})
    EXPECT_EQ(check({{"--weights", input}}, {{"--dump", output}}),
              "--dump " + output + " would overwrite --weights " + input + ", which the run reads");
  EXPECT_EQ(check({{"--weights", input}}, {{"--dump", directory / "other"}}), "");
  EXPECT_EQ(check({{"--weights", "/dev/null"}}, {{"--dump", "/dev/null"}}), "");
}

TEST(CheckOutputs, DirectoriesThatAreReadWholeTakeNoOutput) {
  TemporaryDirectory directory;
  directory.write("texts/a", "x");
  std::string texts = directory / "texts", output = directory / "texts/new";
  EXPECT_EQ(check({{"--data", texts}}, {{"--metrics", output}}),
            "--metrics " + output + " is in --data " + texts +
                ", and the run reads all files there");
  EXPECT_EQ(check({{"--data", texts}}, {{"--metrics", directory / "texts-new"}}), "");
}

TEST(CheckOutputs, TwoOutputsAreTwoFiles) {
  TemporaryDirectory directory;
  std::string path = directory / "x", link = directory / "link";
  std::filesystem::create_symlink("x", link);
  EXPECT_EQ(check({}, {{"--trace", path}, {"--metrics", link}}),
            "--trace " + path + " and --metrics " + link + " are the same file");
  EXPECT_EQ(check({}, {{"--trace", "/dev/null"}, {"--metrics", "/dev/null"}}), "");
}

} // namespace
