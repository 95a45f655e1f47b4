//===- LocalLauncher.cpp - Several ranks on this machine ------------------===//

#include "runtime/launch/LocalLauncher.h"

#include "runtime/comm/Failure.h"
#include "runtime/comm/Socket.h"
#include "runtime/io/TerminalLine.h"

#include "llvm/ADT/StringExtras.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cleave::runtime;
using llvm::StringRef;

static llvm::Error systemError(const char *what) {
  return llvm::createStringError("cannot start ranks: %s: %s", what, std::strerror(errno));
}

static RankEnvironment localEnvironment(int rank, int size) {
  RankEnvironment env;
  env.launcher = Launcher::Local;
  env.rank = env.localRank = env.rendezvous.rank = rank;
  env.size = env.localSize = env.rendezvous.size = size;
  env.rendezvous.oneMachine = true;
  return env;
}

static void writeAll(int fd, StringRef bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR)
      return; // The reader is gone; the ranks are still to be looked after.
    bytes = bytes.drop_front(std::max<ssize_t>(written, 0));
  }
}

namespace {
/// A line that one process leaves to another.
struct SharedText {
  char bytes[1 << 14] = {};

  void set(StringRef text) { llvm::copy(text.take_front(sizeof bytes - 1), bytes); }
};

/// What ranks have said of the job's failure.
struct Reports {
  /// Whether a rank has said why the job fails.
  std::atomic<bool> claimed = false;
  /// The first failure of a rank because of others, once it is complete; and what the first rank
  /// that was in an operation was in. These may be two ranks: one that finds out between two
  /// operations is often the first of all.
  std::atomic<bool> isDeferring = false, hasDeferred = false;
  std::atomic<bool> isNaming = false;
  SharedText deferred, operation;
};
} // namespace

static Reports ownReports;
static Reports *reports = &ownReports;

/// From here on forks have the reports in common.
static void shareReports() {
  void *memory =
      ::mmap(nullptr, sizeof *reports, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED)
    reports = new (memory) Reports;
}

bool cleave::runtime::claimReport() {
  return !reports->claimed.exchange(true);
}

bool cleave::runtime::deferReport(int rank, const PeerFailure &failure) {
  if (reports == &ownReports)
    return false;
  std::string name = describeRanks({rank});
  if (!failure.operation().empty() && !reports->isNaming.exchange(true))
    reports->operation.set((name + " was in " + failure.operation()).str());
  if (!reports->isDeferring.exchange(true)) {
    reports->deferred.set(name + ": error: " + failure.message());
    reports->hasDeferred = true;
  }
  return true;
}

namespace {

/// Copies what a rank writes to one of its streams, line by line, with the rank in front.
class PrefixedStream {
public:
  PrefixedStream(FileDescriptor source, int target, int rank)
      : source(std::move(source)), target(target), prefix("rank " + std::to_string(rank) + ": ") {}

  int fd() const { return source.get(); }

  /// Copies what there is to read; false once the rank has closed the stream.
  bool pump() {
    char buffer[8192];
    for (;;) {
      ssize_t length = ::read(source.get(), buffer, sizeof buffer);
      if (length > 0) {
        pending.append(buffer, length);
        writeLines(false);
        continue;
      }
      if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
      writeLines(true);
      source = FileDescriptor();
      return false;
    }
  }

private:
  void writeLines(bool all) {
    constexpr size_t kLongestLine = 1 << 16;
    std::string lines;
    for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1))
      lines += prefix + pending.substr(0, end + 1);
    if (!pending.empty() && (all || pending.size() > kLongestLine)) {
      lines += prefix + pending + "\n";
      pending.clear();
    }
    if (lines.empty())
      return;
    endTerminalLine();
    writeAll(target, lines);
  }

  FileDescriptor source;
  int target;
  std::string prefix, pending;
};

struct Child {
  pid_t pid = -1;
  std::optional<int> status; // as waitpid gives it
  int order = 0;             // how many ended before it
  bool stopped = false;      // it ended after the supervisor had told it to

