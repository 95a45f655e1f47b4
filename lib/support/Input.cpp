//===- Input.cpp - what is asked of a program's file before it is parsed ------===//

#include "lib/support/Input.h"
#include "lib/support/Digest.h"
#include "lib/support/Nesting.h"

llvm::Error cleave::support::checkInput(llvm::StringRef data, llvm::StringRef name) {
  return isBytecode(data) ? checkDigest(data, name) : checkNesting(data, name);
}
