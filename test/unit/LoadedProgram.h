//===- LoadedProgram.h - a program of a test, loaded ----------------*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_LOADEDPROGRAM_H
#define CLEAVE_TEST_UNIT_LOADEDPROGRAM_H

#include "cleave/Program.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

namespace cleave::test {

/// A program from text, through a file that stays as long as it. One that is not valid fails the
/// test, and `program` is null.
struct LoadedProgram {
  llvm::SmallString<128> path;
  std::unique_ptr<runtime::Program> program;

  explicit LoadedProgram(const std::string &text) {
    int descriptor = -1;
    EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("program", "mlir", descriptor, path));
    llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true) << text;
    auto loaded = runtime::loadProgram(path);
    if (loaded)
      program = std::move(*loaded);
    else
      ADD_FAILURE() << llvm::toString(loaded.takeError()) << "\n" << text;
  }
  ~LoadedProgram() { llvm::sys::fs::remove(path); }
  LoadedProgram(const LoadedProgram &) = delete;
};

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_LOADEDPROGRAM_H
