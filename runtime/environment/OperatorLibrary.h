//===- OperatorLibrary.h - operators that LibTorch does not have ----*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_ENVIRONMENT_OPERATORLIBRARY_H
#define CLEAVE_RUNTIME_ENVIRONMENT_OPERATORLIBRARY_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace cleave::runtime {

/// Loads a library that registers operators with LibTorch's dispatcher (`TORCH_LIBRARY`) as it is
/// loaded. Its code runs in this process: it is trusted as the executable is. To be called before
/// ranks are forked.
llvm::Error loadOperatorLibrary(llvm::StringRef path);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ENVIRONMENT_OPERATORLIBRARY_H