  bool failed() const { return status && *status != 0; }
  /// Failed by itself, not because of another rank or the supervisor.
  bool isCause() const {
    return failed() && !stopped &&
           !(WIFEXITED(*status) && WEXITSTATUS(*status) == kPeerFailureStatus);
  }
};

class Supervisor {
public:
  explicit Supervisor(const LocalLaunchOptions &options)
      : options(options), children(options.ranks) {}
  ~Supervisor();

  llvm::Error start(const RankMain &rankMain);
  int supervise();

private:
  llvm::Error blockSignals();
  [[noreturn]] void becomeRank(int rank, FileDescriptor &output, FileDescriptor &errors,
                               pid_t parent, const RankMain &rankMain);
  void handleSignal(const signalfd_siginfo &info);
  void reap();
  void escalate();
  void signalAll(int signal);
  int reportOutcome();
  int running() const {
    return llvm::count_if(children, [](const Child &c) { return c.pid > 0 && !c.status; });
  }

  const LocalLaunchOptions &options;
  std::vector<Child> children;
  std::vector<PrefixedStream> streams;
  FileDescriptor signals, rendezvous;
  sigset_t blocked{}, previous{};
  bool signalsBlocked = false;
  int ended = 0;
  int forwarded = 0;
  // What is left to try against ranks that go on, and when.
  enum class Stage { Watching, Waiting, Terminated, Killed } stage = Stage::Watching;
  Clock::time_point nextStage;
};

} // namespace

llvm::Error Supervisor::blockSignals() {
  sigemptyset(&blocked);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    sigaddset(&blocked, signal);
  if (::sigprocmask(SIG_BLOCK, &blocked, &previous))
    return systemError("sigprocmask");
  signalsBlocked = true;
  signals = FileDescriptor(::signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK));
  return signals ? llvm::Error::success() : systemError("signalfd");
}

Supervisor::~Supervisor() {
  // Ranks are left only after an error in `start`.
  for (Child &child : children)
    if (child.pid > 0 && !child.status) {
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
  if (signalsBlocked)
    ::sigprocmask(SIG_SETMASK, &previous, nullptr);
}

llvm::Error Supervisor::start(const RankMain &rankMain) {
  // A fork has only the thread that called it; what other threads held would stay locked in it.
  std::error_code ignored;
  auto tasks = std::filesystem::directory_iterator("/proc/self/task", ignored);
  if (auto count = std::distance(begin(tasks), end(tasks)); count > 1)
    return llvm::createStringError("cannot start ranks: this process already has %d threads",
                                   int(count));
  llvm::Expected<FileDescriptor> listening = listenOn(0, /*loopbackOnly=*/true);
  if (!listening)
    return listening.takeError();
  rendezvous = std::move(*listening);
  if (llvm::Error error = blockSignals())
    return error;
  shareReports();
  shareTerminalLine();
  // What is buffered now would come out once per rank.
  std::fflush(nullptr);
  std::cout.flush();
  llvm::outs().flush();

  pid_t parent = ::getpid();
  for (int rank = 0; rank < options.ranks; ++rank) {
    FileDescriptor ends[2][2]; // [output, errors][read, write]
    for (int stream = 0; rank > 0 && stream < 2; ++stream) {
      int pipe[2];
      if (::pipe2(pipe, O_CLOEXEC))
        return systemError("pipe");
      ends[stream][0] = FileDescriptor(pipe[0]);
      ends[stream][1] = FileDescriptor(pipe[1]);
      ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    }
    pid_t pid = ::fork();
    if (pid < 0)
      return systemError("fork");
    if (pid == 0)
      becomeRank(rank, ends[0][1], ends[1][1], parent, rankMain);
    children[rank].pid = pid;
    if (rank > 0) {
      streams.emplace_back(std::move(ends[0][0]), STDOUT_FILENO, rank);
      streams.emplace_back(std::move(ends[1][0]), STDERR_FILENO, rank);
    }
  }
  rendezvous = FileDescriptor();
  return llvm::Error::success();
}

void Supervisor::becomeRank(int rank, FileDescriptor &output, FileDescriptor &errors, pid_t parent,
                            const RankMain &rankMain) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before it could be watched.
  if (::getppid() != parent)
    ::_exit(kPeerFailureStatus);
  ::sigprocmask(SIG_SETMASK, &previous, nullptr);
  if (rank > 0) {
    ::dup2(output.get(), STDOUT_FILENO);
    ::dup2(errors.get(), STDERR_FILENO);
    // Line by line, also into a pipe, for the order of a rank's lines.
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  }
  int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (rank > 0 && nothing >= 0)
    ::dup2(nothing, STDIN_FILENO);
  streams.clear();
  signals = FileDescriptor();
  RankEnvironment env = localEnvironment(rank, options.ranks);
  llvm::Expected<uint16_t> port = listeningPort(rendezvous);
  int status = 1;
  if (port) {
    env.rendezvous.port = *port;
    if (rank == 0)
      env.rendezvous.listeningSocket = rendezvous.release();
    else
      rendezvous = FileDescriptor();
    status = rankMain(env);
  } else {
    llvm::errs() << "error: " << llvm::toString(port.takeError()) << "\n";
  }
  // Static objects belong to the parent: flush, but do not destroy.
  llvm::outs().flush();
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(status);
}

