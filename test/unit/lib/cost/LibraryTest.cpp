// Descriptions of devices, links and clusters: what is read, borrowed and refused.

#include "lib/cost/Cluster.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <fstream>

using namespace cleave::cost;

namespace {
class LibraryTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("library", folder));
    write("a.json", device("a", "", "0.5"));
    write("link.json",
          R"({"link": "wire", "facts": {"bandwidth": 1e9, "shared": 0}, "constants": {)" +
              constant("latency", "1e-6") + "," + constant("efficiency", "0.5") + "," +
              constant("point_to_point_efficiency", "0.5") + "," +
              constant("all_to_all_efficiency", "0.5") + "}}");
    write("cluster.json", cluster("a"));
  }
  void TearDown() override { llvm::sys::fs::remove_directories(folder); }

  static std::string constant(const char *name, const std::string &value) {
    return std::string("\"") + name + "\": {\"value\": " + value +
           R"(, "start": 0.5, "lower": 0, "upper": 1, "unit": "1", "meaning": "test"})";
  }
  static std::string device(const char *name, const char *relative, const std::string &efficiency) {
    std::string text =
        std::string("{\"device\": \"") + name + "\", \"relative\": \"" + relative +
        R"(", "facts": {"processors": 10, "memory_bytes": 1e9, "memory_bandwidth": 1e9,
                       "flops_16bit": 1e12, "flops_8bit": 0, "flops_4bit": 0})";
    if (efficiency.empty())
      return text + "}";
    text += ", \"constants\": {";
    for (const char *other : {"matrix_efficiency_8bit", "matrix_efficiency_4bit",
                              "attention_efficiency", "memory_efficiency", "depth_overhead",
                              "kernel_seconds", "host_seconds", "step_seconds", "overlap_slowdown"})
      text += constant(other, "0.25") + ", ";
    return text + constant("matrix_efficiency_16bit", efficiency) + "}}";
  }
  static std::string cluster(const char *device) {
    return std::string(R"({"cluster": "nodes", "types": ["A1"], "devices_per_node": 8, "of": ")") +
           device + R"(", "levels": [{"link": "wire", "size": 8}, {"link": "wire", "size": 0}]})";
  }
  void write(const char *name, const std::string &text) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    std::ofstream(path.str().str()) << text;
  }
  std::string fail() {
    auto library = Library::read(folder);
    return library ? "" : llvm::toString(library.takeError());
  }

  llvm::SmallString<128> folder;
};
} // namespace

TEST_F(LibraryTest, FindsAClusterByTypeAndNode) {
  Library library = llvm::cantFail(Library::read(folder));
  Cluster found = llvm::cantFail(library.find("A1", 8));
  EXPECT_EQ(found.device.name, "a");
  EXPECT_DOUBLE_EQ(found.device.matrixEfficiency16, 0.5);
  EXPECT_EQ(found.note, "");
  ASSERT_EQ(found.levels.size(), 2u);
  EXPECT_EQ(found.levels[0].size, 8);
  EXPECT_NE(llvm::toString(library.find("A1", 4).takeError()).find("gpus_per_node: no cluster"),
            std::string::npos);
  EXPECT_NE(llvm::toString(library.find("B9", 8).takeError()).find("b9.json"), std::string::npos);
}

TEST_F(LibraryTest, ARelativeStandsInAndIsNamed) {
  write("b.json", device("b", "a", ""));
  write("cluster.json", cluster("b"));
  Cluster found = llvm::cantFail(llvm::cantFail(Library::read(folder)).find("A1", 8));
  EXPECT_DOUBLE_EQ(found.device.matrixEfficiency16, 0.5);
  EXPECT_EQ(found.note, "b has constants of a");
}

TEST_F(LibraryTest, RefusesWhatIsOutOfBoundsOrMissing) {
  write("a.json", device("a", "", "1.5"));
  EXPECT_NE(fail().find("expected a value from 0 to 1, found 1.5"), std::string::npos);
  write("a.json", device("a", "", ""));
  EXPECT_NE(fail().find("expected the constant"), std::string::npos);
  write("a.json", device("a", "zzz", ""));
  EXPECT_NE(fail().find("found \"zzz\""), std::string::npos);
  write("a.json", device("a", "", "0.5"));
  write("cluster.json", cluster("c"));
  EXPECT_NE(fail().find("has no device named \"c\": write a file of it, "), std::string::npos);
}

