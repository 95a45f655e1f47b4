//===- Module.cpp - the extension module `cleave_native` ------------------------===//
//
// What cleave/native.py and its neighbours build on: programs, and sessions whose values lie in the
// memory of PyTorch's tensors. It opens no socket, forks nothing and touches no signal, and its
// symbols are its own: another MLIR or LLVM in the process is none of its business.
//
//===----------------------------------------------------------------------===//

#include "cleave/LossScale.h"
#include "cleave/Session.h"
#include "python/native/Calls.h"
#include "python/native/Devices.h"
#include "python/native/Ranks.h"
#include "runtime/program/Form.h"
#include "runtime/ranks/RankGrid.h"
#include "runtime/session/TensorFunction.h"
#include "runtime/train/Agreement.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DynamicCast.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/headeronly/version.h>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <tuple>

namespace py = pybind11;
using namespace cleave::runtime;
using cleave::python::DeviceTurn;
using cleave::python::Failure;
using cleave::python::isInterrupted;
using cleave::python::raise;
using cleave::python::raiseInterruptible;
using cleave::python::Ranks;
using cleave::python::runFreely;
using cleave::python::take;

namespace {

std::string describe(const at::Tensor &tensor) {
  std::optional<TensorType> type = typeOf(tensor);
  return type ? type->str() : std::string("a tensor of ") + c10::toString(tensor.scalar_type());
}

/// Lets them run between the ops of a step, of which one alone may take long.
class InterruptPoint {
public:
  void operator()(const OpEvent &event) {
    int64_t now = event.startNs + event.durationNs;
    if (now - last < kInterval)
      return;
    last = now;
    if (isInterrupted())
      throw std::runtime_error("interrupted");
  }

private:
  static constexpr int64_t kInterval = 100'000'000;
  int64_t last = 0;
};

//===----------------------------------------------------------------------===//
// Sessions
//===----------------------------------------------------------------------===//

/// A tensor in whose memory a session has a value, and what it was when it did.
struct Adopted {
  std::string name;
  at::Tensor tensor;
  /// The same memory, whatever becomes of the tensor; but that of a storage that is resized moves.
  at::Tensor memory;
  const void *data;

  /// Empty, or what is no longer as it was.
  std::string findChange() const {
    if (tensor.scalar_type() != memory.scalar_type() || tensor.sizes() != memory.sizes())
      return "expected " + describe(memory) + ", found " + describe(tensor);
    if (tensor.const_data_ptr() != data || !tensor.is_contiguous())
      return "it lies in other memory";
    return "";
  }
};

class PySession {
public:
  PySession(const cleave::python::Program &source, const std::map<std::string, at::Tensor> &adopt,
            int64_t microbatches, uint64_t seed, bool followsGenerator, const std::string &kernels,
            bool keepOutputs, std::shared_ptr<Ranks> ranks,
            const std::tuple<std::string, int, std::string> &where)
      : ranks(std::move(ranks)), microbatches(microbatches) {
    const auto &[kind, index, plugin] = where;
    device = take(cleave::python::findDevice(kind, index, plugin));
    c10::Device place = device ? device->torchDevice() : c10::Device(c10::kCPU);
    SessionOptions options;
    options.device = device;
    options.microbatches = microbatches;
    options.seed = seed;
    options.followsDefaultGenerator = followsGenerator;
    options.kernels = kernels;
    options.keepOutputs = keepOutputs;
    RankPlace rank;
    if (this->ranks)
      rank = {this->ranks->rank(), this->ranks->size()};
    for (const auto &[name, tensor] : adopt) {
      std::optional<TensorType> type = typeOf(tensor);
      if (!type || !tensor.is_contiguous() || tensor.device() != place)
        throw Failure(name + ": expected a contiguous tensor on " + place.str() + ", found " +
                      describe(tensor) + " on " + tensor.device().str());
      adopted.push_back({name, tensor, tensor.detach(), tensor.const_data_ptr()});
      char *data = static_cast<char *>(adopted.back().memory.mutable_data_ptr());
      options.adopted[name] = TensorRef{*type, data};
    }
    std::string bytes = take(source.serialize());
    raiseInterruptible(runFreely([&]() -> llvm::Error {
      DeviceTurn turn(device);
      auto loaded = parseProgram(llvm::MemoryBuffer::getMemBufferCopy(bytes, source.name()), rank);
      llvm::Error error = loaded ? llvm::Error::success() : loaded.takeError();
      if (loaded)
        program = std::move(*loaded);
      if (this->ranks && this->ranks->size() > 1) {
        Communicator &world = this->ranks->communicator();
        if (llvm::Error refusal = agree(world, std::move(error), "the program"))
          return refusal;
        error = agreeOnProgram(world, *program,
                               {{"microbatches", std::to_string(microbatches)},
                                {"seed", std::to_string(seed)},
                                {"kernels", kernels}},
                               kernels, /*needsEqualBits=*/false);
      }
      if (error)
        return error;
      if (this->ranks)
        if (llvm::Error error = this->ranks->communicator(device).moveInto(options.communicator))
          return error;
      // Not where ops run as planned, without a look at each of them.
      if (!isLowered(*program))
        options.onOp = InterruptPoint();
      return Session::create(*program, options).moveInto(session);
    }));
    inputs = program->inputs();
    for (const ValueInfo &value : program->results(Phase::Microbatch))
      if (value.role == RoleKind::Loss)
        lossType = toScalarType(value.type.dtype);
    for (const ValueInfo &value : program->weights())
      if (auto found = adopt.find(value.fileName); found != adopt.end() &&
                                                   value.role != RoleKind::Constant &&
                                                   !value.frozen && !found->second.is_inference())
        changing.push_back(found->second);
  }

