//===- CommandLine.h - help and plugins of cleave-opt --------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_OPT_COMMANDLINE_H
#define CLEAVE_TOOLS_CLEAVE_OPT_COMMANDLINE_H

#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// Where --help's descriptions begin.
inline constexpr size_t kDescriptionColumn = 44;

/// The options that are cleave-opt's own, not MLIR's or LLVM's.
extern llvm::cl::OptionCategory ownOptions;

/// Loads the libraries named by --load-pass-plugin and takes the option out of `arguments`, so that
/// their passes can be named like any other (`--my-pass`), in whatever order the options stand.
llvm::Error loadPassPlugins(llvm::SmallVectorImpl<char *> &arguments);

/// Keeps MLIR from printing the whole op, often the whole program, below an error, unless the user
/// asks for it with --mlir-print-op-on-diagnostic.
void quietDiagnostics(llvm::SmallVectorImpl<char *> &arguments);

/// Whether --help is among the arguments.
bool wantsHelp(llvm::ArrayRef<char *> arguments);

/// Whether `pass` is the name of one of Cleave's own passes.
bool isCleavePass(llvm::StringRef pass);

/// Whether the option, registered as `name`, is one of those for users, and for no one's debugging.
bool isCommonOption(const llvm::cl::Option &option, llvm::StringRef name);

/// Prints passes by area and the options that concern programs. LLVM's own --help would list
/// several hundred options of its code generators; `--help-hidden` still does.
void printHelp(mlir::DialectRegistry &registry);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_OPT_COMMANDLINE_H
