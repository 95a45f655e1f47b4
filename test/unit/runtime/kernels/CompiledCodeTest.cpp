//===- CompiledCodeTest.cpp - code of programs: identity and loading ---------===//

#include "runtime/kernels/CpuTarget.h"
#include "runtime/kernels/SharedObject.h"
#include "test/unit/LoadProgram.h"
#include "test/unit/runtime/kernels/CodeProgram.h"

#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <dlfcn.h>
#include <link.h>

using namespace cleave::runtime;

namespace {

/// The fingerprint of a program whose binary has this code, in hexadecimal digits.
std::string fingerprint(const std::string &digits) {
  auto loaded = cleave::test::load(cleave::test::codeProgram(digits));
  return loaded ? loaded->fingerprint().str() : "";
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
