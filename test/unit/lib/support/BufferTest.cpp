//===- BufferTest.cpp - bytecode in memory -------------------------------------===//

#include "lib/support/Buffer.h"

#include "gtest/gtest.h"

using namespace cleave::support;
using llvm::MemoryBuffer;

TEST(Buffer, IsAlignedWhateverItWas) {
  alignas(64) static char memory[256];
  for (size_t offset : {0, 1, 8, 16, 63}) {
    llvm::StringRef content(memory + offset, 100);
    memory[offset] = 'a';
    std::unique_ptr<MemoryBuffer> aligned =
        align(MemoryBuffer::getMemBuffer(content, "name", /*RequiresNullTerminator=*/false));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned->getBufferStart()) % 64, 0u) << offset;
    EXPECT_EQ(aligned->getBuffer(), content) << offset;
    EXPECT_EQ(aligned->getBufferIdentifier(), "name");
    // No copy where none is needed.
    EXPECT_EQ(aligned->getBufferStart() == content.data(), offset == 0);
  }
}
