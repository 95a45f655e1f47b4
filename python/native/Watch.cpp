//===- Watch.cpp - whether a model and an optimizer are still what they were -----===//
//
// Looked at before every step: thousands of dictionaries' entries in a model of some hundred
// modules.
//
//===----------------------------------------------------------------------===//

#include "python/native/Bindings.h"

#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/autograd/python_variable.h>

#include <vector>

namespace py = pybind11;

namespace {

/// What Python objects were when it was made, by identity. It says whether something may have
/// changed; what, and whether it matters, is its caller's to see.
class Watch {
public:
  /// entries: (dict, key, value), with None where the dict has no such key. items: dicts of which
  /// every item is watched. lists: lists, too. tables: dicts whose number of items is. attributes:
  /// (class, name, value), as the class and those before it have it. objects: those that stay of
  /// the class that they are of. parameters: tensors that have no gradient, and as many hooks as
  /// now, and are frozen or not. counts: tensors that `count` alone writes.
  Watch(const py::list &entries, const py::list &items, const py::list &lists,
        const py::list &tables, const py::list &attributes, const py::list &objects,
        const py::list &parameters, const py::list &counts) {
    for (py::handle entry : entries) {
      auto triple = py::cast<py::tuple>(entry);
      watched.push_back({py::cast<py::dict>(triple[0]), triple[1], triple[2]});
    }
    for (py::handle each : lists) {
      auto list = py::cast<py::list>(each);
      listed.push_back({list, py::tuple(list)});
    }
    for (py::handle each : attributes) {
      auto triple = py::cast<py::tuple>(each);
      inherited.push_back({py::cast<py::type>(triple[0]), triple[1], triple[2]});
    }
    for (py::handle each : objects)
      typed.push_back({py::reinterpret_borrow<py::object>(each), py::type::of(each)});
    for (py::handle each : items) {
      auto dict = py::cast<py::dict>(each);
      for (auto [key, value] : dict)
        whole.push_back({dict, py::reinterpret_borrow<py::object>(key),
                         py::reinterpret_borrow<py::object>(value)});
      sized.push_back({dict, PyDict_GET_SIZE(dict.ptr())});
      dicts.push_back(dict);
    }
    for (py::handle table : tables)
      sized.push_back({py::cast<py::dict>(table), PyDict_GET_SIZE(table.ptr())});
    for (py::handle each : parameters)
      trained.push_back(
          {checkTensor(each), countHooks(each), THPVariable_Unpack(each.ptr()).requires_grad()});
    for (py::handle each : counts)
      counted.push_back({checkTensor(each), THPVariable_Unpack(each.ptr())._version()});
  }

  bool hasChanged() const {
    return llvm::any_of(sized, [](auto &each) { return each.isOther(); }) ||
           llvm::any_of(typed, [](auto &each) { return each.isOther(); }) ||
           llvm::any_of(inherited, [](auto &each) { return each.isOther(); }) ||
           llvm::any_of(watched, [](auto &each) { return each.isOther(); }) || hasOtherItems() ||
           llvm::any_of(listed, [](auto &each) { return each.isOther(); }) ||
           llvm::any_of(trained, [](auto &each) { return each.isOther(); }) ||
           llvm::any_of(counted, [](auto &each) { return each.isOther(); });
  }

  /// Writes the number of steps to the counts.
  void count(double steps) {
    for (Count &each : counted) {
      const at::Tensor &tensor = THPVariable_Unpack(each.tensor.ptr());
      if (tensor.is_cpu()) {
        tensor.mutable_data_ptr<float>()[0] = float(steps);
        torch::autograd::impl::bump_version(tensor);
      } else {
        tensor.detach().fill_(steps); // counts as a change, too
      }
      each.version = tensor._version();
    }
  }

  int visit(visitproc visit, void *arg) const {
    for (const std::vector<Entry> *entries : {&watched, &whole})
      for (const Entry &entry : *entries) {
        Py_VISIT(entry.dict.ptr());
        Py_VISIT(entry.key.ptr());
        Py_VISIT(entry.value.ptr());
      }
    for (const Attribute &each : inherited) {
      Py_VISIT(each.type.ptr());
      Py_VISIT(each.value.ptr());
    }
    for (const Typed &each : typed) {
      Py_VISIT(each.object.ptr());
      Py_VISIT(each.type.ptr());
    }
    for (const Listed &each : listed) {
      Py_VISIT(each.list.ptr());
      Py_VISIT(each.items.ptr());
    }
    for (const Sized &each : sized)
      Py_VISIT(each.dict.ptr());
    for (const py::dict &each : dicts)
      Py_VISIT(each.ptr());
    for (const Parameter &each : trained)
      Py_VISIT(each.tensor.ptr());
    for (const Count &each : counted)
      Py_VISIT(each.tensor.ptr());
    return 0;
  }

