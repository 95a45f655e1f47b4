//===- Processes.cpp - Child processes of a test, and what they wrote -----===//

#include "test/unit/runtime/launch/Processes.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cleave::runtime;

test::Process::Process(const std::map<std::string, std::string> &environment,
                       const std::function<int()> &body)
    : outputFile(::memfd_create("output", MFD_CLOEXEC)),
      errorFile(::memfd_create("errors", MFD_CLOEXEC)) {
  // Several processes and threads write to each: at the end, wherever another's write has put it.
  for (int file : {outputFile, errorFile})
    ::fcntl(file, F_SETFL, O_APPEND);
  pid = ::fork();
  if (pid)
    return;
  ::dup2(outputFile, STDOUT_FILENO);
  ::dup2(errorFile, STDERR_FILENO);
  for (const auto &[name, value] : environment)
    ::setenv(name.c_str(), value.c_str(), 1);
  ::_exit(body());
}

test::Process::~Process() {
  if (!reaped) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  ::close(outputFile);
  ::close(errorFile);
}

void test::Process::signal(int number) {
  ::kill(pid, number);
}

int test::Process::wait(double seconds) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status;
  while (::waitpid(pid, &status, WNOHANG) != pid) {
    if (std::chrono::steady_clock::now() > deadline)
      return -1;
    ::usleep(2000);
  }
  reaped = true;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static std::string contents(int file) {
  struct stat state{};
  ::fstat(file, &state);
  std::string text(state.st_size, '\0');
  text.resize(std::max<ssize_t>(::pread(file, text.data(), text.size(), 0), 0));
  return text;
}

std::string test::Process::output() const {
  return contents(outputFile);
}
std::string test::Process::errors() const {
  return contents(errorFile);
}

bool test::Process::waitForOutput(const std::string &text) const {
  for (int attempt = 0; attempt < 2000; ++attempt, ::usleep(5000))
    if (output().find(text) != std::string::npos)
      return true;
  return false;
}

void test::letOthersFollow() {
  ::usleep(500000);
}

void test::say(const std::string &line) {
  std::string text = line + "\n";
  (void)!::write(STDOUT_FILENO, text.data(), text.size());
}

bool test::exists(pid_t pid) {
  return ::kill(pid, 0) == 0 || errno != ESRCH;
}
