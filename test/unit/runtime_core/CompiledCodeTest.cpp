//===- CompiledCodeTest.cpp - code of programs: identity and loading ---------===//

#include "cleave/Program.h"
#include "runtime/kernels/CpuTarget.h"
#include "runtime/kernels/SharedObject.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <dlfcn.h>
#include <link.h>

using namespace cleave::runtime;

namespace {

/// The fingerprint of a program whose binary has this code, in hexadecimal digits.
std::string fingerprint(const std::string &digits) {
  llvm::SmallString<128> path;
  int descriptor = -1;
  EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("code", "mlir", descriptor, path));
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true)
      << "module @code {\n"
         "  exec.binary @v2 elf for \"x86-64-v2\" = dense_resource<v2> : tensor<6xi8>\n"
         "  func.func @microbatch(%x: tensor<4xf32> {train.role = #train.role<input \"x\">})\n"
         "      -> (tensor<4xf32> {train.role = #train.role<output \"0\">})\n"
         "      attributes {train.phase = #train.phase<microbatch>} {\n"
         "    return %x : tensor<4xf32>\n"
         "  }\n"
         "}\n"
         "{-# dialect_resources: { builtin: { v2: \"0x01000000"
      << digits << "\" } } #-}\n";
  auto program = loadProgram(path);
  llvm::sys::fs::remove(path);
  if (program)
    return (*program)->fingerprint().str();
  ADD_FAILURE() << llvm::toString(program.takeError());
  return "";
}

TEST(CompiledCode, IsPartOfAProgramsIdentity) {
  std::string first = fingerprint("7F454C460001");
  EXPECT_EQ(first, fingerprint("7F454C460001"));
  EXPECT_NE(first, fingerprint("7F454C460002"));
}

/// The C library's mathematics, as bytes.
std::unique_ptr<llvm::MemoryBuffer> readLibm() {
  link_map *map = nullptr;
  void *handle = dlopen("libm.so.6", RTLD_NOW);
  if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
    return nullptr;
  auto buffer = llvm::MemoryBuffer::getFile(map->l_name);
  return buffer ? std::move(*buffer) : nullptr;
}

llvm::ArrayRef<char> bytesOf(const llvm::MemoryBuffer &buffer) {
  return {buffer.getBufferStart(), buffer.getBufferSize()};
}

TEST(SharedObject, TheSameBytesAreLoadedOnce) {
  std::unique_ptr<llvm::MemoryBuffer> first = readLibm(), second = readLibm();
  ASSERT_TRUE(first && second);
  for (int round = 0; round < 2; ++round) { // loaded, unloaded, and loaded again
    auto a = SharedObject::load(bytesOf(*first)), b = SharedObject::load(bytesOf(*second));
    ASSERT_TRUE(bool(a)) << llvm::toString(a.takeError());
    ASSERT_TRUE(bool(b)) << llvm::toString(b.takeError());
    EXPECT_EQ(*a, *b);
    auto *cosine = reinterpret_cast<double (*)(double)>((*a)->find("cos"));
    ASSERT_TRUE(cosine);
    EXPECT_EQ(cosine(0.5), std::cos(0.5));
    EXPECT_EQ((*a)->find("no_such_function"), nullptr);
  }
}

TEST(CpuTarget, WhatExecutesATargetExecutesTheLesserOnes) {
  bool executes = false;
  for (llvm::StringRef target : getCpuTargets()) {
    EXPECT_TRUE(!executes || executesCpuTarget(target)) << target.str();
    executes |= executesCpuTarget(target);
  }
  EXPECT_FALSE(executesCpuTarget("x86-64-v9"));
}

} // namespace
