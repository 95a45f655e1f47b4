//===- RankEnvironmentTest.cpp - What launchers say, right and wrong ------===//

#include "runtime/launch/RankEnvironment.h"

#include "gtest/gtest.h"

#include <map>

using namespace cleave::runtime;

namespace {

using Variables = std::map<std::string, std::string>;

llvm::Expected<RankEnvironment> detect(const Variables &variables) {
  return RankEnvironment::detect([&](llvm::StringRef name) -> std::optional<std::string> {
    auto found = variables.find(name.str());
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

RankEnvironment detected(const Variables &variables) {
  llvm::Expected<RankEnvironment> env = detect(variables);
  if (env)
    return *env;
  ADD_FAILURE() << llvm::toString(env.takeError());
  return {};
}

/// The error without what all errors begin with.
std::string refused(const Variables &variables) {
  llvm::Expected<RankEnvironment> env = detect(variables);
  if (env)
    return "accepted";
  std::string text = llvm::toString(env.takeError());
  size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

Variables with(Variables variables, const Variables &changes) {
  for (const auto &[name, value] : changes)
    variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string &name) {
  variables.erase(name);
  return variables;
}

const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29511"}};

TEST(NoLauncher, IsOneRank) {
  RankEnvironment env = detected({});
  EXPECT_EQ(env.launcher, Launcher::None);
  EXPECT_EQ(env.rank, 0);
  EXPECT_EQ(env.size, 1);
}

TEST(NoLauncher, EmptyVariablesAreUnset) {
  EXPECT_EQ(detected({{"RANK", ""}, {"WORLD_SIZE", ""}}).launcher, Launcher::None);
}

TEST(Torchrun, IsRead) {
  RankEnvironment env = detected(kTorchrun);
  EXPECT_EQ(env.launcher, Launcher::Torchrun);
  EXPECT_EQ(env.rank, 5);
  EXPECT_EQ(env.size, 8);
  EXPECT_EQ(env.localRank, 1);
  EXPECT_EQ(env.localSize, 4);
  EXPECT_EQ(env.rendezvous.rank, 5);
  EXPECT_EQ(env.rendezvous.size, 8);
  EXPECT_EQ(env.rendezvous.host, "node0");
  EXPECT_EQ(env.rendezvous.port, 29511);
  EXPECT_FALSE(env.rendezvous.launcherHasStore);
  EXPECT_FALSE(env.rendezvous.oneMachine);
}

TEST(Torchrun, AgentStoreAndRestarts) {
  RankEnvironment env = detected(with(
      kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_TRUE(env.rendezvous.launcherHasStore);
  EXPECT_EQ(env.rendezvous.keyPrefix, "cleave/attempt2");
}

TEST(Torchrun, OneMachine) {
  EXPECT_TRUE(detected(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"}, {"LOCAL_RANK", "5"}}))
                  .rendezvous.oneMachine);
}

TEST(Torchrun, OneRankNeedsNoMaster) {
  EXPECT_EQ(detected({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size, 1);
}

TEST(Torchrun, Refusals) {
  EXPECT_EQ(refused(without(kTorchrun, "RANK")),
            "RANK is not set, but WORLD_SIZE is: expected all of torchrun's variables or none");
  EXPECT_EQ(refused(without(kTorchrun, "WORLD_SIZE")),
            "WORLD_SIZE is not set, but RANK is: expected all of torchrun's variables or none");
  EXPECT_EQ(
      refused(without(kTorchrun, "MASTER_ADDR")),
      "MASTER_ADDR is not set, but WORLD_SIZE=8: expected all of torchrun's variables or none");
  EXPECT_EQ(
      refused(without(kTorchrun, "MASTER_PORT")),
      "MASTER_PORT is not set, but WORLD_SIZE=8: expected all of torchrun's variables or none");
  EXPECT_EQ(refused(with(kTorchrun, {{"RANK", "8"}})),
            "RANK=8, but WORLD_SIZE=8: expected a rank from 0 to 7");
  EXPECT_EQ(refused(with(kTorchrun, {{"LOCAL_RANK", "4"}})),
            "LOCAL_RANK=4, but LOCAL_WORLD_SIZE=4: expected a rank from 0 to 3");
  EXPECT_EQ(refused(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}})),
            "LOCAL_WORLD_SIZE=9 is more than WORLD_SIZE=8");
  EXPECT_EQ(refused(with(kTorchrun, {{"RANK", "-1"}})),
            "RANK=-1: expected a whole number of at least 0");
  EXPECT_EQ(refused(with(kTorchrun, {{"RANK", "one"}})),
            "RANK=one: expected a whole number of at least 0");
  EXPECT_EQ(refused(with(kTorchrun, {{"WORLD_SIZE", "0"}})),
            "WORLD_SIZE=0: expected a whole number of at least 1");
  EXPECT_EQ(refused(with(kTorchrun, {{"WORLD_SIZE", "99999999999"}})),
            "WORLD_SIZE=99999999999: expected a whole number of at least 1");
  EXPECT_EQ(refused(with(kTorchrun, {{"MASTER_PORT", "65536"}})),
            "MASTER_PORT=65536: expected a port, 1 to 65535");
  EXPECT_EQ(llvm::toString(detect(without(kTorchrun, "RANK")).takeError()).substr(0, 47),
            "the environment set by torchrun is not usable: ");
}

TEST(Torchrun, LocalRankAlone) {
  EXPECT_EQ(
      llvm::toString(detect({{"LOCAL_RANK", "1"}}).takeError()),
      "LOCAL_RANK=1, but RANK and WORLD_SIZE are not set: expected all of torchrun's variables "
      "or none");
  EXPECT_EQ(refused(with(kTorchrun, {{"RANK", "0"}})),
            "LOCAL_RANK=1, but RANK=0: expected the rank on this machine to be at most the rank "
            "among all");
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "prterun-host-1234@1"}};

TEST(OpenMpi, OneMachine) {
  RankEnvironment env = detected(kOpenMpi);
  EXPECT_EQ(env.launcher, Launcher::OpenMpi);
  EXPECT_EQ(env.rank, 1);
  EXPECT_EQ(env.size, 2);
  EXPECT_EQ(env.localRank, 1);
  EXPECT_EQ(env.rendezvous.host, "127.0.0.1");
  EXPECT_TRUE(env.rendezvous.oneMachine);
  EXPECT_GE(env.rendezvous.port, 20000);
  EXPECT_LT(env.rendezvous.port, 30000);
}

TEST(OpenMpi, JobsGetDifferentPorts) {
  EXPECT_NE(detected(kOpenMpi).rendezvous.port,
            detected(with(kOpenMpi, {{"PMIX_NAMESPACE", "other"}})).rendezvous.port);
}

TEST(OpenMpi, SeveralMachinesNeedAnAddress) {
  Variables far = with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(refused(far),
            "mpirun started 4 ranks on several machines and does not say where rank 0 is: set "
            "MASTER_ADDR to its host (mpirun -x MASTER_ADDR=HOST)");
  RankEnvironment env = detected(with(far, {{"MASTER_ADDR", "node3"}, {"MASTER_PORT", "4711"}}));
  EXPECT_EQ(env.rendezvous.host, "node3");
  EXPECT_EQ(env.rendezvous.port, 4711);
  EXPECT_FALSE(env.rendezvous.oneMachine);
}

TEST(OpenMpi, PartialIsRefused) {
  EXPECT_EQ(refused(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE")),
            "OMPI_COMM_WORLD_SIZE is not set, but OMPI_COMM_WORLD_RANK is: expected all of "
            "mpirun's variables or none");
}

const Variables kSlurm = {{"SLURM_JOB_ID", "4242"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "3"},
                          {"SLURM_NTASKS", "4"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_JOB_NODELIST", "gpu[007-008]"},
                          {"SLURM_TASKS_PER_NODE", "2(x2)"}};

TEST(Slurm, IsRead) {
  RankEnvironment env = detected(kSlurm);
  EXPECT_EQ(env.launcher, Launcher::Slurm);
  EXPECT_EQ(env.rank, 3);
  EXPECT_EQ(env.size, 4);
  EXPECT_EQ(env.localRank, 1);
  EXPECT_EQ(env.localSize, 2);
  EXPECT_EQ(env.rendezvous.host, "gpu007");
  EXPECT_GE(env.rendezvous.port, 20000);
  EXPECT_LT(env.rendezvous.port, 30000);
  EXPECT_FALSE(env.rendezvous.oneMachine);
}

TEST(Slurm, StepCountsBeforeJob) {
  RankEnvironment env =
      detected(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_STEP_NODELIST", "cpu[3,5]"}}));
  EXPECT_EQ(env.size, 6);
  EXPECT_EQ(env.rendezvous.host, "cpu3");
}

TEST(Slurm, StepsOfAJobGetDifferentPorts) {
  EXPECT_NE(detected(kSlurm).rendezvous.port,
            detected(with(kSlurm, {{"SLURM_STEP_ID", "1"}})).rendezvous.port);
}

TEST(Slurm, LaunchNodeAndMasterAddress) {
  Variables noList = without(kSlurm, "SLURM_JOB_NODELIST");
  EXPECT_EQ(detected(with(noList, {{"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"}})).rendezvous.host,
            "10.0.0.7");
  EXPECT_EQ(detected(with(kSlurm, {{"MASTER_ADDR", "head"}})).rendezvous.host, "head");
  EXPECT_EQ(refused(noList), "SLURM_NTASKS=4, but none of SLURM_JOB_NODELIST, "
                             "SLURM_LAUNCH_NODE_IPADDR and MASTER_ADDR says where rank 0 is");
}

TEST(Slurm, ABatchScriptsShellIsNoTask) {
  Variables shell = with(without(kSlurm, "SLURM_STEP_ID"), {{"SLURM_PROCID", "0"}});
  EXPECT_EQ(detected(shell).launcher, Launcher::None);
}

TEST(Slurm, Refusals) {
  EXPECT_EQ(
      refused(without(kSlurm, "SLURM_NTASKS")),
      "SLURM_NTASKS is not set, but SLURM_PROCID is: expected all of srun's variables or none");
  EXPECT_EQ(refused(with(kSlurm, {{"SLURM_PROCID", "4"}})),
            "SLURM_PROCID=4, but SLURM_NTASKS=4: expected a rank from 0 to 3");
  EXPECT_EQ(refused(with(kSlurm, {{"SLURM_JOB_NODELIST", "gpu[007"}})),
            "SLURM_JOB_NODELIST: node list \"gpu[007\": '[' without ']'");
}

TEST(Slurm, TheLoopbackIsNoAddressForSeveralNodes) {
  Variables far = with(kSlurm, {{"SLURM_STEP_NUM_NODES", "2"}, {"MASTER_ADDR", "127.0.0.1"}});
  EXPECT_EQ(refused(far),
            "MASTER_ADDR=127.0.0.1, but SLURM_STEP_NUM_NODES=2: expected a host that all nodes "
            "can reach; without MASTER_ADDR it is the first of the node list");
  EXPECT_EQ(detected(with(far, {{"SLURM_STEP_NUM_NODES", "1"}})).rendezvous.host, "127.0.0.1");
  EXPECT_EQ(refused(with(far, {{"SLURM_STEP_NUM_NODES", "two"}})),
            "SLURM_STEP_NUM_NODES=two: expected a whole number of at least 1");
}

TEST(Slurm, NotesAShellThatIsNoTask) {
  Variables shell = with(without(kSlurm, "SLURM_STEP_ID"), {{"SLURM_PROCID", "0"}});
  EXPECT_EQ(detected(shell).notes,
            std::vector<std::string>{"this is the shell of a SLURM script, so there is one rank, "
                                     "though SLURM_NTASKS=4: srun starts a rank for each task, "
                                     "--ranks several here"});
  EXPECT_TRUE(detected(with(shell, {{"SLURM_NTASKS", "1"}})).notes.empty());
  EXPECT_TRUE(detected(kSlurm).notes.empty());
}

/// torchrun, as one of SLURM's tasks.
const Variables kNested = with(with(kSlurm, kTorchrun), {{"TORCHELASTIC_RUN_ID", "17"}});

TEST(Precedence, InnermostLauncherWins) {
  EXPECT_EQ(detected(with(kNested, kOpenMpi)).launcher, Launcher::Torchrun);
  EXPECT_EQ(detected(with(kSlurm, kOpenMpi)).launcher, Launcher::OpenMpi);
}

TEST(Precedence, VariablesByHandMustSayWhatTheLauncherSays) {
  Variables byHand = without(kNested, "TORCHELASTIC_RUN_ID");
  const std::string advice = ": expected the same number, since torchrun did not start this "
                             "process; leave RANK and WORLD_SIZE unset, and srun's variables count";
  EXPECT_EQ(refused(byHand), "WORLD_SIZE=8, but SLURM_NTASKS=4" + advice);
  EXPECT_EQ(refused(with(byHand, {{"SLURM_STEP_NUM_TASKS", "2"}})),
            "WORLD_SIZE=8, but SLURM_STEP_NUM_TASKS=2" + advice);
  EXPECT_EQ(refused(with(byHand, {{"SLURM_NTASKS", "8"}})), "RANK=5, but SLURM_PROCID=3" + advice);
  Variables same = with(byHand, {{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "5"}});
  EXPECT_EQ(detected(same).rank, 5);
  EXPECT_EQ(refused(with(same, {{"SLURM_LOCALID", "0"}})),
            "LOCAL_RANK=1, but SLURM_LOCALID=0" + advice);
  // Outside of a step they are the job's.
  EXPECT_EQ(detected(without(byHand, "SLURM_STEP_ID")).size, 8);
  EXPECT_EQ(
      refused(with(with(kTorchrun, kOpenMpi), {{"LOCAL_WORLD_SIZE", "2"}})),
      "WORLD_SIZE=8, but OMPI_COMM_WORLD_SIZE=2: expected the same number, since torchrun did "
      "not start this process; leave RANK and WORLD_SIZE unset, and mpirun's variables "
      "count");
}

TEST(Precedence, NotesAgentsWithJobsOfTheirOwn) {
  Variables separate = with(kNested, {{"GROUP_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  ASSERT_EQ(detected(separate).notes.size(), 1u);
  EXPECT_EQ(detected(separate).notes[0].substr(0, 47),
            "GROUP_WORLD_SIZE=1, but SLURM_STEP_NUM_TASKS=2:");
  EXPECT_TRUE(detected(with(separate, {{"GROUP_WORLD_SIZE", "2"}})).notes.empty());
}

std::string device(const Variables &variables, int visible) {
  llvm::Expected<int> chosen = chooseLocalDevice(detected(variables), visible);
  return chosen ? std::to_string(*chosen) : llvm::toString(chosen.takeError());
}

TEST(LocalDevice, IsThatOfTheLocalRank) {
  EXPECT_EQ(device(kTorchrun, 4), "1");
  EXPECT_EQ(device(kSlurm, 4), "1");
  // A launcher may show each rank its own, and ranks may share one.
  EXPECT_EQ(device(kTorchrun, 1), "0");
  EXPECT_EQ(device({}, 4), "0");
}

TEST(LocalDevice, Refusals) {
  EXPECT_EQ(device(with(kTorchrun, {{"LOCAL_RANK", "3"}}), 2),
            "LOCAL_RANK=3, but this machine has 2 devices: expected a rank for each, from 0 to 1");
  EXPECT_EQ(
      device(with(kSlurm, {{"SLURM_LOCALID", "2"}}), 2),
      "SLURM_LOCALID=2, but this machine has 2 devices: expected a rank for each, from 0 to 1");
  EXPECT_EQ(
      device(without(kTorchrun, "LOCAL_RANK"), 4),
      "torchrun started 8 ranks and does not say which one this is on its machine, which has 4 "
      "devices: expected LOCAL_RANK to be set, or CUDA_VISIBLE_DEVICES to name one device");
  RankEnvironment local;
  local.launcher = Launcher::Local;
  local.rank = local.localRank = 3;
  local.size = local.localSize = 4;
  EXPECT_EQ(
      llvm::toString(chooseLocalDevice(local, 2).takeError()),
      "local rank of --ranks=3, but this machine has 2 devices: expected a rank for each, from "
      "0 to 1");
}

struct NodeList {
  const char *list, *first;
};

class NodeLists : public testing::TestWithParam<NodeList> {};

TEST_P(NodeLists, FirstHost) {
  llvm::Expected<std::string> host = firstSlurmHost(GetParam().list);
  EXPECT_EQ(host ? *host : llvm::toString(host.takeError()), GetParam().first);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, NodeLists,
    testing::Values(
        NodeList{"node1", "node1"}, NodeList{"node1,node2", "node1"},
        NodeList{"node[1-3]", "node1"}, NodeList{"node[01-16,20]", "node01"},
        NodeList{"node[9,1-3],login1", "node9"}, NodeList{"gpu-a[3]", "gpu-a3"},
        NodeList{"a[1-2]b[3-4]", "a1b3"}, NodeList{"r[1-2]n[01-04].hpc.org", "r1n01.hpc.org"},
        NodeList{" n1 ", "n1"}, NodeList{"10.0.0.1,10.0.0.2", "10.0.0.1"},
        NodeList{"", "node list \"\": expected a host first"},
        NodeList{",n1", "node list \",n1\": expected a host first"},
        NodeList{"n[1-2", "node list \"n[1-2\": '[' without ']'"},
        NodeList{"n1]", "node list \"n1]\": ']' without '['"},
        NodeList{"n[]",
                 "node list \"n[]\": expected numbers, as in [01-16,20], between '[' and ']'"},
        NodeList{"n[x-y]",
                 "node list \"n[x-y]\": expected numbers, as in [01-16,20], between '[' and ']'"}));

} // namespace
