//===- InstanceFile.h - problems and packings from files -*- C++ -*-===//

#ifndef CLEAVE_LIB_SOLVE_INSTANCEFILE_H
#define CLEAVE_LIB_SOLVE_INSTANCEFILE_H

#include "lib/solve/Problem.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace cleave::solve {

/// The text of a file, unpacked where it is gzip's.
llvm::Expected<std::string> readText(llvm::StringRef path);

/// Parses the text form of a problem (docs/planner.md). Errors name the file and the line.
llvm::Expected<Problem> parseProblem(llvm::StringRef text, llvm::StringRef name);

llvm::Expected<Problem> readProblem(llvm::StringRef path);

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_INSTANCEFILE_H
