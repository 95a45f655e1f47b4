// The roofline of a described device and its links.
#include "lib/schedule/simulate/DeviceModel.h"

#include "lib/support/JSONReader.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace cleave::simulate;
using cleave::makeError;
using cleave::support::JSONReader;
using cleave::support::readJSONFile;

double Device::flopsOf(llvm::StringRef elementType) const {
  auto found = flops.find(elementType);
  return (found == flops.end() ? flops.find("") : found)->second;
}

double cleave::simulate::timeOf(const Device &device, const Work &work) {
  double compute = work.flops / (device.flopsOf(work.elementType) * device.efficiency);
  double memory = work.bytes / (device.memoryBandwidth * device.efficiency);
  return std::max(compute, memory);
}

double cleave::simulate::timeOf(const Link &link, double bytes) {
  return bytes == 0 ? 0 : link.latency + bytes / link.bandwidth;
}

static llvm::Error expectPositive(double value, const std::string &where) {
  if (value > 0 && std::isfinite(value))
    return llvm::Error::success();
  return makeError("{0}: expected a positive number, found {1}", where, value);
}

/// One number, or one for each element type: types without one take the least.
static llvm::Error readFlops(JSONReader &reader, Device &device) {
  if (!reader.isObject("flops")) {
    double &flops = device.flops[""];
    if (llvm::Error error = reader.number("flops", flops, true))
      return error;
    return expectPositive(flops, reader.path("flops"));
  }
  auto object = reader.child("flops");
  if (!object)
    return object.takeError();
  double minimum = std::numeric_limits<double>::infinity();
  for (const auto &entry : **object) {
    double &flops = device.flops[entry.first.str()];
    flops = entry.second.getAsNumber().value_or(0);
    std::string where = reader.path("flops") + ": " + entry.first.str();
    if (llvm::Error error = expectPositive(flops, where))
      return error;
    minimum = std::min(minimum, flops);
  }
  if (device.flops.empty())
    return makeError("{0}: expected a number for an element type, found none",
                     reader.path("flops"));
  device.flops.try_emplace("", minimum);
  return llvm::Error::success();
}

static llvm::Error readDevice(const llvm::json::Object &object, llvm::StringRef file,
                              Device &device) {
  JSONReader reader(object, (file + ": device").str());
  if (llvm::Error error = readFlops(reader, device))
    return error;
  if (llvm::Error error = reader.number("memory_bandwidth", device.memoryBandwidth, true))
    return error;
  for (auto [name, value] : {std::pair<const char *, double *>{"efficiency", &device.efficiency},
                             {"overhead", &device.overhead},
                             {"op_overhead", &device.opOverhead}})
    if (llvm::Error error = reader.number(name, *value))
      return error;
  for (auto [name, value] :
       {std::pair<const char *, double>{"memory_bandwidth", device.memoryBandwidth},
        {"efficiency", device.efficiency}})
    if (llvm::Error error = expectPositive(value, reader.path(name)))
      return error;
  for (auto [name, value] : {std::pair<const char *, double>{"overhead", device.overhead},
                             {"op_overhead", device.opOverhead}})
    if (!(value >= 0) || !std::isfinite(value))
      return makeError("{0}: expected 0 or more seconds, found {1}", reader.path(name), value);
  return reader.finish();
}

static llvm::Error readLink(const llvm::json::Object *object, const std::string &where,
                            Link &link) {
  if (!object)
    return llvm::Error::success();
  JSONReader reader(*object, where);
  if (llvm::Error error = reader.number("latency", link.latency))
    return error;
  if (llvm::Error error = reader.number("bandwidth", link.bandwidth, true))
    return error;
  if (llvm::Error error = expectPositive(link.bandwidth, reader.path("bandwidth")))
    return error;
  if (!(link.latency >= 0) || !std::isfinite(link.latency))
    return makeError("{0}: expected 0 or more seconds, found {1}", reader.path("latency"),
                     link.latency);
  return reader.finish();
}

static llvm::Error readWork(JSONReader &stage, llvm::StringRef field, Work &work) {
  auto object = stage.child(field, true);
  if (!object)
    return object.takeError();
  JSONReader reader(**object, stage.path(field));
  if (llvm::Error error = reader.number("flops", work.flops, true))
    return error;
  if (llvm::Error error = reader.number("bytes", work.bytes))
    return error;
  return reader.finish();
}

