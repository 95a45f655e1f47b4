//===- Version.cpp - which Cleave this is ------------------------------------===//

#include "runtime/environment/Version.h"
#include "runtime/environment/Version.inc"

llvm::StringRef cleave::runtime::getVersion() {
  return CLEAVE_VERSION;
}
