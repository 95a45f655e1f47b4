//===- Output.cpp -------------------------------------------------------------===//

#include "Output.h"

#include "lib/support/Error.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace cleave;

llvm::Error sim::writeFile(llvm::StringRef path,
                           llvm::function_ref<void(llvm::raw_ostream &)> print) {
  std::error_code code;
  llvm::ToolOutputFile file(path, code, llvm::sys::fs::OF_Text);
  if (!code) {
    print(file.os());
    file.os().flush();
    code = file.os().error();
    file.os().clear_error();
  }
  if (code)
    return makeError("{0}: {1}", path, code.message());
  file.keep();
  return llvm::Error::success();
}
