//===- RankEnvironment.cpp - Which rank this process is -------------------===//

#include "runtime/launch/RankEnvironment.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

#include <cstdlib>

using namespace cleave::runtime;
using llvm::StringRef;

StringRef cleave::runtime::describe(Launcher launcher) {
  switch (launcher) {
  case Launcher::None:
    return "no launcher";
  case Launcher::Torchrun:
    return "torchrun";
  case Launcher::OpenMpi:
    return "mpirun";
  case Launcher::Slurm:
    return "srun";
  case Launcher::Local:
    return "--ranks";
  }
  return "";
}

namespace {

/// Ports from 20000: below the range that Linux gives to outgoing connections.
constexpr int kFirstJobPort = 20000, kJobPorts = 10000, kDefaultPort = 29500;

class Reader {
public:
  Reader(const RankEnvironment::Lookup &lookup, Launcher launcher)
      : lookup(lookup), launcher(launcher) {}

  std::optional<std::string> text(StringRef name) const {
    std::optional<std::string> value = lookup(name);
    return value && !value->empty() ? value : std::nullopt;
  }

  /// A whole number of at least `least`.
  llvm::Expected<std::optional<int>> number(StringRef name, int minimum) const {
    std::optional<std::string> value = text(name);
    if (!value)
      return std::nullopt;
    int result;
    if (StringRef(*value).trim().getAsInteger(10, result) || result < minimum)
      return llvm::createStringError("%s=%s: expected a whole number of at least %d",
                                     name.str().c_str(), value->c_str(), minimum);
    return std::optional<int>(result);
  }

  llvm::Expected<int> required(StringRef name, int minimum, StringRef because) const {
    auto value = number(name, minimum);
    if (!value)
      return value.takeError();
    if (!*value)
      return llvm::createStringError("%s is not set, but %s is: expected all of %s's variables or "
                                     "none",
                                     name.str().c_str(), because.str().c_str(),
                                     describe(launcher).str().c_str());
    return **value;
  }

  /// MASTER_PORT, or `otherwise`.
  llvm::Expected<uint16_t> port(int otherwise) const {
    auto value = number("MASTER_PORT", 1);
    if (!value)
      return value.takeError();
    int port = value->value_or(otherwise);
    if (port > 65535)
      return llvm::createStringError("MASTER_PORT=%d: expected a port, 1 to 65535", port);
    return static_cast<uint16_t>(port);
  }

private:
  const RankEnvironment::Lookup &lookup;
  Launcher launcher;
};

/// Names of the variables in which a launcher gives the four numbers.
struct Names {
  StringRef rank, size, localRank, localSize;
};

} // namespace

static llvm::Error checkBelow(StringRef name, int value, StringRef limitName, int limit) {
  if (value < limit)
    return llvm::Error::success();
  return llvm::createStringError("%s=%d, but %s=%d: expected a rank from 0 to %d",
                                 name.str().c_str(), value, limitName.str().c_str(), limit,
                                 limit - 1);
}

static llvm::Error readNumbers(const Reader &reader, const Names &names, RankEnvironment &env) {
  auto rank = reader.required(names.rank, 0, names.size);
  if (!rank)
    return rank.takeError();
  auto size = reader.required(names.size, 1, names.rank);
  if (!size)
    return size.takeError();
  auto localRank = reader.number(names.localRank, 0);
  if (!localRank)
    return localRank.takeError();
  auto localSize = names.localSize.empty() ? llvm::Expected<std::optional<int>>(std::nullopt)
                                           : reader.number(names.localSize, 1);
  if (!localSize)
    return localSize.takeError();
  env.rank = *rank;
  env.size = *size;
  env.localRank = localRank->value_or(0);
  env.localSize = localSize->value_or(1);
  if (*localRank)
    env.localRankName = names.localRank.str();
  env.rendezvous.rankName = names.rank.str();
  env.rendezvous.sizeName = names.size.str();
  if (llvm::Error error = checkBelow(names.rank, env.rank, names.size, env.size))
    return error;
  if (*localSize) {
    if (llvm::Error error =
            checkBelow(names.localRank, env.localRank, names.localSize, env.localSize))
      return error;
    if (env.localSize > env.size)
      return llvm::createStringError("%s=%d is more than %s=%d", names.localSize.str().c_str(),
                                     env.localSize, names.size.str().c_str(), env.size);
  }
  if (env.localRank > env.rank)
    return llvm::createStringError(
        "%s=%d, but %s=%d: expected the rank on this machine to be at most "
        "the rank among all",
        names.localRank.str().c_str(), env.localRank, names.rank.str().c_str(), env.rank);
  return llvm::Error::success();
}

