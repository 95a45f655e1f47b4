//===- LoadProgram.h - programs of tests, from text -----------------*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_LOADPROGRAM_H
#define CLEAVE_TEST_UNIT_LOADPROGRAM_H

#include "cleave/Program.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

namespace cleave::test {

/// Reads a program from text, through a file that is gone afterwards.
inline llvm::Expected<std::unique_ptr<runtime::Program>> tryToLoad(const std::string &text) {
  llvm::SmallString<128> path;
  int descriptor = -1;
  EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("program", "mlir", descriptor, path));
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true) << text;
  auto program = runtime::loadProgram(path);
  llvm::sys::fs::remove(path);
  return program;
}

/// The same; a text that is not a valid program fails the test and gives null.
inline std::unique_ptr<runtime::Program> load(const std::string &text) {
  auto program = tryToLoad(text);
  if (program)
    return std::move(*program);
  ADD_FAILURE() << llvm::toString(program.takeError()) << "\n" << text;
  return nullptr;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_LOADPROGRAM_H
