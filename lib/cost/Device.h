//===- Device.h - what a device computes and moves a second ---------*- C++ -*-===//

#ifndef CLEAVE_LIB_COST_DEVICE_H
#define CLEAVE_LIB_COST_DEVICE_H

#include "lib/cost/Constants.h"

#include <string>
#include <vector>

namespace cleave::cost {

/// How wide the operands of a matrix product are.
enum class Width { Bits32, Bits16, Bits8, Bits4 };

/// One accelerator. Units are SI: bytes, seconds, operations per second; a multiply-add is two.
struct Device {
  std::string name;
  /// The device whose constants stand in for those that the file leaves out; empty if none.
  std::string relative;
  /// What describes it, for errors.
  std::string file;

  // From data sheets.
  double processors = 1;      // units that run tiles side by side; 0: unknown, tiles do not count
  double memory = 0;          // bytes
  double memoryBandwidth = 1; // bytes per second
  double flops16 = 1, flops8 = 0, flops4 = 0; // dense; 0: computed as the next wider
  double flops32 = 0;                         // 0: products of 32 bits have no rate
  /// Bytes per second that the device's link to host memory carries in each direction, while all
  /// devices of the node copy; 0: unknown, and nothing can be copied there.
  double hostBandwidth = 0;

  // Fitted, with bounds in the file.
  double matrixEfficiency16 = 1; // of the peak, for large products
  double matrixEfficiency8 = 1;
  double matrixEfficiency4 = 1;
  double attentionEfficiency = 1; // of the 16-bit peak, for fused attention
  double memoryEfficiency = 1;    // of the bandwidth, for kernels that only move data
  double depthOverhead = 0;       // steps of k that a tile's start and end take
  double kernelSeconds = 0;       // of the device, for every kernel
  double hostSeconds = 0;         // of the host, to launch a kernel
  double stepSeconds = 0;         // per step: what no op accounts for
  double overlapSlowdown = 0;     // of hidden communication, that the ops over it take longer
  // Not fitted: no run that was measured copies.
  double hostEfficiency = 0.8; // of the host's bandwidth, for large copies

  std::vector<NamedNumber> facts();
  std::vector<NamedNumber> constants();
};

/// A device of which nothing is known, where a program is to be cut or placed without a cluster: it
/// moves so many bytes a second, and computes 32 operations in the time of a byte (between a core's
/// and an accelerator's balance: only the ratio of products to all else depends on it).
Device makeNominalDevice(double memoryBandwidth);
/// How many times slower than its memory the links of such a device are.
constexpr double nominalLinkFactor = 8;
/// The same of its link to the host, in each direction: an H100 SXM's 3.35 TB/s of memory over the
/// 64 GB/s of PCIe 5.0 x16.
constexpr double nominalHostLinkFactor = 52;

/// How many bytes of the device's memory are moved in the time of one to or from the host.
double getHostLinkFactor(const Device &device);
/// Fails if the device's file does not describe the link to the host.
llvm::Error checkHostLink(const Device &device);
/// Seconds of a copy from the device's memory to the host's, or back.
double timeOfHostCopy(const Device &device, double bytes);

/// Reads a file of {"device", "relative", "facts": {...}, "constants": {...}}; names of
/// constants that it leaves out are added to `missing`. The facts "flops_32bit" and
/// "host_bandwidth" may be left out, and the constant "host_efficiency", which no relative stands
/// in for.
llvm::Expected<Device> readDevice(const llvm::json::Object &object, llvm::StringRef file,
                                  std::vector<std::string> &missing);

} // namespace cleave::cost

#endif // CLEAVE_LIB_COST_DEVICE_H
