//===- Device.cpp - reading a device ------------------------------------------===//

#include "lib/cost/Device.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave;
using namespace cleave::cost;
using support::JSONReader;

std::vector<NamedNumber> Device::facts() {
  return {{"processors", &processors},
          {"memory_bytes", &memory},
          {"memory_bandwidth", &memoryBandwidth},
          {"flops_16bit", &flops16},
          {"flops_8bit", &flops8},
          {"flops_4bit", &flops4},
          {"flops_32bit", &flops32, /*isOptional=*/true},
          {"host_bandwidth", &hostBandwidth, /*isOptional=*/true}};
}

std::vector<NamedNumber> Device::constants() {
  return {{"matrix_efficiency_16bit", &matrixEfficiency16},
          {"matrix_efficiency_8bit", &matrixEfficiency8},
          {"matrix_efficiency_4bit", &matrixEfficiency4},
          {"attention_efficiency", &attentionEfficiency},
          {"memory_efficiency", &memoryEfficiency},
          {"depth_overhead", &depthOverhead},
          {"kernel_seconds", &kernelSeconds},
          {"host_seconds", &hostSeconds},
          {"step_seconds", &stepSeconds},
          {"overlap_slowdown", &overlapSlowdown},
          {"host_efficiency", &hostEfficiency, /*isOptional=*/true}};
}

Device cost::makeNominalDevice(double memoryBandwidth) {
  constexpr double kFlopsPerByte = 32;
  Device device;
  device.name = "nominal";
  device.processors = 0;
  device.memoryBandwidth = memoryBandwidth;
  device.flops16 = device.flops32 = kFlopsPerByte * memoryBandwidth;
  device.hostBandwidth = memoryBandwidth / nominalHostLinkFactor;
  device.hostEfficiency = 1;
  return device;
}

double cost::getHostLinkFactor(const Device &device) {
  return device.memoryBandwidth * device.memoryEfficiency /
         (device.hostBandwidth * device.hostEfficiency);
}

llvm::Error cost::checkHostLink(const Device &device) {
  if (device.hostBandwidth > 0)
    return llvm::Error::success();
  return makeError("{0}: facts: expected \"host_bandwidth\", bytes per second and direction, since "
                   "the program copies to host memory, found none",
                   device.file.empty() ? device.name : device.file);
}

double cost::timeOfHostCopy(const Device &device, double bytes) {
  return bytes > 0 ? bytes / (device.hostBandwidth * device.hostEfficiency) : 0;
}

llvm::Expected<Device> cost::readDevice(const llvm::json::Object &object, llvm::StringRef file,
                                        std::vector<std::string> &missing) {
  JSONReader reader(object, file.str());
  Device device;
  device.file = file.str();
  if (llvm::Error error = reader.string("device", device.name, true))
    return error;
  if (llvm::Error error = reader.string("relative", device.relative))
    return error;
  if (llvm::Error error = readFacts(reader, device.facts()))
    return error;
  for (const NamedNumber &fact : device.facts())
    if (*fact.value == 0 &&
        llvm::is_contained({"memory_bytes", "memory_bandwidth", "flops_16bit"}, fact.name))
      return makeError("{0}: {1}: expected a positive number, found 0", file, fact.name);
  auto names = readConstants(reader, device.constants());
  if (!names)
    return names.takeError();
  if (llvm::Error error = reader.finish())
    return error;
  if (device.hostEfficiency == 0)
    return makeError("{0}: host_efficiency: expected a positive number, found 0", file);
  llvm::erase(*names, "host_efficiency");
  if (!names->empty() && device.relative.empty())
    return makeError("{0}: expected the constant \"{1}\", or a \"relative\" to take it from", file,
                     names->front());
  missing = std::move(*names);
  return device;
}
