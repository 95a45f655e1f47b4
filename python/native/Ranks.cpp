//===- Ranks.cpp - the ranks of a Python process --------------------------------===//

#include "python/native/Ranks.h"
#include "python/native/Calls.h"
#include "runtime/comm/ProcessGroupCommunicator.h"
#include "runtime/device/DeviceCommunicator.h"

#include <ATen/ops/empty.h>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace cleave;
using namespace cleave::runtime;
using cleave::python::Ranks;

Ranks::Ranks(const std::string &group, double timeout, py::function makeGroup)
    : makeGroup(std::move(makeGroup)) {
  ProcessGroupHost host;
  host.makeGroup = [this](llvm::ArrayRef<int> ranks) { return callMakeGroup(ranks); };
  host.poll = []() -> llvm::Error {
    if (!isInterrupted())
      return llvm::Error::success();
    return llvm::createStringError("interrupted");
  };
  world = take(joinProcessGroup(group, std::chrono::milliseconds(int64_t(timeout * 1000)), host));
}

Ranks::~Ranks() {
  py::gil_scoped_release release;
  ofDevices.clear();
  world.reset();
}

llvm::Expected<Communicator *> Ranks::communicator(const Device *device) {
  if (!device)
    return world.get();
  std::unique_ptr<Communicator> &made = ofDevices[device];
  if (!made)
    if (llvm::Error error = makeDeviceCommunicator(*world, *device).moveInto(made))
      return error;
  return made.get();
}

bool Ranks::haveSame(int64_t number, const std::string &what) {
  at::Tensor extremes = at::empty({2}, at::kLong);
  int64_t *values = extremes.mutable_data_ptr<int64_t>();
  values[0] = number;
  values[1] = -number;
  raiseInterruptible(runFreely([&]() -> llvm::Error {
    auto work = world->startAllReduce(extremes, ReductionKind::Max, what);
    return work ? (*work)->wait() : work.takeError();
  }));
  return values[0] == -values[1];
}

std::vector<std::string> Ranks::gather(const std::string &text, const std::string &what) {
  std::vector<std::string> texts;
  raiseInterruptible(runFreely([&] { return world->allGatherBytes(text, what).moveInto(texts); }));
  return texts;
}

llvm::Expected<std::string> Ranks::callMakeGroup(llvm::ArrayRef<int> ranks) {
  py::gil_scoped_acquire acquire;
  try {
    return makeGroup(ranks.vec()).cast<std::string>();
  } catch (py::error_already_set &error) {
    return llvm::createStringError(error.what());
  }
}

void python::bindRanks(py::module_ &module) {
  py::class_<Ranks, std::shared_ptr<Ranks>>(module, "Ranks")
      .def(py::init<const std::string &, double, py::function>(), py::arg("group"),
           py::arg("timeout"), py::arg("make_group"))
      .def_property_readonly("rank", &Ranks::rank)
      .def_property_readonly("size", &Ranks::size)
      .def("have_same", &Ranks::haveSame, py::arg("number"), py::arg("what"))
      .def("gather", &Ranks::gather, py::arg("text"), py::arg("what"));
}