  /// Runs a step, or the microbatches of a program without an update, on the tensors of all inputs,
  /// in the program's order, each with all microbatches along its batch dimension. Returns the
  /// As that of Ranks: its pipeline, say, has groups of its own.
  ~PySession() {
    py::gil_scoped_release release;
    session.reset();
  }

  /// loss: the mean over all microbatches of all ranks.
  double step(int64_t number, const std::vector<at::Tensor> &tensors) {
    checkAdopted();
    checkInputs(tensors);
    double loss = 0;
    raiseInterruptible(runFreely([&]() -> llvm::Error {
      DeviceTurn turn(device);
      auto done = [&](int64_t) { return session->noteLoss(); };
      auto fill = [&](int64_t index) { return fillInputs(tensors, index); };
      if (llvm::Error error =
              program->hasUpdate() ? session->runStep(number, fill, done) : runForward(fill, done))
        return error;
      return averageLoss().moveInto(loss);
    }));
    if (program->hasUpdate())
      noteChanges();
    return loss;
  }

  /// Lets autograd see that values have changed: a backward through old ones fails, as in eager
  /// mode.
  void noteChanges() const {
    for (const at::Tensor &tensor : changing)
      torch::autograd::impl::bump_version(tensor);
  }

  /// A loss as a tensor of the program's type. PyTorch's dispatch takes longer than a small step.
  at::Tensor lossTensor(double value) const {
    at::Tensor tensor = at::detail::empty_cpu({}, lossType);
    c10::cast_and_store<double>(lossType, tensor.mutable_data_ptr(), value);
    return tensor;
  }

  /// Raises where a tensor no longer has the memory in which steps compute; `step` does so too.
  void checkAdopted() const {
    for (const Adopted &each : adopted)
      if (std::string change = each.findChange(); !change.empty())
        throw Failure(each.name + ": " + change +
                      ": the step computes in the memory that the tensor had when it was compiled; "
                      "change values in place, by copy_ or load_state_dict");
  }

  /// What a name of the program has after a step, a copy: `loss`, `output.gradient_norm`.
  std::optional<at::Tensor> result(const std::string &name) {
    DeviceTurn turn(device);
    auto found = session->result(name);
    if (!found) {
      llvm::consumeError(found.takeError());
      return std::nullopt;
    }
    return toTensor(*found).clone();
  }

  /// An output of the model in the last step, a copy: with a batch dimension that of all
  /// microbatches, else of the last one. None where other ranks make it.
  std::optional<at::Tensor> output(const std::string &name) {
    std::vector<at::Tensor> parts;
    for (const ConstTensorRef &part : session->keptOutputs(name))
      parts.push_back(toTensor(part));
    if (parts.empty())
      return result(name);
    for (const ValueInfo &value : program->results(Phase::Microbatch))
      if (value.fileName == name && value.batch)
        return at::cat(parts, *value.batch);
    return std::nullopt;
  }

  void setLearningRate(int64_t group, double rate) { raise(session->setLearningRate(group, rate)); }

  /// The scale of the loss in the next step, after how many steps without a skipped one, and how
  /// many were skipped; none of a program that does not scale it.
  std::optional<std::tuple<float, int64_t, int64_t>> lossScale() const {
    std::optional<LossScale> scale = session->lossScale();
    if (!scale)
      return std::nullopt;
    return std::tuple(scale->scale, scale->steps, scale->skipped);
  }

  /// Of no skipped steps, as the numbers of steps that `step` is given are of those taken.
  void setLossScale(float scale, int64_t steps) { raise(session->setLossScale({scale, steps, 0})); }

