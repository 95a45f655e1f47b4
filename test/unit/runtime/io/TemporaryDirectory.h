//===- TemporaryDirectory.h - a place for a test's files ---------*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_IO_TEMPORARYDIRECTORY_H
#define CLEAVE_TEST_UNIT_RUNTIME_IO_TEMPORARYDIRECTORY_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

/// A fresh directory, removed with everything in it at the end of the test.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "cleave-XXXXXX").string();
    root = ::mkdtemp(name.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(root); }

  std::string operator/(const std::string &name) const { return root + "/" + name; }
  std::string path() const { return root; }

  /// Writes a file and returns its path.
  std::string write(const std::string &name, const std::string &contents) const {
    std::filesystem::create_directories(std::filesystem::path(*this / name).parent_path());
    std::ofstream(*this / name, std::ios::binary) << contents;
    return *this / name;
  }

private:
  std::string root;
};

inline std::string readFile(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

#endif // CLEAVE_TEST_UNIT_RUNTIME_IO_TEMPORARYDIRECTORY_H
