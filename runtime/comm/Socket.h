//===- Socket.h - The little of TCP that ranks need -------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_COMM_SOCKET_H
#define CLEAVE_RUNTIME_COMM_SOCKET_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <chrono>
#include <cstdint>
#include <utility>

namespace cleave::runtime {

using Clock = std::chrono::steady_clock;

/// Owns a file descriptor.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd(fd) {}
  FileDescriptor(FileDescriptor &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd; }
  int release() { return std::exchange(fd, -1); }
  explicit operator bool() const { return fd >= 0; }

private:
  int fd = -1;
};

/// A TCP socket listening on `port` (0: a free one) of all interfaces, or of the loopback only.
llvm::Expected<FileDescriptor> listenOn(uint16_t port, bool loopbackOnly);

/// The port that a listening socket has.
llvm::Expected<uint16_t> listeningPort(const FileDescriptor &socket);

/// Connects, retrying while no one listens there yet, until `deadline`.
llvm::Expected<FileDescriptor> connectTo(llvm::StringRef host, uint16_t port,
                                         Clock::time_point deadline);

/// Accepts one connection that is waiting; empty if it is gone again.
FileDescriptor acceptFrom(const FileDescriptor &listener);

/// Writes all of `bytes` unless the peer stops reading for longer than a second.
bool sendAll(const FileDescriptor &socket, llvm::StringRef bytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_SOCKET_H
