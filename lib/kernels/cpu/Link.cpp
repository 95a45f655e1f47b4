//===- Link.cpp - linking a shared object ------------------------------------===//

#include "lib/kernels/cpu/Link.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;

llvm::Expected<std::string> kernels::findLinker() {
  if (std::optional<std::string> named = llvm::sys::Process::GetEnv("CLEAVE_LLD")) {
    if (llvm::sys::fs::can_execute(*named))
      return *named;
    return llvm::createStringError("cannot link kernels: CLEAVE_LLD is '" + *named +
                                   "', which is not an executable");
  }
  if (auto found = llvm::sys::findProgramByName("ld.lld", {CLEAVE_LLVM_TOOLS}))
    return *found;
  if (auto found = llvm::sys::findProgramByName("ld.lld"))
    return *found;
  return llvm::createStringError("cannot link kernels: ld.lld is neither in " CLEAVE_LLVM_TOOLS
                                 " nor in PATH (package lld-22)");
}

bool kernels::isLibraryFunction(llvm::StringRef name) {
  static const llvm::StringSet<> names = {
      "memcpy", "memset", "memmove", "exp",  "log",  "log1p",     "sin",       "cos",
      "tanh",   "erf",    "pow",     "expf", "logf", "sinf",      "log1pf",    "cosf",
      "erff",   "tanhf",  "powf",    "fmaf", "fma",  "roundeven", "roundevenf"};
  return names.contains(name);
}

/// The linker would say it too, but with the C library's path as another thing to find.
static llvm::Error checkSymbols(llvm::ArrayRef<char> object) {
  llvm::MemoryBufferRef buffer(llvm::StringRef(object.data(), object.size()), "kernels");
  auto file = llvm::object::ObjectFile::createObjectFile(buffer);
  if (!file)
    return file.takeError();
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    auto name = symbol.getName();
    if (!name)
      return name.takeError();
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty() &&
        !kernels::isLibraryFunction(*name))
      return llvm::createStringError("cannot link kernels: the function '" + *name +
                                     "' is not in any library available to them");
  }
  return llvm::Error::success();
}

static llvm::Error write(llvm::StringRef path, llvm::ArrayRef<char> bytes) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error) {
    os.write(bytes.data(), bytes.size());
    os.close();
    error = os.error();
  }
  if (error)
    return llvm::createStringError(error, "cannot write '" + path + "': " + error.message());
  return llvm::Error::success();
}

llvm::Expected<std::vector<char>> kernels::linkShared(llvm::ArrayRef<char> object) {
  if (llvm::Error error = checkSymbols(object))
    return error;
  llvm::Expected<std::string> linker = findLinker();
  if (!linker)
    return linker.takeError();
  llvm::SmallString<128> folder;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("cleave-kernels", folder))
    return llvm::createStringError(
        error, "cannot create a temporary directory to link kernels in: " + error.message());
  auto removal = llvm::make_scope_exit([&] { llvm::sys::fs::remove_directories(folder); });
  auto pathOf = [&](llvm::StringRef name) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    return std::string(path);
  };
  std::string input = pathOf("kernels.o"), output = pathOf("kernels.so"), log = pathOf("log");
  if (llvm::Error error = write(input, object))
    return error;
  std::string message;
  int status = llvm::sys::ExecuteAndWait(
      *linker, {*linker, "-shared", "-z", "now", "-z", "noexecstack", "-o", output, input},
      std::nullopt, {std::nullopt, llvm::StringRef(log), llvm::StringRef(log)}, 0, 0, &message);
  if (status != 0) {
    if (auto text = llvm::MemoryBuffer::getFile(log); text && message.empty())
      message = (*text)->getBuffer().trim().str();
    return llvm::createStringError("cannot link kernels: " + *linker + " failed: " + message);
  }
  auto linked = llvm::MemoryBuffer::getFile(output);
  if (!linked)
    return llvm::createStringError(linked.getError(),
                                   "cannot read '" + output + "': " + linked.getError().message());
  llvm::StringRef bytes = (*linked)->getBuffer();
  return std::vector<char>(bytes.begin(), bytes.end());
}
