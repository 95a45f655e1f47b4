//===- Version.h - which Cleave this is ----------------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_ENVIRONMENT_VERSION_H
#define CLEAVE_RUNTIME_ENVIRONMENT_VERSION_H

#include "llvm/ADT/StringRef.h"

namespace cleave::runtime {

/// "0.1.0 (488464a12b3c)": the release and the commit that it was built from, with a + where files
/// had changes; the release alone where the sources were no Git checkout.
llvm::StringRef getVersion();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ENVIRONMENT_VERSION_H
