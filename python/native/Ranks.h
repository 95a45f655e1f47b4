//===- Ranks.h - the ranks of a Python process ----------------------*- C++ -*-===//

#ifndef CLEAVE_PYTHON_NATIVE_RANKS_H
#define CLEAVE_PYTHON_NATIVE_RANKS_H

#include "runtime/comm/Communicator.h"

#include <pybind11/pybind11.h>

#include <map>

namespace cleave::runtime {
class Device;
}

namespace cleave::python {

/// Ranks of the process group that Python has made.
class __attribute__((visibility("hidden"))) Ranks {
public:
  /// `makeGroup`: ranks of the group to the name of a new group of them.
  Ranks(const std::string &group, double timeout, pybind11::function makeGroup);
  /// Threads of process groups that end here may need the GIL, to return tensors of Python's.
  ~Ranks();

  int rank() const { return world->rank(); }
  int size() const { return world->size(); }
  /// For tensors on the processor.
  runtime::Communicator &communicator() { return *world; }
  /// For those on `device`, too; on the processor where that is null. All ranks call it together,
  /// without the GIL.
  llvm::Expected<runtime::Communicator *> communicator(const runtime::Device *device);

  /// Whether all ranks, which call it together, bring the same number.
  bool haveSame(int64_t number, const std::string &what);
  /// The texts of all ranks, which call it together.
  std::vector<std::string> gather(const std::string &text, const std::string &what);

private:
  llvm::Expected<std::string> callMakeGroup(llvm::ArrayRef<int> ranks);

  pybind11::function makeGroup;
  std::unique_ptr<runtime::Communicator> world;
  std::map<const runtime::Device *, std::unique_ptr<runtime::Communicator>> ofDevices;
};

} // namespace cleave::python

#endif // CLEAVE_PYTHON_NATIVE_RANKS_H