/// RANK and its like, set by hand in a process that another launcher started, must say what that
/// one says. torchrun itself may run inside of it: then its ranks are renumbered.
static llvm::Error checkAgainstOuter(const Reader &reader) {
  if (reader.text("TORCHELASTIC_RUN_ID"))
    return llvm::Error::success();
  const struct {
    Launcher launcher;
    Names names;
  } outers[] = {
      {Launcher::OpenMpi,
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""}},
      {Launcher::Slurm,
       {"SLURM_PROCID",
        reader.text("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
        "SLURM_LOCALID", ""}}};
  for (const auto &[launcher, names] : outers) {
    // Outside of a step SLURM's variables are the job's, not this process'.
    if (launcher == Launcher::Slurm && !reader.text("SLURM_STEP_ID"))
      continue;
    const std::pair<StringRef, StringRef> pairs[] = {
        {"WORLD_SIZE", names.size}, {"RANK", names.rank}, {"LOCAL_RANK", names.localRank}};
    for (auto [name, outer] : pairs) {
      auto mine = reader.number(name, 0), theirs = reader.number(outer, 0);
      if (!mine)
        return llvm::joinErrors(mine.takeError(), theirs.takeError());
      if (!theirs)
        return theirs.takeError();
      if (*mine && *theirs && **mine != **theirs)
        return llvm::createStringError("%s=%d, but %s=%d: expected the same number, since torchrun "
                                       "did not start this process; "
                                       "leave RANK and WORLD_SIZE unset, and %s's variables count",
                                       name.str().c_str(), **mine, outer.str().c_str(), **theirs,
                                       describe(launcher).str().c_str());
    }
  }
  return llvm::Error::success();
}

/// Agents that each made a job of their own, where one was meant.
static void noteSeparateAgents(const Reader &reader, RankEnvironment &env) {
  auto agents = reader.text("GROUP_WORLD_SIZE"), tasks = reader.text("SLURM_STEP_NUM_TASKS");
  int count;
  if (reader.text("TORCHELASTIC_RUN_ID") && agents == "1" && tasks &&
      !StringRef(*tasks).getAsInteger(10, count) && count > 1)
    env.notes.push_back(
        "GROUP_WORLD_SIZE=1, but SLURM_STEP_NUM_TASKS=" + *tasks +
        ": srun started torchrun that many times, each a separate job; for a single "
        "job, pass --nnodes and --rdzv-endpoint to torchrun, or let srun start cleave-run");
}

static llvm::Error readTorchrun(const Reader &reader, RankEnvironment &env) {
  if (llvm::Error error =
          readNumbers(reader, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, env))
    return error;
  if (llvm::Error error = checkAgainstOuter(reader))
    return error;
  noteSeparateAgents(reader, env);
  if (env.size == 1)
    return llvm::Error::success();
  for (StringRef name : {"MASTER_ADDR", "MASTER_PORT"})
    if (!reader.text(name))
      return llvm::createStringError("%s is not set, but WORLD_SIZE=%d: expected all of torchrun's "
                                     "variables or none",
                                     name.str().c_str(), env.size);
  env.rendezvous.host = *reader.text("MASTER_ADDR");
  // torchrun's agent serves the store itself, and the same one again after a restart.
  env.rendezvous.launcherHasStore = reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (auto restart = reader.text("TORCHELASTIC_RESTART_COUNT"))
    env.rendezvous.keyPrefix += "/attempt" + *restart;
  auto port = reader.port(kDefaultPort);
  if (!port)
    return port.takeError();
  env.rendezvous.port = *port;
  return llvm::Error::success();
}

