//===- Files.cpp - mapped reads, directories ------------------------------===//

#include "runtime/io/Files.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace cleave::runtime;

llvm::Error cleave::runtime::makeSystemError(llvm::StringRef path, llvm::StringRef attempted) {
  return makeError("{0}: cannot {1}: {2}", path, attempted, std::strerror(errno));
}

llvm::Expected<std::unique_ptr<MappedFile>> MappedFile::open(llvm::StringRef path) {
  std::unique_ptr<MappedFile> file(new MappedFile);
  file->name = path.str();
  // A named pipe would be waited for before it could be refused.
  int descriptor = ::open(file->name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0)
    return makeSystemError(path, "open");
  llvm::scope_exit close([&] { ::close(descriptor); });
  struct stat status;
  if (::fstat(descriptor, &status) != 0)
    return makeSystemError(path, "read");
  if (!S_ISREG(status.st_mode))
    return makeError("{0}: expected a file, found {1}", path,
                     S_ISDIR(status.st_mode) ? "a directory"
                                             : "something that is not a regular file");
  if (status.st_size == 0)
    return file; // mmap refuses empty files
  void *address = ::mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED)
    return makeSystemError(path, "map");
  file->contents = {static_cast<const uint8_t *>(address), size_t(status.st_size)};
  return file;
}

MappedFile::~MappedFile() {
  if (!contents.empty())
    ::munmap(const_cast<uint8_t *>(contents.data()), contents.size());
}

llvm::Error cleave::runtime::syncDirectory(llvm::StringRef path) {
  int descriptor = ::open(path.str().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return makeSystemError(path, "open");
  int result = ::fsync(descriptor);
  int error = errno;
  ::close(descriptor);
  // Some file systems (EINVAL) have nothing to synchronize for a directory.
  if (result != 0 && error != EINVAL) {
    errno = error;
    return makeSystemError(path, "synchronize");
  }
  return llvm::Error::success();
}

llvm::Error cleave::runtime::checkWritableDirectory(llvm::StringRef path) {
  if (std::error_code error =
          llvm::sys::fs::create_directories(path, /*IgnoreExisting=*/true, llvm::sys::fs::all_all))
    return makeError("{0}: cannot create the directory: {1}", path, error.message());
  std::string probe = llvm::formatv("{0}/.probe-{1}", path, ::getpid()).str();
  int descriptor = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return makeError("{0}: expected a writable directory: {1}", path, std::strerror(errno));
  ::close(descriptor);
  ::unlink(probe.c_str());
  return llvm::Error::success();
}
