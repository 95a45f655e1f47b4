//===- Input.cpp - what is asked of a program's file before it is parsed ------===//

#include "lib/support/Input.h"
#include "lib/support/Buffer.h"
#include "lib/support/Digest.h"
#include "lib/support/Error.h"
#include "lib/support/Nesting.h"

#include "llvm/Support/FileSystem.h"

llvm::Error cleave::support::checkInput(llvm::StringRef data, llvm::StringRef name) {
  return isBytecode(data) ? checkDigest(data, name) : checkNesting(data, name);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
cleave::support::readInput(llvm::StringRef path) {
  if (llvm::sys::fs::is_directory(path))
    return makeError("{0}: is a directory", path);
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return makeError("{0}: {1}", path, buffer.getError().message());
  if ((*buffer)->getBufferSize() == 0)
    return makeError("{0}: the file is empty", path);
  if (llvm::Error error = checkInput((*buffer)->getBuffer(), path))
    return std::move(error);
  return align(std::move(*buffer));
}
