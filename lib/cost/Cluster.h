//===- Cluster.h - devices, and what connects them at which level ---*- C++ -*-===//

#ifndef CLEAVE_LIB_COST_CLUSTER_H
#define CLEAVE_LIB_COST_CLUSTER_H

#include "lib/cost/Device.h"

namespace cleave::cost {

/// A kind of connection: NVLink of a generation, a network.
struct Link {
  std::string name;
  std::string relative;
  /// Bytes per second and direction: of each device, or, where `shared`, of all that hang on it
  /// together (a host's PCIe bridge, a virtual machine's network card).
  double bandwidth = 1;
  double shared = 0;

  double latency = 0;                // seconds of a hop
  double startSeconds = 0;           // of a collective, once: until all its ranks are there
  double efficiency = 1;             // of the bandwidth, for rings and trees
  double pointToPointEfficiency = 1; // of the bandwidth, between two devices
  /// Of what rings reach otherwise: where a group has some of a unit's devices, but not neighbours.
  double stridedEfficiency = 1;
  double allToAllEfficiency = 1; // of the bandwidth, where all send to all

  std::vector<NamedNumber> facts();
  std::vector<NamedNumber> constants();
};

/// Units of `size` devices, connected by `link`; the outermost level has any number.
struct Level {
  Link link;
  int64_t size = 0; // devices in a unit of this level; 0: all
  double width = 1; // links for each device, such as network cards
};

/// What a run is on.
struct Cluster {
  std::string name;
  /// That describes it; empty for a nominal one.
  std::string file;
  Device device;
  /// From the inside: devices of a node, then nodes of a network.
  std::vector<Level> levels;
  /// Bytes of a node's host memory for each of its devices; 0: unknown.
  double hostMemory = 0;
  /// Devices that the run uses: who shares a link. 0: as many as there are.
  int64_t devices = 0;
  /// What a step of a ring sends first goes at the bandwidth of a message: off to see what it is
  /// worth.
  bool firstSlots = true;
  /// Typical relative error of predictions for it, from the fit; 0 if never fitted.
  double error = 0;
  /// What the fit does not know of it: constants of a relative.
  std::string note;
};

/// The ranks of a process group: every `stride`-th of `size`.
struct Group {
  int64_t size = 1;
  int64_t stride = 1;
};

/// How many ranks of the group lie in one unit of `unit` devices (0: all).
int64_t ranksWithin(const Group &group, int64_t unit);

/// Nominal devices that nominal links connect, for choices that depend on ratios of times alone.
Cluster makeNominalCluster();

/// The innermost level that connects ranks `stride` apart; null if none does.
const Level *findLevel(const Cluster &cluster, int64_t stride);

/// The files of a folder: devices, links and clusters by name.
class Library {
public:
  /// Reads every *.json of the folder that has "device", "link" or "cluster" with a name; others
  /// are left to their readers. Checks that what they name is there.
  static llvm::Expected<Library> read(llvm::StringRef folder);

  /// The cluster of nodes with that many of these devices (0: any number). An unknown one is an
  /// error that says which file is to be written.
  llvm::Expected<Cluster> find(llvm::StringRef type, int64_t devicesPerNode) const;
  /// The cluster of this name, or of devices that tables call so. `what` is the option that has the
  /// name, for the error: it says which files are to be written.
  llvm::Expected<Cluster> findNamed(llvm::StringRef name, llvm::StringRef what) const;
  /// The device of this name, with the constants that it takes from its relative.
  llvm::Expected<Device> findDevice(llvm::StringRef name) const;
  /// The cluster that a file describes, with devices and links of the files beside it.
  static llvm::Expected<Cluster> readCluster(llvm::StringRef path);

private:
  struct Nodes {
    std::string name, device, file;
    std::vector<std::string> types; // names of these devices, in tables
    double devicesPerNode = 0, error = 0;
    double hostMemory = 0; // of a node
    struct NamedLevel {
      std::string link;
      double size, width;
    };
    std::vector<NamedLevel> levels;
  };
  llvm::Error readFile(llvm::StringRef path);
  llvm::Error readNodes(const llvm::json::Object &object, llvm::StringRef path);
  llvm::Error resolve();
  Cluster make(const Nodes &cluster) const;
  const Link *findLink(llvm::StringRef name) const;
  const Device *lookUpDevice(llvm::StringRef name) const;

  std::string folder;
  std::vector<Device> devices;
  std::vector<std::vector<std::string>> missingOfDevice;
  std::vector<Link> links;
  std::vector<std::vector<std::string>> missingOfLink;
  std::vector<Nodes> nodes;
};

} // namespace cleave::cost

#endif // CLEAVE_LIB_COST_CLUSTER_H
