//===- Link.h - linking a shared object -----------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_CPU_LINK_H
#define CLEAVE_LIB_KERNELS_CPU_LINK_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace cleave::kernels {

/// The linker: what the environment variable CLEAVE_LLD names, or ld.lld next to LLVM's libraries
/// or in `PATH`; or an error that says where it was looked for.
llvm::Expected<std::string> findLinker();

/// Whether `name` is a function of the C or mathematical library that kernels may call; theirs must
/// have other names.
bool isLibraryFunction(llvm::StringRef name);

/// A shared object of one object file. An error if the object needs a symbol that neither it nor
/// the C and mathematical libraries define, or if ld.lld is missing or fails.
llvm::Expected<std::vector<char>> linkShared(llvm::ArrayRef<char> object);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_CPU_LINK_H
