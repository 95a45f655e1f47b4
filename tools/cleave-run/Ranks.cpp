//===- Ranks.cpp - the ranks that run a program -------------------------------===//

#include "tools/cleave-run/Ranks.h"
#include "cleave/Session.h"
#include "runtime/io/Error.h"
#include "runtime/launch/Job.h"
#include "tools/cleave-run/Devices.h"

#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <thread>

using namespace cleave;
using namespace cleave::runtime;
namespace cl = llvm::cl;

cl::OptionCategory run::ranksCategory("Ranks");

static cl::opt<int> ranks("ranks",
                          cl::desc("Number of ranks to start on this machine (default: from "
                                   "torchrun, mpirun or srun, else 1)"),
                          cl::value_desc("n"), cl::cat(run::ranksCategory));
enum class RanksAs { Processes, Threads };
static cl::opt<RanksAs> ranksAs(
    "ranks-as", cl::desc("How to run the ranks of --ranks"), cl::init(RanksAs::Processes),
    cl::values(clEnumValN(RanksAs::Processes, "processes", "Child processes (default)"),
               clEnumValN(RanksAs::Threads, "threads", "Threads of this process, for tests")),
    cl::cat(run::ranksCategory));
static cl::opt<double> timeout("timeout",
                               cl::desc("Seconds until ranks that wait for each other give up"),
                               cl::value_desc("s"), cl::cat(run::ranksCategory));

bool run::hasRanks() {
  return ranks.getNumOccurrences() || isLaunched();
}

bool run::isLaunched() {
  if (ranks.getNumOccurrences())
    return false;
  // What is wrong with a launcher's variables is said when its job is joined.
  llvm::Expected<RankEnvironment> environment = RankEnvironment::detect();
  if (!environment)
    llvm::consumeError(environment.takeError());
  return !environment || environment->size > 1;
}

llvm::Error run::flushOutput() {
  llvm::outs().flush();
  bool isLost = std::fflush(stdout) != 0 || std::ferror(stdout);
  std::error_code error = llvm::outs().error();
  if (!error && isLost)
    error = {errno ? errno : EIO, std::generic_category()};
  // What is reported is not to end the process at its exit.
  llvm::outs().clear_error();
  std::clearerr(stdout);
  return error ? makeError("cannot write to standard output: {0}", error.message())
               : llvm::Error::success();
}

int run::runOnRanks(const Options &options,
                    const std::function<llvm::Error(Communicator &, const Options &)> &body,
                    bool isInterruptible) {
  if (llvm::Error error = loadDevice()) {
    llvm::WithColor::error(llvm::errs(), "cleave-run") << llvm::toString(std::move(error)) << "\n";
    return EXIT_FAILURE;
  }
  JobOptions job;
  if (ranks.getNumOccurrences())
    job.ranks = ranks;
  job.isInterruptible = isInterruptible;
  job.asThreads = ranksAs == RanksAs::Threads;
  if (timeout.getNumOccurrences())
    job.timeout = std::chrono::milliseconds(int64_t(std::min<double>(timeout, 1e9) * 1000));
  return runJob(job, [&](Communicator &world, const RankEnvironment &environment) -> llvm::Error {
    installCachingAllocator();
    // Ranks of one machine share its cores.
    int cores = std::max(1u, std::thread::hardware_concurrency());
    int share = std::max(1, cores / environment.localSize);
    if (options.threads || environment.localSize > 1)
      setNumThreads(options.threads ? options.threads : share);
    llvm::Expected<OwnedDevice> device = openDevice(environment);
    if (!device)
      return device.takeError();
    Options mine = options;
    mine.device = device->get();
    auto runBody = [&](Communicator &ranks) {
      llvm::Error error = body(ranks, mine);
      return error ? std::move(error) : flushOutput();
    };
    if (!*device || (world.size() == 1 && !wantsNccl()))
      return runBody(world);
    llvm::Expected<std::unique_ptr<Communicator>> ofDevices = makeCommunicator(world, **device);
    if (!ofDevices)
      return ofDevices.takeError();
    if (llvm::Error error = runBody(**ofDevices))
      return error;
    return (*ofDevices)->finish();
  });
}
