//===- Signature.cpp - what a program's values are, for Python --------------------===//

#include "cleave/Program.h"
#include "python/native/Bindings.h"
#include "runtime/aten/Facade.h"

#include "llvm/Support/MemoryBuffer.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/stl.h>

namespace py = pybind11;
using namespace cleave::runtime;
using cleave::python::take;

namespace {

const char *roleName(RoleKind role) {
  switch (role) {
  case RoleKind::Parameter:
    return "parameter";
  case RoleKind::Buffer:
    return "buffer";
  case RoleKind::Constant:
    return "constant";
  case RoleKind::Input:
    return "input";
  case RoleKind::Target:
    return "target";
  case RoleKind::OptimizerState:
    return "optimizer_state";
  default:
    return "value";
  }
}

/// A value as Python sees it: its shape is what this rank holds.
py::dict describeValue(const ValueInfo &value) {
  py::dict result;
  result["role"] = roleName(value.role);
  result["name"] = value.name;
  result["slot"] = value.slot;
  result["file_name"] = value.fileName;
  result["shape"] = std::vector<int64_t>(value.type.shape.begin(), value.type.shape.end());
  result["dtype"] = py::reinterpret_borrow<py::object>(
      py::handle(reinterpret_cast<PyObject *>(torch::getTHPDtype(toScalarType(value.type.dtype)))));
  result["batch"] = value.batch ? py::object(py::int_(*value.batch)) : py::none();
  result["frozen"] = value.frozen;
  py::list shards;
  for (const AxisPlacement &placement : value.placements)
    if (placement.kind == AxisPlacement::Kind::Shard)
      shards.append(py::make_tuple(placement.axis, placement.dim, placement.order));
  result["shards"] = shards;
  result["whole_shape"] = value.wholeShape
                              ? py::object(py::cast(std::vector<int64_t>(value.wholeShape->begin(),
                                                                         value.wholeShape->end())))
                              : py::none();
  return result;
}

py::list describeValues(llvm::ArrayRef<ValueInfo> values) {
  py::list list;
  for (const ValueInfo &value : values)
    list.append(describeValue(value));
  return list;
}

} // namespace

void cleave::python::bindSignature(py::module_ &module) {
  module.def(
      "signature",
      [](const cleave::python::Program &source, int rank, int ranks) {
        auto program = take(parseProgram(
            llvm::MemoryBuffer::getMemBufferCopy(take(source.serialize()), source.name()),
            {rank, ranks}));
        py::dict result;
        result["weights"] = describeValues(program->weights());
        result["optimizer_states"] = describeValues(program->optimizerStates());
        result["inputs"] = describeValues(program->inputs());
        py::list outputs;
        for (const ValueInfo &value : program->results(Phase::Microbatch)) {
          if (value.role == RoleKind::Loss)
            result["loss"] = describeValue(value);
          if (value.role == RoleKind::Output)
            outputs.append(describeValue(value));
        }
        result["outputs"] = outputs;
        result["has_update"] = program->hasUpdate();
        result["typed"] = program->isTyped();
        result["draws"] = program->draws() != 0;
        py::list mesh;
        for (const MeshAxis &axis : program->mesh())
          mesh.append(py::make_tuple(axis.name, axis.size));
        result["mesh"] = mesh;
        return result;
      },
      py::arg("program"), py::arg("rank") = 0, py::arg("ranks") = 1);
}
