//===- OutputFile.h - results written whole or not at all -*- C++ -*-===//

#ifndef CLEAVE_LIB_SOLVE_OUTPUTFILE_H
#define CLEAVE_LIB_SOLVE_OUTPUTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace cleave::solve {

llvm::Error writeText(llvm::StringRef path, llvm::StringRef text);

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_OUTPUTFILE_H