TEST_F(LibraryTest, RelativesInACircleAreRefused) {
  write("b.json", device("b", "c", ""));
  write("c.json", device("c", "b", ""));
  EXPECT_NE(fail().find("relative"), std::string::npos);
}

TEST_F(LibraryTest, AConstantMayBeAPlainNumber) {
  std::string text = device("a", "", "0.5");
  std::string old = constant("matrix_efficiency_16bit", "0.5");
  text.replace(text.find(old), old.size(), "\"matrix_efficiency_16bit\": 0.75");
  write("a.json", text);
  Library library = llvm::cantFail(Library::read(folder));
  EXPECT_DOUBLE_EQ(llvm::cantFail(library.find("A1", 8)).device.matrixEfficiency16, 0.75);
  text.replace(text.find("0.75"), 4, "-1.0");
  write("a.json", text);
  EXPECT_NE(fail().find("matrix_efficiency_16bit: expected 0 or a positive number, found -1"),
            std::string::npos);
}

TEST_F(LibraryTest, AFileNamesItsCluster) {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "cluster.json");
  EXPECT_EQ(llvm::cantFail(Library::readCluster(path)).name, "nodes");
  // A second cluster with that name does not stand in for it.
  write("b.json", device("b", "a", ""));
  write("other.json", cluster("b"));
  EXPECT_EQ(llvm::cantFail(Library::readCluster(path)).device.name, "a");
  EXPECT_EQ(llvm::cantFail(llvm::cantFail(Library::read(folder)).findNamed("nodes", "-")).name,
            "nodes");
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "a.json");
  EXPECT_NE(llvm::toString(Library::readCluster(path).takeError()).find("\"cluster\""),
            std::string::npos);
}

TEST_F(LibraryTest, ALinkToTheHostIsAFactOfTheDevice) {
  auto find = [&] { return llvm::cantFail(llvm::cantFail(Library::read(folder)).find("A1", 8)); };
  Cluster none = find();
  EXPECT_EQ(none.device.hostBandwidth, 0);
  EXPECT_EQ(none.hostMemory, 0);
  EXPECT_EQ(llvm::sys::path::filename(none.device.file), "a.json");
  std::string text = device("a", "", "0.5");
  text.replace(text.find("\"flops_4bit\": 0"), 0, "\"host_bandwidth\": 64e9, ");
  write("a.json", text);
  std::string nodes = cluster("a");
  nodes.replace(nodes.find("\"of\""), 0, "\"host_memory_bytes\": 8e12, ");
  write("cluster.json", nodes);
  Cluster found = find();
  EXPECT_DOUBLE_EQ(found.device.hostBandwidth, 64e9);
  EXPECT_DOUBLE_EQ(found.device.hostEfficiency, 0.8);
  EXPECT_DOUBLE_EQ(found.hostMemory, 1e12);
  EXPECT_EQ(found.note, "");
  // A relative's part of its link says nothing about this one.
  std::string constants = "\"constants\": {";
  text.replace(text.find(constants), constants.size(), constants + "\"host_efficiency\": 0.5, ");
  write("a.json", text);
  EXPECT_DOUBLE_EQ(find().device.hostEfficiency, 0.5);
  write("b.json", device("b", "a", ""));
  write("cluster.json", cluster("b"));
  EXPECT_DOUBLE_EQ(find().device.hostEfficiency, 0.8);
}

TEST_F(LibraryTest, RefusesALinkOrAHostThatCannotBe) {
  std::string good = device("a", "", "0.5");
  for (const char *bandwidth : {"-1", "1e999"}) {
    std::string text = good;
    text.replace(text.find("\"flops_4bit\": 0"), 0,
                 std::string("\"host_bandwidth\": ") + bandwidth + ", ");
    write("a.json", text);
    EXPECT_NE(fail().find("host_bandwidth"), std::string::npos) << fail();
  }
  std::string constants = "\"constants\": {", text = good;
  text.replace(text.find(constants), constants.size(), constants + "\"host_efficiency\": 0, ");
  write("a.json", text);
  EXPECT_NE(fail().find("host_efficiency: expected a positive number, found 0"), std::string::npos);
  write("a.json", good);
  std::string nodes = cluster("a");
  nodes.replace(nodes.find("\"of\""), 0, "\"host_memory_bytes\": -1, ");
  write("cluster.json", nodes);
  EXPECT_NE(fail().find("host_memory_bytes: expected 0 or the bytes of a node"), std::string::npos);
}
