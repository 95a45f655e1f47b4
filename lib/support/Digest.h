//===- Digest.h - a digest inside bytecode files -------------------*- C++ -*-===//
//
// MLIR's bytecode reader trusts what it reads: of files with a few bytes changed at random, about
// one in two hundred makes it crash or hang. Cleave's tools therefore put a digest of the file
// into the producer string at its start (any MLIR tool still reads it), and refuse a file whose
// digest is wrong or missing before anything else looks at it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SUPPORT_DIGEST_H
#define CLEAVE_LIB_SUPPORT_DIGEST_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace cleave::support {

/// Whether `data` begins as an MLIR bytecode file does.
bool isBytecode(llvm::StringRef data);

/// `bytecode`, as MLIR's writer made it, with the digest put in. Data in any other form comes back
/// unchanged.
std::string addDigest(llvm::StringRef bytecode);

/// Success where `data` is not a bytecode, or bytecode with the right digest. Otherwise an error
/// that says what is wrong with the file `name`.
llvm::Error checkDigest(llvm::StringRef data, llvm::StringRef name);

} // namespace cleave::support

#endif // CLEAVE_LIB_SUPPORT_DIGEST_H
