//===- OpBindings.cpp - a program's ops and costs in `cleave_native` ----------===//
//
// What cleave/ops.py and cleave/figures.py build on.
//
//===----------------------------------------------------------------------===//

#include "cleave/Session.h"
#include "python/native/Bindings.h"

#include "llvm/Support/MemoryBuffer.h"

#include <pybind11/stl.h>

namespace py = pybind11;
using namespace cleave::python;
namespace runtime = cleave::runtime;

/// (op, block, index): as Python has a value.
using PyValue = std::tuple<int64_t, int64_t, int64_t>;

static ValueId toValue(const PyValue &value) {
  return {std::get<0>(value), std::get<1>(value), std::get<2>(value)};
}
static std::vector<PyValue> toPython(const std::vector<ValueId> &values) {
  std::vector<PyValue> list;
  for (const ValueId &each : values)
    list.emplace_back(each.op, each.block, each.index);
  return list;
}

static py::dict describe(const OpFacts &facts) {
  py::dict result;
  result["location"] = facts.location;
  result["function"] = facts.function;
  result["operands"] = toPython(facts.operands);
  result["results"] = toPython(facts.results);
  py::dict attributes;
  for (const auto &[name, text] : facts.attributes)
    attributes[py::str(name)] = text;
  result["attributes"] = attributes;
  return result;
}

static py::dict describe(const runtime::ProgramCosts &costs) {
  py::dict result;
  result["parameter_bytes"] = costs.parameterBytes;
  result["buffer_bytes"] = costs.bufferBytes;
  result["optimizer_state_bytes"] = costs.optimizerStateBytes;
  result["gradient_bytes"] = costs.gradientBytes;
  result["saved_bytes"] = costs.savedBytes;
  result["peak_bytes"] = costs.peakBytes;
  result["flops"] = costs.flops;
  result["ops"] = costs.ops;
  py::list communication;
  for (const runtime::CommunicationCosts &each : costs.communication)
    communication.append(
        py::make_tuple(each.op, each.axes, each.count, each.bytes, each.sentBytes));
  result["communication"] = communication;
  result["memory_text"] = runtime::describeMemory(costs);
  result["communication_text"] = runtime::describeCommunication(costs);
  return result;
}

void cleave::python::bindOps(py::module_ &module, py::class_<Program> &program) {
  program.def("walk", &Program::walk)
      .def("name_of", [](Program &self, int64_t op) { return take(self.nameOf(op)); })
      .def("text_of", [](Program &self, int64_t op) { return take(self.textOf(op)); })
      .def("facts", [](Program &self, int64_t op) { return describe(take(self.facts(op))); })
      .def("type_of",
           [](Program &self, const PyValue &value) { return take(self.typeOf(toValue(value))); })
      .def("users_of",
           [](Program &self, const PyValue &value) { return take(self.usersOf(toValue(value))); })
      .def("begin_rewrite", [](Program &self) { raise(self.beginRewrite()); })
      .def("end_rewrite", [](Program &self, bool keeps) { raise(self.endRewrite(keeps)); })
      .def("set_attribute",
           [](Program &self, int64_t op, const std::string &name, std::optional<std::string> text) {
             raise(self.setAttribute(op, name, std::move(text)));
           })
      .def("set_operand",
           [](Program &self, int64_t op, int64_t index, const PyValue &value) {
             raise(self.setOperand(op, index, toValue(value)));
           })
      .def("replace", [](Program &self, const PyValue &from,
                         const PyValue &to) { raise(self.replace(toValue(from), toValue(to))); })
      .def("erase", [](Program &self, int64_t op) { raise(self.erase(op)); })
      .def("insert_before", [](Program &self, int64_t op, const std::string &name,
                               const std::vector<PyValue> &operands,
                               const std::vector<std::pair<std::string, std::string>> &attributes,
                               const std::vector<std::string> &types) {
        std::vector<ValueId> values;
        for (const PyValue &each : operands)
          values.push_back(toValue(each));
        return take(self.insertBefore(op, name, values, attributes, types));
      });

  // Of each rank along the pipeline axis, or of one rank of a program without a schedule.
  module.def(
      "costs",
      [](const Program &source, int64_t microbatches) {
        auto loaded = take(runtime::parseProgram(
            llvm::MemoryBuffer::getMemBufferCopy(take(source.serialize()), source.name()),
            runtime::RankPlace()));
        py::list ranks;
        if (loaded->schedule())
          for (const runtime::ProgramCosts &each : runtime::computeScheduleCosts(*loaded))
            ranks.append(describe(each));
        else
          ranks.append(describe(runtime::computeCosts(*loaded, microbatches)));
        return ranks;
      },
      py::arg("program"), py::arg("microbatches"));
}