  /// Where this rank is along the axes, in their row-major order, and how many places there are.
  std::pair<int64_t, int64_t> placeAlong(const std::vector<std::string> &axes) {
    Session::BatchPart part = session->grid().along(axes);
    return {part.index, part.count};
  }
  bool hasWeight(const std::string &name) const { return session->hasWeight(name); }
  bool hasOptimizerState(const std::string &parameter) const {
    return session->hasOptimizerState(parameter);
  }
  const Program &loaded() const { return *program; }

private:
  static at::Tensor toTensor(const ConstTensorRef &ref) {
    return at::from_blob(const_cast<char *>(ref.data),
                         at::IntArrayRef(ref.type.shape.data(), ref.type.shape.size()),
                         at::TensorOptions().dtype(toScalarType(ref.type.dtype)));
  }

  void checkInputs(const std::vector<at::Tensor> &tensors) const {
    if (tensors.size() != inputs.size())
      throw Failure(
          "expected " + std::to_string(inputs.size()) + " tensors (" +
          llvm::join(llvm::map_range(inputs, [](auto &value) { return value.name; }), ", ") +
          "), found " + std::to_string(tensors.size()));
    for (auto [value, tensor] : llvm::zip_equal(inputs, tensors)) {
      TensorType expected = value.type;
      if (value.batch)
        expected.shape[*value.batch] *= microbatches;
      bool isHere = tensor.is_cpu() || (device && tensor.device() == device->torchDevice());
      if (!isHere || typeOf(tensor) != expected)
        throw Failure("input '" + value.name + "': expected " + expected.str() + " on the CPU" +
                      (device ? " or " + device->torchDevice().str() : "") + ", found " +
                      describe(tensor) + " on " + tensor.device().str());
    }
  }

  llvm::Error runForward(MicrobatchCallback fill, MicrobatchCallback done) {
    if (program->draws())
      return llvm::createStringError(
          "the forward draws random numbers, which only steps do as eager mode does: put the model "
          "into evaluation mode, model.eval()");
    return session->runMicrobatches(1, fill, done);
  }

  llvm::Error fillInputs(const std::vector<at::Tensor> &tensors, int64_t index) {
    if (isInterrupted())
      return llvm::createStringError("interrupted");
    c10::InferenceMode inferenceMode;
    for (auto [value, tensor] : llvm::zip_equal(inputs, tensors)) {
      if (!session->hasInput(value.name))
        continue;
      llvm::Expected<TensorRef> memory = session->input(value.name);
      if (!memory)
        return memory.takeError();
      at::Tensor part = tensor;
      if (value.batch && microbatches > 1) {
        int64_t size = value.type.shape[*value.batch];
        part = tensor.narrow(*value.batch, index * size, size);
      }
      // PyTorch's dispatch takes longer than a few numbers' copy.
      int64_t size = memory->type.numBytes();
      if (size <= kSmall && part.is_cpu() && part.is_contiguous() && !part.is_conj() &&
          !part.is_neg())
        std::memcpy(memory->data, part.const_data_ptr(), size);
      else
        toTensor(*memory).copy_(part);
    }
    return llvm::Error::success();
  }

  /// All ranks call it. Those that do not make the loss, in a pipeline, get it from those that do.
  llvm::Expected<double> averageLoss() {
    llvm::Expected<std::vector<double>> losses = session->takeLosses();
    if (!losses)
      return losses.takeError();
    double sum = llvm::sum_of(*losses, 0.0);
    double count = double(losses->size());
    if (session->ranks() > 1 && (session->isScheduled() || session->batchPart().count > 1)) {
      at::Tensor both = at::empty({2}, at::kDouble);
      both.mutable_data_ptr<double>()[0] = sum;
      both.mutable_data_ptr<double>()[1] = count;
      if (llvm::Error error = ranks->communicator().allReduceSum(both, "the loss"))
        return error;
      sum = both.const_data_ptr<double>()[0];
      count = both.const_data_ptr<double>()[1];
    }
    return count ? sum / count : std::nan("");
  }

  static constexpr int64_t kSmall = 1 << 16;

