//===- Pattern.cpp - whether a step is called with the like of its last arguments -===//
//
// Python's pytree takes longer over a batch of one tensor than small steps do.
//
//===----------------------------------------------------------------------===//

#include "python/native/Bindings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <vector>

namespace py = pybind11;

namespace {

/// What arguments were: nested tuples, lists and dicts of dense tensors on the CPU or a CUDA
/// device, and of plain values. It may call others that are alike different, which are then looked
/// at in Python.
class Pattern {
public:
  explicit Pattern(py::handle arguments) : isKnown(note(arguments)) {}

  /// The tensors of arguments like those, where nothing about them or around the call keeps a step
  /// from taking them; else none.
  std::optional<std::vector<at::Tensor>> match(py::handle arguments, bool trains) const {
    if (!isKnown || at::autocast::is_autocast_enabled(at::kCPU) ||
        at::autocast::is_autocast_enabled(at::kCUDA) ||
        (trains && c10::InferenceMode::is_enabled()))
      return std::nullopt;
    std::vector<at::Tensor> tensors;
    const Node *next = nodes.data();
    if (!isLike(arguments, next, tensors, trains))
      return std::nullopt;
    return tensors;
  }

private:
  /// In the order in which a walk meets them.
  struct Node {
    /// Of a container its type, and how many it has; a dict's values have their keys before them.
    PyTypeObject *container = nullptr;
    Py_ssize_t size = 0;
    /// A plain value, or none: a tensor.
    py::object value;
    c10::ScalarType type = c10::ScalarType::Undefined;
    c10::Device device = c10::Device(c10::kCPU);
    llvm::SmallVector<int64_t, 4> shape;
  };

  static bool isPlain(py::handle value) {
    return value.is_none() || PyBool_Check(value.ptr()) || PyLong_CheckExact(value.ptr()) ||
           PyFloat_CheckExact(value.ptr()) || PyUnicode_CheckExact(value.ptr());
  }
  static bool isDense(const at::Tensor &tensor) {
    return tensor.layout() == at::kStrided && (tensor.is_cpu() || tensor.is_cuda()) &&
           !tensor.is_quantized() && !tensor.is_nested();
  }

  /// False where this knows nothing of such a value.
  bool note(py::handle value) {
    if (THPVariable_CheckExact(value.ptr())) {
      const at::Tensor &tensor = THPVariable_Unpack(value.ptr());
      if (!isDense(tensor))
        return false;
      Node &node = nodes.emplace_back();
      node.type = tensor.scalar_type();
      node.device = tensor.device();
      node.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
      return true;
    }
    if (isPlain(value)) {
      nodes.emplace_back().value = py::reinterpret_borrow<py::object>(value);
      return true;
    }
    bool isDict = PyDict_CheckExact(value.ptr());
    if (!isDict && !PyTuple_CheckExact(value.ptr()) && !PyList_CheckExact(value.ptr()))
      return false;
    Node &node = nodes.emplace_back();
    node.container = Py_TYPE(value.ptr());
    node.size = PyObject_Size(value.ptr());
    if (!isDict)
      return llvm::all_of(py::reinterpret_borrow<py::sequence>(value),
                          [&](py::handle each) { return note(each); });
    return llvm::all_of(py::reinterpret_borrow<py::dict>(value), [&](auto item) {
      return isPlain(item.first) && note(item.first) && note(item.second);
    });
  }

  static bool isLike(py::handle value, const Node *&next, std::vector<at::Tensor> &tensors,
                     bool trains) {
    const Node &node = *next++;
    if (node.container) {
      if (Py_TYPE(value.ptr()) != node.container)
        return false;
      if (node.container == &PyDict_Type)
        return PyDict_GET_SIZE(value.ptr()) == node.size &&
               llvm::all_of(py::reinterpret_borrow<py::dict>(value), [&](auto item) {
                 return isLike(item.first, next, tensors, trains) &&
                        isLike(item.second, next, tensors, trains);
               });
      return PySequence_Fast_GET_SIZE(value.ptr()) == node.size &&
             llvm::all_of(llvm::ArrayRef(PySequence_Fast_ITEMS(value.ptr()), node.size),
                          [&](PyObject *each) { return isLike(each, next, tensors, trains); });
    }
    if (node.value)
      return value.is(node.value) ||
             (Py_TYPE(value.ptr()) == Py_TYPE(node.value.ptr()) && value.equal(node.value));
    if (!THPVariable_CheckExact(value.ptr()))
      return false;
    const at::Tensor &tensor = THPVariable_Unpack(value.ptr());
    tensors.push_back(tensor);
    return isDense(tensor) && tensor.scalar_type() == node.type && tensor.device() == node.device &&
           tensor.sizes() == at::IntArrayRef(node.shape.data(), node.shape.size()) &&
           !(trains && tensor.requires_grad());
  }

  std::vector<Node> nodes;
  bool isKnown;
};

} // namespace

void cleave::python::bindPattern(py::module_ &module) {
  py::class_<Pattern>(module, "Pattern")
      .def(py::init<py::handle>(), py::arg("arguments"))
      .def("match", &Pattern::match, py::arg("arguments"), py::arg("trains"));
}
