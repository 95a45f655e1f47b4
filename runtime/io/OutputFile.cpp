//===- OutputFile.cpp - what a run writes ---------------------------------===//

#include "runtime/io/OutputFile.h"
#include "runtime/io/Files.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

using namespace cleave::runtime;
namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// Where a path leads
//===----------------------------------------------------------------------===//

/// The path with its links resolved, whether or not there is anything at its end.
static std::string resolve(llvm::StringRef path) {
  std::error_code error;
  fs::path current = fs::canonical(path.str(), error);
  if (!error)
    return current.string();
  current = path.str();
  for (int links = 0; links < 40 && fs::is_symlink(current, error); ++links)
    current = current.parent_path() / fs::read_symlink(current, error);
  fs::path parent = current.has_parent_path() ? current.parent_path() : fs::path(".");
  fs::path directory = fs::canonical(parent, error);
  return error ? current.string() : (directory / current.filename()).string();
}

/// Standard output or error if it is what `status` describes.
static std::optional<int> findStandardStream(const struct stat &status) {
  for (int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat other;
    if (::fstat(stream, &other) == 0 && other.st_dev == status.st_dev &&
        other.st_ino == status.st_ino)
      return stream;
  }
  return std::nullopt;
}

/// Opens what is not a regular file, without waiting for the other end.
static llvm::Expected<int> openSpecial(llvm::StringRef path) {
  int descriptor = ::open(path.str().c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENXIO)
    return makeError("{0}: cannot write: no process is reading from it", path);
  if (descriptor < 0)
    return makeSystemError(path, "write");
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  return descriptor;
}

llvm::Expected<OutputTarget> cleave::runtime::findOutputTarget(llvm::StringRef path) {
  OutputTarget target;
  struct stat status;
  if (::stat(path.str().c_str(), &status) != 0) {
    if (errno != ENOENT)
      return makeSystemError(path, "write");
    target.path = resolve(path);
    return target;
  }
  if (S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode))
    return makeError("{0}: expected a file to write, found {1}", path,
                     S_ISDIR(status.st_mode) ? "a directory" : "a block device");
  target.exists = true;
  target.mode = status.st_mode & 07777;
  if (std::optional<int> stream = findStandardStream(status)) {
    target.isFile = false;
    target.path = path.str();
    target.descriptor = ::fcntl(*stream, F_DUPFD_CLOEXEC, 3);
    if (target.descriptor < 0)
      return makeSystemError(path, "write");
    return target;
  }
  target.path = resolve(path);
  target.isFile = S_ISREG(status.st_mode);
  if (target.isFile) {
    if (::access(path.str().c_str(), W_OK) != 0)
      return makeSystemError(path, "write");
    return target;
  }
  llvm::Expected<int> descriptor = openSpecial(path);
  if (!descriptor)
    return descriptor.takeError();
  target.descriptor = *descriptor;
  return target;
}

//===----------------------------------------------------------------------===//
// OutputFile
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<OutputFile>> OutputFile::open(llvm::StringRef path) {
  llvm::Expected<OutputTarget> target = findOutputTarget(path);
  if (!target)
    return target.takeError();
  std::unique_ptr<OutputFile> file(new OutputFile);
  file->name = path.str();
  file->target = target->path;
  file->descriptor = target->descriptor;
  if (!target->isFile) {
    // What was printed before comes before it.
    std::fflush(stdout);
    llvm::outs().flush();
    return file;
  }
  std::string temporary = llvm::formatv("{0}.tmp-{1}", target->path, ::getpid()).str();
  file->descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file->descriptor < 0)
    return makeSystemError(path, "write");
  file->temporary = std::move(temporary);
  llvm::sys::RemoveFileOnSignal(file->temporary);
  // The user may have decided who reads the file.
  if (target->exists)
    ::fchmod(file->descriptor, target->mode);
  return file;
}

OutputFile::~OutputFile() {
  if (descriptor < 0)
    return;
  ::close(descriptor);
  if (!isFile())
    return;
  ::unlink(temporary.c_str());
  llvm::sys::DontRemoveFileOnSignal(temporary);
}

llvm::Error cleave::runtime::writeAll(int descriptor, llvm::ArrayRef<uint8_t> bytes,
                                      llvm::StringRef path) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB a call.
    ssize_t written = ::write(descriptor, bytes.data(), std::min<size_t>(bytes.size(), 1u << 30));
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return makeSystemError(path, "write");
    bytes = bytes.drop_front(written);
  }
  return llvm::Error::success();
}

llvm::Error OutputFile::write(llvm::ArrayRef<uint8_t> bytes) {
  return writeAll(descriptor, bytes, name);
}

llvm::Error OutputFile::write(llvm::StringRef text) {
  return write(llvm::arrayRefFromStringRef(text));
}

llvm::Error OutputFile::commit() {
  if (!isFile()) {
    int result = ::close(std::exchange(descriptor, -1));
    return result == 0 ? llvm::Error::success() : makeSystemError(name, "write");
  }
  if (::fsync(descriptor) != 0)
    return makeSystemError(name, "write");
  if (::rename(temporary.c_str(), target.c_str()) != 0)
    return makeSystemError(name, "write");
  ::close(std::exchange(descriptor, -1));
  llvm::sys::DontRemoveFileOnSignal(temporary);
  llvm::StringRef parent = llvm::sys::path::parent_path(target);
  return syncDirectory(parent.empty() ? "." : parent);
}

//===----------------------------------------------------------------------===//
// Outputs among inputs
//===----------------------------------------------------------------------===//

namespace {
/// What a path leads to, to be compared with others.
struct Identity {
  explicit Identity(llvm::StringRef path) : resolved(resolve(path)) {
    exists = ::stat(path.str().c_str(), &status) == 0;
  }
  bool isDirectory() const { return exists && S_ISDIR(status.st_mode); }
  /// Devices and pipes may be given twice.
  bool isSpecial() const { return exists && !isDirectory() && !S_ISREG(status.st_mode); }
  bool operator==(const Identity &other) const {
    if (exists != other.exists)
      return false;
    return exists ? status.st_dev == other.status.st_dev && status.st_ino == other.status.st_ino
                  : resolved == other.resolved;
  }
  bool isIn(const Identity &directory) const {
    return directory.isDirectory() &&
           llvm::StringRef(resolved).starts_with(directory.resolved + "/");
  }

  std::string resolved;
  bool exists = false;
  struct stat status{};
};
} // namespace

llvm::Error cleave::runtime::checkOutputs(llvm::ArrayRef<NamedPath> inputs,
                                          llvm::ArrayRef<NamedPath> outputs) {
  std::vector<Identity> read, written;
  for (const NamedPath &input : inputs)
    read.emplace_back(input.path);
  for (const auto &[option, path] : outputs) {
    Identity output(path);
    for (auto [input, identity] : llvm::zip_equal(inputs, read)) {
      if (!output.isSpecial() && output == identity)
        return makeError("{0} {1} would overwrite {2} {3}, which the run reads", option, path,
                         input.option, input.path);
      if (output.isIn(identity))
        return makeError("{0} {1} is in {2} {3}, and the run reads all files there", option, path,
                         input.option, input.path);
    }
    for (auto [other, identity] : llvm::zip(outputs, written))
      if (!output.isSpecial() && output == identity)
        return makeError("{0} {1} and {2} {3} are the same file", other.option, other.path, option,
                         path);
    written.push_back(std::move(output));
  }
  return llvm::Error::success();
}
