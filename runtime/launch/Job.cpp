//===- Job.cpp - From the command line to a running rank ------------------===//

#include "runtime/launch/Job.h"

#include "runtime/comm/Failure.h"
#include "runtime/io/TerminalLine.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <iostream>
#include <mutex>

#include <unistd.h>

using namespace cleave::runtime;

/// A message may quote a file: what it has of that must not reach a terminal as commands.
static std::string makePrintable(llvm::StringRef message) {
  std::string text;
  for (char c : llvm::json::isUTF8(message) ? message.str() : llvm::json::fixUTF8(message)) {
    bool isControl = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    text += isControl ? llvm::formatv("\\{0:X-2}", int(c)).str() : std::string(1, c);
  }
  return text;
}

/// In one write, so that the lines of several ranks do not mix; and one rank at a time, since not
/// every system makes two threads' writes to one file follow each other.
static void printError(const std::string &prefix, const std::string &message) {
  static std::mutex printing;
  std::string text = prefix + "error: " + makePrintable(message) + "\n";
  std::lock_guard<std::mutex> lock(printing);
  llvm::outs().flush();
  endTerminalLine();
  llvm::errs() << text;
  llvm::errs().flush();
}

/// Where several ranks write to one stream, lines say whose they are. The supervisor does this for
/// all of its ranks but the first.
static std::string prefixFor(const RankEnvironment &env) {
  bool prefixedBySupervisor =
      env.launcher == Launcher::Local && !env.rendezvous.inProcess && env.rank > 0;
  return env.size == 1 || prefixedBySupervisor ? "" : describeRanks({env.rank}) + ": ";
}

static llvm::Error guarded(const JobBody &body, Communicator &world, const RankEnvironment &env) {
  try {
    if (llvm::Error error = body(world, env))
      return error;
    return world.finish();
  } catch (const std::exception &exception) {
    return llvm::createStringError("unexpected: %s", exception.what());
  }
}

/// The rank's exit status for an error, which it reports unless another one does.
static int report(llvm::Error error, const RankEnvironment &env) {
  int status = 1;
  std::string prefix = prefixFor(env);
  bool isLocal = env.launcher == Launcher::Local, isSilent = false;
  llvm::handleAllErrors(
      std::move(error),
      [&](const PeerFailure &failure) {
        status = kPeerFailureStatus;
        // The rank at fault says why itself, or else how it ended, or else the first that notices.
        isSilent =
            isLocal && (failure.isReported() || deferReport(env.rank, failure) || !claimReport());
        if (!isSilent)
          printError(prefix, failure.message());
      },
      [&](const CollectiveRefusal &refusal) {
        // Every rank has the same refusal, so that the first can speak for all.
        if (env.rank == 0)
          printError("", refusal.message());
      },
      [&](const Interruption &interruption) {
        status = 128 + interruption.signal();
        if (env.rank == 0)
          printError("", interruption.message());
      },
      [&](const llvm::ErrorInfoBase &other) { printError(prefix, other.message()); });
  // What concerns all ranks is said once for all of them.
  if (isLocal && !isSilent)
    claimReport();
  return status;
}

/// The end of a rank that failed.
static int leave(int status, const RankEnvironment &env) {
  if (env.size > 1 && !env.rendezvous.inProcess) {
    // Operations that are stuck keep threads, and would keep this process, until their timeout.
    std::cout.flush();
    llvm::outs().flush();
    std::fflush(nullptr);
    ::_exit(status);
  }
  return status;
}

static int runRank(const RankEnvironment &env, const JobOptions &options, const JobBody &body) {
  bool ownProcess = !env.rendezvous.inProcess;
  ConnectOptions connecting;
  connecting.timeout = options.timeout;
  if (ownProcess) {
    connecting.lossExitStatus = kPeerFailureStatus;
    if (env.launcher != Launcher::Local)
      connecting.reportLoss = [prefix = prefixFor(env)](const std::string &message) {
        printError(prefix, message);
      };
  }
  llvm::Expected<std::unique_ptr<Communicator>> world = connect(env.rendezvous, connecting);
  if (!world)
    return leave(report(world.takeError(), env), env);
  llvm::Error error = guarded(body, **world, env);
  if (!error)
    return 0;
  std::string reason;
  llvm::raw_string_ostream(reason) << error;
  // A rank that ends with a refusal while others are still in the operation before it would take
  // them by surprise.
  if (error.isA<CollectiveRefusal>() || error.isA<Interruption>())
    llvm::consumeError((*world)->finish());
  else
    (*world)->abort(reason);
  return leave(report(std::move(error), env), env);
}

int cleave::runtime::runJob(const JobOptions &options, const JobBody &body) {
  llvm::Expected<RankEnvironment> env = RankEnvironment::detect();
  if (!env) {
    printError("", llvm::toString(env.takeError()));
    return 1;
  }
  if (options.timeout <= std::chrono::milliseconds(0)) {
    printError("", "--timeout: expected more than 0 seconds");
    return 1;
  }
  if (!options.ranks) {
    if (env->rank == 0)
      for (const std::string &note : env->notes)
        llvm::errs() << "note: " << note << "\n";
    return runRank(*env, options, body);
  }
  if (env->launcher != Launcher::None) {
    printError("", "--ranks=" + std::to_string(*options.ranks) + ", but " +
                       describe(env->launcher).str() + " has already assigned this process rank " +
                       std::to_string(env->rank) + " of " + std::to_string(env->size) +
                       ": omit one of them");
    return 1;
  }
  auto rankMain = [&](const RankEnvironment &rank) { return runRank(rank, options, body); };
  LocalLaunchOptions launching;
  launching.ranks = *options.ranks;
  if (options.isInterruptible)
    launching.patience = options.timeout;
  if (launching.ranks == 1)
    return rankMain(*env);
  llvm::Expected<int> status =
      options.asThreads ? launchThreads(launching, rankMain) : launchProcesses(launching, rankMain);
  if (status) {
    if (*status && options.asThreads) {
      // Gloo's threads of ranks that failed may still be there.
      std::cout.flush();
      std::fflush(nullptr);
      ::_exit(*status);
    }
    return *status;
  }
  printError("", llvm::toString(status.takeError()));
  return 1;
}
