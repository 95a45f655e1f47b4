//===- Socket.cpp - The little of TCP that ranks need ---------------------===//

#include "runtime/comm/Socket.h"

#include "runtime/comm/Failure.h"

#include <cerrno>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace cleave::runtime;

FileDescriptor::~FileDescriptor() {
  if (fd >= 0)
    ::close(fd);
}

/// Small messages leave at once, and a machine that vanished is noticed within half a minute.
static void tune(int fd) {
  auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

static bool bindAndListen(int fd, uint16_t port, bool loopbackOnly, int family) {
  int on = 1, off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = in6addr_any;
    if (::bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address))
      return false;
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(loopbackOnly ? INADDR_LOOPBACK : INADDR_ANY);
    if (::bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address))
      return false;
  }
  return ::listen(fd, SOMAXCONN) == 0;
}

llvm::Expected<FileDescriptor> cleave::runtime::listenOn(uint16_t port, bool loopbackOnly) {
  int error = 0;
  for (int family : {AF_INET6, AF_INET}) {
    if (loopbackOnly && family == AF_INET6)
      continue;
    FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket && bindAndListen(socket.get(), port, loopbackOnly, family))
      return socket;
    error = errno;
    // IPv4 is for kernels without IPv6, not for a port that another program has.
    if (error == EADDRINUSE)
      break;
  }
  return llvm::createStringError("cannot listen on port %d: %s", int(port), std::strerror(error));
}

llvm::Expected<uint16_t> cleave::runtime::listeningPort(const FileDescriptor &socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address), &length))
    return llvm::createStringError("cannot read a socket's port: %s", std::strerror(errno));
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<sockaddr_in6 &>(address).sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in &>(address).sin_port);
}

/// Milliseconds until `deadline` for poll(2), at least 0 and at most a second.
static int pollTime(Clock::time_point deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000));
}

/// One attempt on one address; errno tells why it failed.
static FileDescriptor connectOnce(const addrinfo &address, Clock::time_point deadline) {
  FileDescriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    return {};
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) && errno != EINPROGRESS)
    return {};
  pollfd waiting{socket.get(), POLLOUT, 0};
  int ready = 0;
  while (ready == 0 && Clock::now() < deadline) {
    ready = ::poll(&waiting, 1, pollTime(deadline));
    if (ready < 0 && errno == EINTR)
      ready = 0;
  }
  if (ready <= 0) {
    errno = ETIMEDOUT;
    return {};
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error) {
    errno = error;
    return {};
  }
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
  tune(socket.get());
  return socket;
}

llvm::Expected<FileDescriptor> cleave::runtime::connectTo(llvm::StringRef host, uint16_t port,
                                                          Clock::time_point deadline) {
  std::string hostName = host.str(), portName = std::to_string(port), problem = "no address";
  Clock::time_point begin = Clock::now();
  for (;;) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (int code = ::getaddrinfo(hostName.c_str(), portName.c_str(), &hints, &found)) {
      problem = ::gai_strerror(code);
      // Names of machines that are just starting may take a while to be known.
      if (Clock::now() > begin + std::chrono::seconds(10))
        break;
    } else {
      for (addrinfo *each = found; each; each = each->ai_next) {
        if (FileDescriptor socket = connectOnce(*each, deadline)) {
          ::freeaddrinfo(found);
          return socket;
        }
        problem = std::strerror(errno);
      }
      ::freeaddrinfo(found);
    }
    if (Clock::now() >= deadline)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::chrono::duration<double> spent = Clock::now() - begin;
  return llvm::createStringError("cannot connect to %s:%d within %s: %s", hostName.c_str(),
                                 int(port), describeSeconds(spent.count()).c_str(),
                                 problem.c_str());
}

FileDescriptor cleave::runtime::acceptFrom(const FileDescriptor &listener) {
  FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket)
    tune(socket.get());
  return socket;
}

bool cleave::runtime::sendAll(const FileDescriptor &socket, llvm::StringRef bytes) {
  Clock::time_point deadline = Clock::now() + std::chrono::seconds(1);
  while (!bytes.empty()) {
    ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.drop_front(sent);
    } else if (errno == EAGAIN) {
      pollfd waiting{socket.get(), POLLOUT, 0};
      if (Clock::now() >= deadline || ::poll(&waiting, 1, pollTime(deadline)) < 0)
        return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}