void Supervisor::signalAll(int signal) {
  for (Child &child : children)
    if (child.pid > 0 && !child.status)
      ::kill(child.pid, signal);
}

void Supervisor::handleSignal(const signalfd_siginfo &info) {
  int signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGCHLD) {
    reap();
    return;
  }
  // What the terminal sends has reached the ranks already: they are in its process group.
  if (info.ssi_code != SI_KERNEL)
    signalAll(signal);
  if (signal == SIGUSR1 || signal == SIGUSR2)
    return;
  if (stage == Stage::Watching) {
    stage = Stage::Waiting;
    nextStage = Clock::now() + std::max(10 * options.grace, options.patience);
  } else if (forwarded) {
    nextStage = std::min(nextStage, Clock::now() + options.grace);
  }
  forwarded = signal;
}

void Supervisor::reap() {
  int status;
  bool failure = false;
  for (Child &child : children)
    if (child.pid > 0 && !child.status && ::waitpid(child.pid, &status, WNOHANG) == child.pid) {
      child.status = status;
      child.order = ended++;
      child.stopped = stage == Stage::Terminated || stage == Stage::Killed;
      failure |= status != 0;
    }
  if (failure && stage == Stage::Watching) {
    stage = Stage::Waiting;
    nextStage = Clock::now() + options.grace;
  }
}

/// Takes the next step against ranks that are still there when their time is over.
void Supervisor::escalate() {
  if (stage == Stage::Watching || stage == Stage::Killed || Clock::now() < nextStage)
    return;
  bool gently = stage == Stage::Waiting;
  signalAll(gently ? SIGTERM : SIGKILL);
  // A stopped process takes a SIGTERM only once it goes on.
  if (gently)
    signalAll(SIGCONT);
  stage = gently ? Stage::Terminated : Stage::Killed;
  nextStage = Clock::now() + options.grace;
}

int Supervisor::supervise() {
  while (running()) {
    std::vector<pollfd> waiting{{signals.get(), POLLIN, 0}};
    for (PrefixedStream &stream : streams)
      waiting.push_back({stream.fd(), POLLIN, 0});
    int patience = -1;
    if (stage != Stage::Watching && stage != Stage::Killed)
      patience = static_cast<int>(std::clamp<int64_t>(
          std::chrono::ceil<std::chrono::milliseconds>(nextStage - Clock::now()).count(), 0,
          60000));
    if (::poll(waiting.data(), waiting.size(), patience) < 0 && errno != EINTR)
      break;
    for (size_t i = 1; i < waiting.size(); ++i)
      if (waiting[i].revents)
        streams[i - 1].pump();
    signalfd_siginfo info;
    while (::read(signals.get(), &info, sizeof info) == sizeof info)
      handleSignal(info);
    escalate();
  }
  for (PrefixedStream &stream : streams)
    if (stream.fd() >= 0)
      stream.pump();
  return reportOutcome();
}

