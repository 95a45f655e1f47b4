//===- Ptxas.cpp - assembling PTX --------------------------------------------------===//

#include "lib/kernels/gpu/Ptxas.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave::kernels;
using llvm::createStringError;
using llvm::StringRef;

/// The number before `unit` in "..., 360 bytes cmem[0]"; 0 where it is not there.
static unsigned numberBefore(StringRef line, StringRef unit) {
  size_t at = line.find(unit);
  if (at == StringRef::npos)
    return 0;
  StringRef before = line.take_front(at).rtrim();
  StringRef digits = before.take_back(before.size() - (before.find_last_not_of("0123456789") + 1));
  unsigned number = 0;
  return digits.getAsInteger(10, number) ? 0 : number;
}

std::vector<gpu::KernelResources> gpu::parseResources(StringRef text) {
  std::vector<KernelResources> kernels;
  // Only what follows the line of an entry is the entry's: functions that were not inlined have
  // properties of their own.
  bool ofEntry = false;
  for (StringRef line : llvm::split(text, '\n')) {
    if (line.contains("Compiling entry function '")) {
      kernels.emplace_back().name = line.split('\'').second.split('\'').first.str();
      ofEntry = true;
    } else if (kernels.empty()) {
      continue;
    } else if (line.contains("Function properties for ")) {
      ofEntry = line.trim().ends_with(" " + kernels.back().name);
    } else if (line.contains("bytes stack frame") && ofEntry) {
      kernels.back().stack = numberBefore(line, "bytes stack frame");
      kernels.back().spillStores = numberBefore(line, "bytes spill stores");
      kernels.back().spillLoads = numberBefore(line, "bytes spill loads");
    } else if (line.contains("Used ") && line.contains(" registers")) {
      kernels.back().registers = numberBefore(line, "registers");
      kernels.back().shared = numberBefore(line, "bytes smem");
    }
  }
  llvm::sort(kernels, [](const auto &a, const auto &b) { return a.name < b.name; });
  return kernels;
}

namespace {
/// A file that goes when the object does.
struct TemporaryFile {
  llvm::SmallString<128> path;
  llvm::FileRemover remover;

  std::error_code create(StringRef extension) {
    std::error_code error = llvm::sys::fs::createTemporaryFile("cleave", extension, path);
    if (!error)
      remover.setFile(path);
    return error;
  }
};
} // namespace

static std::string readFile(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

llvm::Expected<gpu::Cubin> gpu::assemblePtx(StringRef ptx, const Chip &chip, StringRef ptxas) {
  TemporaryFile source, image, log;
  for (auto [file, extension] : {std::pair(&source, "ptx"), {&image, "cubin"}, {&log, "log"}})
    if (std::error_code error = file->create(extension))
      return createStringError("cannot create a temporary file: " + error.message());
  {
    std::error_code error;
    llvm::raw_fd_ostream stream(source.path, error);
    stream << ptx;
    stream.close();
    if (error || stream.has_error())
      return createStringError("cannot write " + source.path + ": " +
                               (error ? error : stream.error()).message());
    stream.clear_error();
  }
  std::string arch = ("-arch=" + chip.name).str();
  StringRef arguments[] = {ptxas, arch, "-v", "-O3", source.path, "-o", image.path};
  std::optional<StringRef> redirects[] = {StringRef(), log.path.str(), log.path.str()};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, 0, 0, &message);
  std::string text = readFile(log.path);
  if (status != 0)
    return createStringError(ptxas + " failed for " + chip.name + ": " +
                             (message.empty() ? StringRef(text).trim() : StringRef(message)));
  return Cubin{readFile(image.path), parseResources(text)};
}