  std::shared_ptr<Ranks> ranks;
  /// Null: the processor.
  Device *device = nullptr;
  int64_t microbatches;
  std::vector<Adopted> adopted;
  std::unique_ptr<Program> program;
  std::unique_ptr<Session> session;
  std::vector<ValueInfo> inputs;
  /// What steps write of a model.
  std::vector<at::Tensor> changing;
  c10::ScalarType lossType = c10::ScalarType::Float;
};

//===----------------------------------------------------------------------===//
// Functions of tensors
//===----------------------------------------------------------------------===//

/// A program as a function of tensors. Several threads may call it; they take turns.
class PyFunction {
public:
  PyFunction(const cleave::python::Program &source, const std::string &kernels) {
    std::string bytes = take(source.serialize());
    raise(runFreely([&]() -> llvm::Error {
      auto buffer = llvm::MemoryBuffer::getMemBufferCopy(bytes, source.name());
      if (llvm::Error error = parseProgram(std::move(buffer)).moveInto(program))
        return error;
      return TensorFunction::create(*program, kernels).moveInto(function);
    }));
  }

  /// Takes the tensors out of the list: those that only it holds are freed after their last use.
  std::vector<at::Tensor> call(py::list arguments) {
    std::vector<at::Tensor> tensors;
    tensors.reserve(arguments.size());
    for (py::handle argument : arguments) {
      if (!THPVariable_Check(argument.ptr()))
        throw Failure("expected tensors, found a value of type " +
                      std::string(py::str(py::type::of(argument))));
      tensors.push_back(THPVariable_Unpack(argument.ptr()));
    }
    if (PyList_SetSlice(arguments.ptr(), 0, PyList_GET_SIZE(arguments.ptr()), nullptr) != 0)
      throw py::error_already_set();
    std::vector<at::Tensor> results;
    raise(runFreely([&]() -> llvm::Error {
      std::lock_guard<std::mutex> lock(mutex);
      return function->call(std::move(tensors)).moveInto(results);
    }));
    return results;
  }

private:
  std::unique_ptr<Program> program;
  std::unique_ptr<TensorFunction> function;
  std::mutex mutex;
};

} // namespace

PYBIND11_MODULE(cleave_native, module) {
  module.doc() = "Programs and sessions; see cleave.Program and cleave.Session.";
  module.attr("TORCH_VERSION") = TORCH_VERSION;
  static const py::handle error =
      py::object(py::module_::import("cleave.errors").attr("Error")).release();
  module.attr("Error") = error;
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown)
        std::rethrow_exception(thrown);
    } catch (const Failure &failure) {
      py::set_error(error, failure.what());
    }
  });

  using cleave::python::Program;
  py::class_<Program> program(module, "Program");
  program
      .def_static(
          "parse",
          [](py::bytes data, const std::string &name) {
            return take(Program::parse(std::string_view(data), name));
          },
          py::arg("data"), py::arg("name"))
      .def("run_passes",
           [](Program &self, const std::string &pipeline) {
             py::gil_scoped_release release;
             raise(self.runPasses(pipeline));
           })
      .def("text", &Program::print, py::arg("locations"))
      .def("rate_groups", &Program::rateGroups)
      .def("serialize", [](const Program &self) { return py::bytes(take(self.serialize())); })
      .def_property_readonly("name", [](const Program &self) { return self.name().str(); });
  cleave::python::bindOps(module, program);
  cleave::python::bindWatch(module);
  cleave::python::bindPattern(module);
  cleave::python::bindRanks(module);

  py::class_<PySession>(module, "Session")
      .def(py::init<const Program &, const std::map<std::string, at::Tensor> &, int64_t, uint64_t,
                    bool, const std::string &, bool, std::shared_ptr<Ranks>,
                    const std::tuple<std::string, int, std::string> &>(),
           py::arg("program"), py::arg("adopt"), py::arg("microbatches"), py::arg("seed"),
           py::arg("follows_generator"), py::arg("kernels"), py::arg("keep_outputs") = false,
           py::arg("ranks").none(true) = py::none(), py::arg("device") = std::tuple("cpu", 0, ""))
      .def("step", &PySession::step, py::arg("number"), py::arg("inputs"))
      .def("note_changes", &PySession::noteChanges)
      .def("loss_tensor", &PySession::lossTensor, py::arg("value"))
      .def("check", &PySession::checkAdopted)
      .def("result", &PySession::result)
      .def("output", &PySession::output)
      .def("set_learning_rate", &PySession::setLearningRate)
      .def("loss_scale", &PySession::lossScale)
      .def("set_loss_scale", &PySession::setLossScale, py::arg("scale"), py::arg("steps"))
      .def("place_along", &PySession::placeAlong)
      .def("has_weight", &PySession::hasWeight)
      .def("has_optimizer_state", &PySession::hasOptimizerState);

  py::class_<PyFunction>(module, "Function")
      .def(py::init<const Program &, const std::string &>(), py::arg("program"), py::arg("kernels"))
      .def("__call__", &PyFunction::call, py::arg("arguments"));
  cleave::python::bindSignature(module);
}
