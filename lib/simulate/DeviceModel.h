// A cost model of a described machine: the roofline of a device, and links with latency.
#pragma once

#include "lib/simulate/CostTable.h"

#include "llvm/Support/JSON.h"

namespace cleave::simulate {

/// One device, as its data sheet or a measurement describes it.
struct Device {
  double flops = 0;           // floating-point operations a second
  double memoryBandwidth = 0; // bytes a second
  double efficiency = 1;      // what part of either is reached
  double overhead = 0;        // seconds every action takes at least on top
};

/// A link between two pipeline neighbours (or the collective's slowest hop).
struct Link {
  double latency = 0;   // seconds
  double bandwidth = 0; // bytes a second
};

/// What one pass (forward, input gradient, ...) of a stage does with one microbatch.
struct Work {
  double flops = 0;
  double bytes = 0; // read and written in device memory
};

/// Seconds by the roofline: the longer of computing and moving data, plus the overhead.
double timeOf(const Device &device, const Work &work);
/// Seconds for `bytes` over the link; 0 bytes take no time.
double timeOf(const Link &link, double bytes);

/// Reads {"device": {"flops", "memory_bandwidth", "efficiency", "overhead"},
/// "link": {"latency", "bandwidth"}, "collective": {...}, "stages": [{"forward": {"flops",
/// "bytes"}, "input": {...}, "weight": {...}, "output_bytes", "parameter_bytes",
/// "activation_bytes", "input_releases_bytes"}]} in SI units; the table is in milliseconds and
/// bytes. `data_parallel` ranks (default 1) share parameters by ring all-gather and reduce-scatter.
llvm::Expected<CostTable> costsOfMachine(const llvm::json::Object &root, llvm::StringRef file);

} // namespace cleave::simulate
