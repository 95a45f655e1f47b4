//===- RankEnvironment.h - Which rank this process is -----------*- C++ -*-===//
//
// Reads what torchrun, Open MPI's mpirun or SLURM's srun tell a process about its job.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_LAUNCH_RANKENVIRONMENT_H
#define CLEAVE_RUNTIME_LAUNCH_RANKENVIRONMENT_H

#include "runtime/comm/Rendezvous.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Who started this process.
enum class Launcher { None, Torchrun, OpenMpi, Slurm, Local };

/// "torchrun", "mpirun", ...; for messages.
llvm::StringRef describe(Launcher launcher);

struct RankEnvironment {
  Launcher launcher = Launcher::None;
  int rank = 0, size = 1;
  /// Rank among, and number of, the job's ranks on this machine: for picking a device and sharing
  /// processor cores. 0 and 1 where the launcher does not say.
  int localRank = 0, localSize = 1;
  /// Whether the launcher says the local rank, in the variable of this name.
  std::string localRankName;
  Rendezvous rendezvous;
  /// What is allowed and probably not meant, a line each.
  std::vector<std::string> notes;

  /// Value of an environment variable, if it is set.
  using Lookup = std::function<std::optional<std::string>(llvm::StringRef)>;

  /// Where several launchers left their variables (mpirun inside a SLURM job), the innermost is
  /// believed: torchrun's RANK and WORLD_SIZE, then OMPI_COMM_WORLD_*, then SLURM_*. MASTER_ADDR
  /// and MASTER_PORT override what SLURM and Open MPI say. No launcher is one rank. Variables that
  /// are incomplete or contradict each other, of one launcher or of two, are an error that names
  /// them.
  static llvm::Expected<RankEnvironment> detect(const Lookup &lookup);
  /// The same from this process's environment.
  static llvm::Expected<RankEnvironment> detect();
};

/// Which of `visible` devices of this machine the rank takes: that of its local rank, or the only
/// one that it sees. An error where the launcher does not say, or says one that is not there.
llvm::Expected<int> chooseLocalDevice(const RankEnvironment &environment, int visible);

/// First host of a SLURM node list: "gpu[007-010,12],login1" gives "gpu007".
llvm::Expected<std::string> firstSlurmHost(llvm::StringRef nodeList);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_LAUNCH_RANKENVIRONMENT_H
