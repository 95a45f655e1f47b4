//===- OutputFile.cpp ------------------------------------------------------===//

#include "lib/solve/OutputFile.h"

#include "lib/support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace cleave;

llvm::Error cleave::solve::writeText(llvm::StringRef path, llvm::StringRef text) {
  std::error_code code;
  llvm::ToolOutputFile file(path, code, llvm::sys::fs::OF_Text);
  if (code)
    return makeError("cannot write {0}: {1}", path, code.message());
  file.os() << text;
  file.os().flush();
  if (file.os().has_error()) {
    code = file.os().error();
    file.os().clear_error();
    return makeError("cannot write {0}: {1}", path, code.message());
  }
  file.keep();
  return llvm::Error::success();
}