static std::string describeStatus(int status) {
  if (WIFSIGNALED(status)) {
    return "was killed by " + describeSignal(WTERMSIG(status));
  }
  return "exited with status " + std::to_string(WEXITSTATUS(status));
}

/// Says which rank failed first and how, where no rank has; returns the status for the caller to
/// exit with.
int Supervisor::reportOutcome() {
  const Child *cause = nullptr, *first = nullptr;
  std::vector<int> stoppedRanks;
  for (auto [rank, child] : llvm::enumerate(children)) {
    if (!child.failed())
      continue;
    if (child.stopped)
      stoppedRanks.push_back(static_cast<int>(rank));
    if (child.isCause() && (!cause || child.order < cause->order))
      cause = &child;
    if (!first || child.order < first->order)
      first = &child;
  }
  if (!first)
    return 0;
  // Ranks that end in good order after a signal have its status and say so.
  auto isOrderly = [&](const Child &child) {
    return WIFEXITED(*child.status) && WEXITSTATUS(*child.status) == 128 + forwarded;
  };
  bool isExplained = reports->claimed;
  bool hasVictim = !forwarded && !isExplained && reports->hasDeferred;
  std::vector<std::string> news;
  if (forwarded && !(isExplained && llvm::all_of(children, isOrderly)))
    news.push_back("error: interrupted by " + describeSignal(forwarded));
  else if (!forwarded && cause && (WIFSIGNALED(*cause->status) || !isExplained))
    news.push_back("error: " + describeRanks({int(cause - children.data())}) + " " +
                   describeStatus(*cause->status));
  else if (hasVictim && !cause)
    news.push_back(reports->deferred.bytes);
  else if (!forwarded && !cause && !isExplained)
    news.push_back("error: the ranks stopped waiting for each other");
  if (hasVictim && cause && *reports->operation.bytes)
    news.push_back(reports->operation.bytes);
  if (!stoppedRanks.empty())
    news.push_back((news.empty() ? "error: stopped " : "stopped ") + describeRanks(stoppedRanks) +
                   ", still running");
  endTerminalLine();
  if (!news.empty())
    writeAll(STDERR_FILENO, llvm::join(news, "; ") + "\n");
  if (forwarded)
    return 128 + forwarded;
  int status = *(cause ? cause : first)->status;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

static llvm::Error checkCount(const LocalLaunchOptions &options) {
  constexpr int kMaxRanks = 1024;
  if (options.ranks >= 1 && options.ranks <= kMaxRanks)
    return llvm::Error::success();
  return llvm::createStringError("--ranks=%d: expected a number of ranks from 1 to %d",
                                 options.ranks, kMaxRanks);
}

llvm::Expected<int> cleave::runtime::launchProcesses(const LocalLaunchOptions &options,
                                                     const RankMain &rankMain) {
  if (llvm::Error error = checkCount(options))
    return error;
  Supervisor supervisor(options);
  if (llvm::Error error = supervisor.start(rankMain))
    return error;
  return supervisor.supervise();
}

llvm::Expected<int> cleave::runtime::launchThreads(const LocalLaunchOptions &options,
                                                   const RankMain &rankMain) {
  if (llvm::Error error = checkCount(options))
    return error;
  reports->claimed = false;
  std::shared_ptr<InProcessStore> store = makeInProcessStore();
  std::vector<int> statuses(options.ranks, 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank)
    threads.emplace_back([&, rank] {
      RankEnvironment env = localEnvironment(rank, options.ranks);
      env.rendezvous.inProcess = store;
      statuses[rank] = rankMain(env);
    });
  for (std::thread &thread : threads)
    thread.join();
  // A victim's status only where nothing else explains the failure.
  int result = 0;
  for (int status : statuses)
    if (status && (result == 0 || result == kPeerFailureStatus))
      result = status;
  return result;
}
