// A cost model of a described machine: the roofline of a device, and links with latency.

#ifndef CLEAVE_LIB_SCHEDULE_SIMULATE_DEVICEMODEL_H
#define CLEAVE_LIB_SCHEDULE_SIMULATE_DEVICEMODEL_H

#include "lib/schedule/simulate/CostTable.h"

#include "llvm/Support/JSON.h"

namespace cleave::simulate {

/// One device, as its data sheet or a measurement describes it.
struct Device {
  /// Floating-point operations a second, by element type ("bf16"); "" stands for all others.
  llvm::StringMap<double> flops;
  double memoryBandwidth = 0; // bytes per second
  double efficiency = 1;      // what part of either is reached
  double overhead = 0;        // seconds every action takes at least on top
  double opOverhead = 0;      // seconds every op of an action takes at least on top

  double flopsOf(llvm::StringRef elementType) const;
};

/// A link between two pipeline neighbours (or the collective's slowest hop).
struct Link {
  double latency = 0;   // seconds
  double bandwidth = 0; // bytes per second
};

/// A device and what connects several of it.
struct Machine {
  Device device;
  /// Between pipeline neighbours.
  Link link;
  /// Between the ranks along other mesh axes; without bandwidth where the file has none.
  Link collective;
};

/// What one pass (forward, input gradient, ...) of a stage does with one microbatch, or one op.
struct Work {
  double flops = 0;
  double bytes = 0; // read and written in device memory
  std::string elementType = {};
};

/// Seconds by the roofline: the longer of computing and moving data. Without overheads.
double timeOf(const Device &device, const Work &work);
/// Seconds for `bytes` over the link; 0 bytes take no time.
double timeOf(const Link &link, double bytes);

/// Reads a file of {"device": {"flops", "memory_bandwidth", "efficiency", "overhead",
/// "op_overhead"}, "link": {"latency", "bandwidth"}, "collective": {...}} in SI units. "flops" is a
/// number, or an object with one for each element type ({"f32": 67e12, "bf16": 989e12}).
llvm::Expected<Machine> readMachineFile(llvm::StringRef path);

/// The same with the work of stages in addition: "stages": [{"forward": {"flops", "bytes"},
/// "input": {...}, "weight": {...}, "output_bytes", "parameter_bytes", "activation_bytes",
/// "input_releases_bytes"}]; the table is in milliseconds and bytes. `data_parallel` ranks (default
/// 1) share parameters by ring all-gather and reduce-scatter.
llvm::Expected<CostTable> costsOfMachine(const llvm::json::Object &root, llvm::StringRef file);

} // namespace cleave::simulate

#endif // CLEAVE_LIB_SCHEDULE_SIMULATE_DEVICEMODEL_H
