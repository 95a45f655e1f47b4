//===- Processes.h - Child processes of a test, and what they wrote -*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_LAUNCH_PROCESSES_H
#define CLEAVE_TEST_UNIT_RUNTIME_LAUNCH_PROCESSES_H

#include <functional>
#include <map>
#include <string>
#include <sys/types.h>

namespace cleave::runtime::test {

/// A child process that runs `body` and exits with its result; its output goes to files.
class Process {
public:
  Process(const std::map<std::string, std::string> &environment, const std::function<int()> &body);
  Process(const Process &) = delete;
  /// Kills the process if it has not been waited for.
  ~Process();

  pid_t id() const { return pid; }
  void signal(int number);
  /// Waits for the end, at most this long; its status: the exit status, 128 + N after signal N, -1
  /// if the time is over.
  int wait(double seconds = 20);
  /// What it has written so far.
  std::string output() const;
  std::string errors() const;
  /// Waits until it has written `text` as output; false after ten seconds.
  bool waitForOutput(const std::string &text) const;

private:
  pid_t pid;
  bool reaped = false;
  int outputFile, errorFile;
};

/// Half a second, for the other ranks to come out of an operation that this one is out of already:
/// a rank that is lost at once may still be missed in that one.
void letOthersFollow();

/// Writes one line at once, unbuffered.
void say(const std::string &line);

/// Whether a process of this number exists.
bool exists(pid_t pid);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_UNIT_RUNTIME_LAUNCH_PROCESSES_H