static llvm::Error readStage(const llvm::json::Object &object, std::string where,
                             const Machine &machine, double dataParallel, StageCost &cost) {
  constexpr double milliseconds = 1e3;
  JSONReader reader(object, where);
  Work forward, input, weight;
  for (auto [name, work] : {std::pair<const char *, Work *>{"forward", &forward},
                            {"input", &input},
                            {"weight", &weight}})
    if (llvm::Error error = readWork(reader, name, *work))
      return error;
  double output = 0, parameters = 0, activations = 0, released = 0;
  for (auto [name, value] : {std::pair<const char *, double *>{"output_bytes", &output},
                             {"parameter_bytes", &parameters},
                             {"activation_bytes", &activations},
                             {"input_releases_bytes", &released}})
    if (llvm::Error error = reader.number(name, *value))
      return error;
  if (llvm::Error error = reader.finish())
    return error;
  cost.forward = milliseconds * (timeOf(machine.device, forward) + machine.device.overhead);
  cost.input = milliseconds * (timeOf(machine.device, input) + machine.device.overhead);
  cost.weight = milliseconds * (timeOf(machine.device, weight) + machine.device.overhead);
  cost.sendForward = cost.sendBackward = milliseconds * timeOf(machine.link, output);
  // A ring moves every part but the rank's own, once for a gather and once for a reduce-scatter.
  double moved = parameters * (dataParallel - 1) / dataParallel;
  if (moved > 0 && machine.collective.bandwidth > 0)
    cost.unshard = cost.reduce = milliseconds * (machine.collective.latency * (dataParallel - 1) +
                                                 moved / machine.collective.bandwidth);
  // AdamW reads and writes the parameter and two states, and reads the gradient.
  cost.optimizer = milliseconds * (timeOf(machine.device, {0, 7 * parameters / dataParallel}) +
                                   machine.device.overhead);
  cost.forwardMemory = activations;
  cost.inputMemory = released;
  cost.weightMemory = activations - released;
  return llvm::Error::success();
}

static llvm::Expected<Machine> readMachine(JSONReader &reader, llvm::StringRef file) {
  Machine machine;
  auto device = reader.child("device", true);
  if (!device)
    return device.takeError();
  if (llvm::Error error = readDevice(**device, file, machine.device))
    return error;
  for (auto [name, link] : {std::pair<const char *, Link *>{"link", &machine.link},
                            {"collective", &machine.collective}}) {
    auto object = reader.child(name, llvm::StringRef(name) == "link");
    if (!object)
      return object.takeError();
    if (llvm::Error error = readLink(*object, reader.path(name), *link))
      return error;
  }
  return machine;
}

llvm::Expected<Machine> cleave::simulate::readMachineFile(llvm::StringRef path) {
  auto value = readJSONFile(path);
  if (!value)
    return value.takeError();
  const llvm::json::Object *root = value->getAsObject();
  if (!root)
    return makeError("{0}: expected a JSON object with \"device\" and \"link\"", path);
  JSONReader reader(*root, path.str());
  auto machine = readMachine(reader, path);
  if (!machine)
    return machine;
  if (llvm::Error error = reader.finish())
    return error;
  return machine;
}

llvm::Expected<CostTable> cleave::simulate::costsOfMachine(const llvm::json::Object &root,
                                                           llvm::StringRef file) {
  JSONReader reader(root, file.str());
  auto machine = readMachine(reader, file);
  if (!machine)
    return machine.takeError();
  double dataParallel = 1;
  if (llvm::Error error = reader.number("data_parallel", dataParallel))
    return error;
  if (dataParallel < 1)
    return makeError("{0}: expected 1 rank or more, found {1}", reader.path("data_parallel"),
                     dataParallel);
  if (dataParallel > 1 && machine->collective.bandwidth == 0)
    return makeError("{0}: {1} data-parallel ranks need a \"collective\" link", file, dataParallel);
  CostTable table;
  table.stages.clear();
  if (llvm::Error error =
          reader.objects("stages", [&](const llvm::json::Object &stage, const std::string &where) {
            return readStage(stage, where, *machine, dataParallel, table.stages.emplace_back());
          }))
    return error;
  if (llvm::Error error = reader.finish())
    return error;
  return table;
}
