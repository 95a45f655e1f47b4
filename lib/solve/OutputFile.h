//===- OutputFile.h - results written whole or not at all -*- C++ -*-===//

#ifndef CLEAVE_LIB_SOLVE_OUTPUTFILE_H
#define CLEAVE_LIB_SOLVE_OUTPUTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ToolOutputFile.h"

#include <memory>

namespace cleave::solve {

/// A file to write, which is removed again unless it gets all of its text. It is opened before any
/// work, so that none is done for a result that has no place. An error where it cannot be written,
/// or is the input.
llvm::Expected<std::unique_ptr<llvm::ToolOutputFile>> openOutput(llvm::StringRef path,
                                                                 llvm::StringRef input);
/// Writes all that the file is to have.
llvm::Error writeText(llvm::ToolOutputFile &file, llvm::StringRef text);
/// Both at once.
llvm::Error writeText(llvm::StringRef path, llvm::StringRef text);

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_OUTPUTFILE_H