  void clear() {
    // What is let go may look at this again.
    Watch old;
    std::swap(old, *this);
  }

private:
  struct Entry {
    py::dict dict;
    py::object key, value;

    bool isOther() const {
      PyObject *found = PyDict_GetItemWithError(dict.ptr(), key.ptr());
      if (!found && PyErr_Occurred())
        throw py::error_already_set();
      return (found ? found : Py_None) != value.ptr();
    }
  };
  struct Attribute {
    py::type type;
    py::object name, value;

    bool isOther() const {
      return _PyType_Lookup(reinterpret_cast<PyTypeObject *>(type.ptr()), name.ptr()) !=
             value.ptr();
    }
  };
  struct Typed {
    py::object object;
    py::type type;

    bool isOther() const { return !py::type::of(object).is(type); }
  };
  struct Listed {
    py::list list;
    py::tuple items;

    bool isOther() const {
      return !std::equal(items.begin(), items.end(), list.begin(), list.end(),
                         [](py::handle item, py::handle found) { return item.is(found); });
    }
  };
  struct Sized {
    py::dict dict;
    Py_ssize_t size;

    bool isOther() const { return PyDict_GET_SIZE(dict.ptr()) != size; }
  };
  struct Parameter {
    py::object tensor;
    Py_ssize_t hooks;
    bool requiresGrad;

    bool isOther() const {
      const at::Tensor &found = THPVariable_Unpack(tensor.ptr());
      return found.grad().defined() || found.requires_grad() != requiresGrad ||
             countHooks(tensor) != hooks;
    }
  };
  struct Count {
    py::object tensor;
    int64_t version;

    bool isOther() const { return THPVariable_Unpack(tensor.ptr())._version() != version; }
  };

  Watch() = default;

  static py::object checkTensor(py::handle value) {
    if (!THPVariable_Check(value.ptr()))
      throw cleave::python::Failure("expected a tensor, found a value of type " +
                                    std::string(py::str(py::type::of(value))));
    return py::reinterpret_borrow<py::object>(value);
  }

  static Py_ssize_t countHooks(py::handle tensor) {
    auto *variable = reinterpret_cast<THPVariable *>(tensor.ptr());
    Py_ssize_t count = 0;
    for (PyObject *hooks : {variable->backward_hooks, variable->post_accumulate_grad_hooks})
      if (hooks && hooks != Py_None)
        count += PyObject_Size(hooks);
    return count;
  }

  /// In the dicts' order, without a hash of the keys: those of tensors are computed in Python.
  bool hasOtherItems() const {
    auto expected = whole.begin();
    for (const py::dict &dict : dicts) {
      Py_ssize_t position = 0;
      PyObject *key, *value;
      while (PyDict_Next(dict.ptr(), &position, &key, &value)) {
        if (key != expected->key.ptr() || value != expected->value.ptr())
          return true;
        ++expected;
      }
    }
    return false;
  }

  std::vector<Entry> watched, whole;
  std::vector<Attribute> inherited;
  std::vector<Typed> typed;
  std::vector<Listed> listed;
  std::vector<Sized> sized;
  std::vector<py::dict> dicts;
  std::vector<Parameter> trained;
  std::vector<Count> counted;
};

/// Python's collector finds cycles through it: a model may have the step that trains it.
void collectGarbage(PyHeapTypeObject *heapType) {
  PyTypeObject &type = heapType->ht_type;
  type.tp_flags |= Py_TPFLAGS_HAVE_GC;
  type.tp_traverse = [](PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if (!py::detail::is_holder_constructed(self))
      return 0;
    return py::cast<Watch &>(py::handle(self)).visit(visit, arg);
  };
  type.tp_clear = [](PyObject *self) {
    if (py::detail::is_holder_constructed(self))
      py::cast<Watch &>(py::handle(self)).clear();
    return 0;
  };
}

} // namespace

void cleave::python::bindWatch(py::module_ &module) {
  py::class_<Watch>(module, "Watch", py::custom_type_setup(collectGarbage))
      .def(py::init<const py::list &, const py::list &, const py::list &, const py::list &,
                    const py::list &, const py::list &, const py::list &, const py::list &>(),
           py::arg("entries") = py::list(), py::arg("items") = py::list(),
           py::arg("lists") = py::list(), py::arg("tables") = py::list(),
           py::arg("attributes") = py::list(), py::arg("objects") = py::list(),
           py::arg("parameters") = py::list(), py::arg("counts") = py::list())
      .def("has_changed", &Watch::hasChanged)
      .def("count", &Watch::count, py::arg("steps"));
}
