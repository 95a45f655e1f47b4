//===- Buffer.cpp - bytecode in memory -----------------------------------------===//

#include "lib/support/Buffer.h"

#include <algorithm>

using namespace llvm;

std::unique_ptr<MemoryBuffer> cleave::support::align(std::unique_ptr<MemoryBuffer> buffer) {
  const Align alignment(64);
  if (isAddrAligned(alignment, buffer->getBufferStart()))
    return buffer;
  auto copy = WritableMemoryBuffer::getNewUninitMemBuffer(buffer->getBufferSize(),
                                                          buffer->getBufferIdentifier(), alignment);
  std::copy(buffer->getBufferStart(), buffer->getBufferEnd(), copy->getBufferStart());
  return copy;
}