static llvm::Error readOpenMpi(const Reader &reader, RankEnvironment &env) {
  if (llvm::Error error = readNumbers(reader,
                                      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                       "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                      env))
    return error;
  if (auto address = reader.text("MASTER_ADDR"))
    env.rendezvous.host = *address;
  else if (env.localSize == env.size)
    env.rendezvous.host = "127.0.0.1";
  else
    return llvm::createStringError(
        "mpirun started %d ranks on several machines and does not say where rank 0 is: set "
        "MASTER_ADDR to its host (mpirun -x MASTER_ADDR=HOST)",
        env.size);
  // Jobs on one machine at the same time differ in their name space.
  int jobPort = kDefaultPort;
  for (StringRef name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})
    if (auto job = reader.text(name)) {
      jobPort = kFirstJobPort + llvm::xxh3_64bits(*job) % kJobPorts;
      break;
    }
  auto port = reader.port(jobPort);
  if (!port)
    return port.takeError();
  env.rendezvous.port = *port;
  return llvm::Error::success();
}

/// An address of the loopback is of no use to ranks of other machines.
static llvm::Error checkReachable(const Reader &reader, StringRef address, StringRef nodesName) {
  auto nodes = reader.number(nodesName, 1);
  if (!nodes)
    return nodes.takeError();
  bool loopback = address == "localhost" || address.starts_with("127.") || address == "::1";
  if (!loopback || nodes->value_or(1) == 1)
    return llvm::Error::success();
  return llvm::createStringError("MASTER_ADDR=%s, but %s=%d: expected a host that all nodes can "
                                 "reach; without MASTER_ADDR it is "
                                 "the first of the node list",
                                 address.str().c_str(), nodesName.str().c_str(), **nodes);
}

static llvm::Error readSlurm(const Reader &reader, RankEnvironment &env) {
  // SLURM_NTASKS is the job's; a step may have fewer.
  StringRef sizeName =
      reader.text("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  if (llvm::Error error = readNumbers(reader, {"SLURM_PROCID", sizeName, "SLURM_LOCALID", ""}, env))
    return error;
  // "2(x3)": two tasks on each of three nodes. Only the first number, for the first node, is
  // certain to be this node's where there is one node.
  for (StringRef name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    if (auto tasks = reader.text(name)) {
      StringRef digits = StringRef(*tasks).take_while(llvm::isDigit);
      int count;
      bool uniform = StringRef(*tasks).find(',') == StringRef::npos;
      if (uniform && !digits.getAsInteger(10, count) && count > env.localRank &&
          count <= env.size) {
        env.localSize = count;
        break;
      }
    }
  if (env.size == 1)
    return llvm::Error::success();

  std::optional<std::string> nodes;
  StringRef nodesName;
  for (StringRef name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    if ((nodes = reader.text(name))) {
      nodesName = name;
      break;
    }
  if (auto address = reader.text("MASTER_ADDR")) {
    if (llvm::Error error = checkReachable(reader, *address, "SLURM_STEP_NUM_NODES"))
      return error;
    env.rendezvous.host = *address;
  } else if (nodes) {
    auto host = firstSlurmHost(*nodes);
    if (!host)
      return llvm::createStringError("%s: %s", nodesName.str().c_str(),
                                     llvm::toString(host.takeError()).c_str());
    env.rendezvous.host = *host;
  } else if (auto launchNode = reader.text("SLURM_LAUNCH_NODE_IPADDR")) {
    env.rendezvous.host = *launchNode;
  } else {
    return llvm::createStringError("%s=%d, but none of SLURM_JOB_NODELIST, "
                                   "SLURM_LAUNCH_NODE_IPADDR and MASTER_ADDR says where "
                                   "rank 0 is",
                                   sizeName.str().c_str(), env.size);
  }
  int jobPort = kDefaultPort;
  if (auto job = reader.text("SLURM_JOB_ID"))
    jobPort = kFirstJobPort +
              llvm::xxh3_64bits(*job + "." + reader.text("SLURM_STEP_ID").value_or("")) % kJobPorts;
  auto port = reader.port(jobPort);
  if (!port)
    return port.takeError();
  env.rendezvous.port = *port;
  return llvm::Error::success();
}

llvm::Expected<RankEnvironment> RankEnvironment::detect(const Lookup &lookup) {
  RankEnvironment env;
  auto set = [&](StringRef name) {
    std::optional<std::string> value = lookup(name);
    return value && !value->empty();
  };
  // A batch script's own shell has SLURM_PROCID=0 and the job's number of tasks, but is not a task.
  bool batchShell = set("SLURM_JOB_ID") && !set("SLURM_STEP_ID");
  llvm::Error (*read)(const Reader &, RankEnvironment &) = nullptr;
  if (set("RANK") || set("WORLD_SIZE")) {
    env.launcher = Launcher::Torchrun;
    read = readTorchrun;
  } else if (set("OMPI_COMM_WORLD_RANK") || set("OMPI_COMM_WORLD_SIZE")) {
    env.launcher = Launcher::OpenMpi;
    read = readOpenMpi;
  } else if (set("SLURM_PROCID") && !batchShell) {
    env.launcher = Launcher::Slurm;
    read = readSlurm;
  } else {
    if (set("LOCAL_RANK"))
      return llvm::createStringError("LOCAL_RANK=%s, but RANK and WORLD_SIZE are not set: expected "
                                     "all of torchrun's variables "
                                     "or none",
                                     lookup("LOCAL_RANK")->c_str());
    std::optional<std::string> tasks = lookup("SLURM_NTASKS");
    if (batchShell && tasks && !tasks->empty() && *tasks != "1")
      env.notes.push_back("this is the shell of a SLURM script, so there is one rank, though "
                          "SLURM_NTASKS=" +
                          *tasks + ": srun starts a rank for each task, --ranks several here");
    return env;
  }
  if (llvm::Error error = read(Reader(lookup, env.launcher), env))
    return llvm::createStringError("the environment set by %s is not usable: %s",
                                   describe(env.launcher).str().c_str(),
                                   llvm::toString(std::move(error)).c_str());
  env.rendezvous.rank = env.rank;
  env.rendezvous.size = env.size;
  env.rendezvous.oneMachine = env.localSize == env.size;
  return env;
}

llvm::Expected<RankEnvironment> RankEnvironment::detect() {
  return detect([](StringRef name) -> std::optional<std::string> {
    const char *value = std::getenv(name.str().c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
}

llvm::Expected<int> cleave::runtime::chooseLocalDevice(const RankEnvironment &env, int visible) {
  // One of its own, or one that ranks share.
  if (visible == 1 || env.size == 1)
    return 0;
  if (env.localRankName.empty() && env.launcher != Launcher::Local)
    return llvm::createStringError(
        "%s started %d ranks and does not say which one this is on its "
        "machine, which has %d devices: expected LOCAL_RANK to be set, or "
        "CUDA_VISIBLE_DEVICES to name one device",
        describe(env.launcher).str().c_str(), env.size, visible);
  if (env.localRank < visible)
    return env.localRank;
  std::string name = env.launcher == Launcher::Local ? "local rank of --ranks" : env.localRankName;
  return llvm::createStringError(
      "%s=%d, but this machine has %d devices: expected a rank for each, "
      "from 0 to %d",
      name.c_str(), env.localRank, visible, visible - 1);
}

llvm::Expected<std::string> cleave::runtime::firstSlurmHost(StringRef nodeList) {
  auto refuse = [&](const char *problem) {
    return llvm::createStringError("node list \"%s\": %s", nodeList.str().c_str(), problem);
  };
  std::string host;
  StringRef rest = nodeList.trim();
  while (!rest.empty() && rest.front() != ',') {
    if (rest.front() == ']')
      return refuse("']' without '['");
    if (rest.front() != '[') {
      host += rest.front();
      rest = rest.drop_front();
      continue;
    }
    size_t close = rest.find(']');
    if (close == StringRef::npos)
      return refuse("'[' without ']'");
    StringRef numbers = rest.slice(1, close);
    if (numbers.empty() || !llvm::isDigit(numbers.front()))
      return refuse("expected numbers, as in [01-16,20], between '[' and ']'");
    host += numbers.take_while(llvm::isDigit);
    rest = rest.drop_front(close + 1);
  }
  if (host.empty())
    return refuse("expected a host first");
  return host;
}
