//===- Input.cpp - what is asked of a program's file before it is parsed ------===//

#include "lib/bytecode/Input.h"
#include "lib/bytecode/Digest.h"
#include "lib/bytecode/Nesting.h"

llvm::Error cleave::bytecode::checkInput(llvm::StringRef data, llvm::StringRef name) {
  return isBytecode(data) ? checkDigest(data, name) : checkNesting(data, name);
}
