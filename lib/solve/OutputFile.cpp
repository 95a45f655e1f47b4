//===- OutputFile.cpp ------------------------------------------------------===//

#include "lib/solve/OutputFile.h"

#include "lib/support/Error.h"
#include "llvm/Support/FileSystem.h"

using namespace cleave;

llvm::Expected<std::unique_ptr<llvm::ToolOutputFile>>
cleave::solve::openOutput(llvm::StringRef path, llvm::StringRef input) {
  if (llvm::sys::fs::equivalent(path, input))
    return makeError("cannot write {0}: it is the input", path);
  std::error_code code;
  auto file = std::make_unique<llvm::ToolOutputFile>(path, code, llvm::sys::fs::OF_Text);
  if (code)
    return makeError("cannot write {0}: {1}", path, code.message());
  return file;
}

llvm::Error cleave::solve::writeText(llvm::ToolOutputFile &file, llvm::StringRef text) {
  file.os() << text;
  file.os().flush();
  if (file.os().has_error()) {
    std::error_code code = file.os().error();
    file.os().clear_error();
    return makeError("cannot write {0}: {1}", file.getFilename(), code.message());
  }
  file.keep();
  return llvm::Error::success();
}

llvm::Error cleave::solve::writeText(llvm::StringRef path, llvm::StringRef text) {
  auto file = openOutput(path, /*input=*/"");
  return file ? writeText(**file, text) : file.takeError();
}
