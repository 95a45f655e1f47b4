//===- Buffer.h - bytecode in memory --------------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_SUPPORT_BUFFER_H
#define CLEAVE_LIB_SUPPORT_BUFFER_H

#include "llvm/Support/MemoryBuffer.h"

namespace cleave::support {

/// `buffer`, or a copy of it that begins at a multiple of 64 bytes. MLIR's reader refuses files
/// with sections that are to be aligned, as those of compiled code are, elsewhere; and of a small
/// file, or of standard input, LLVM puts the buffer anywhere.
std::unique_ptr<llvm::MemoryBuffer> align(std::unique_ptr<llvm::MemoryBuffer> buffer);

} // namespace cleave::support

#endif // CLEAVE_LIB_SUPPORT_BUFFER_H
