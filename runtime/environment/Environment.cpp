//===- Environment.cpp - what a process runs on and with ---------------------===//

#include "runtime/environment/Environment.h"
#include "runtime/aten/Facade.h"
#include "runtime/environment/Version.h"
#include "runtime/kernels/CpuTarget.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <mutex>
#include <thread>

#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

using namespace cleave::runtime;
using llvm::StringRef;

namespace {
struct CurrentDevice {
  std::mutex mutex;
  DeviceDescription description;
};
} // namespace

static CurrentDevice &currentDevice() {
  static CurrentDevice device;
  return device;
}

void cleave::runtime::setDeviceDescription(DeviceDescription device) {
  CurrentDevice &current = currentDevice();
  std::lock_guard<std::mutex> lock(current.mutex);
  current.description = std::move(device);
}

static DeviceDescription getDeviceDescription() {
  CurrentDevice &current = currentDevice();
  std::lock_guard<std::mutex> lock(current.mutex);
  return current.description;
}

bool cleave::runtime::usesProcessor() {
  return getDeviceDescription().kind == "cpu";
}

/// A file's text, empty if it cannot be read. Files of /proc do not say how long they are.
static std::string readText(const llvm::Twine &path) {
  auto buffer = llvm::MemoryBuffer::getFileAsStream(path);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

/// What follows `key` in the first line that begins with it, without what `stripped` has at its
/// ends.
static std::string findLine(StringRef text, StringRef key, StringRef stripped) {
  for (StringRef line : llvm::split(text, '\n'))
    if (line.consume_front(key))
      return line.trim(stripped).str();
  return "";
}

std::string cleave::runtime::getTorchDirectory() {
  // The address of a function of libtorch_cpu; it is not called.
  Dl_info info;
  if (!::dladdr(reinterpret_cast<void *>(&at::get_cpu_capability), &info) || !info.dli_fname)
    return "";
  llvm::SmallString<256> path(info.dli_fname);
  llvm::sys::path::remove_filename(path);
  return path.str().str();
}

std::string cleave::runtime::getTorchVersion() {
  std::string directory = getTorchDirectory();
  // The wheel's package, and the archive for C++.
  std::string wheel = findLine(readText(directory + "/../version.py"), "__version__", " =:'\"\r\t");
  if (!wheel.empty())
    return wheel;
  std::string archive = StringRef(readText(directory + "/../build-version")).trim().str();
  return archive.empty() ? TORCH_VERSION : archive;
}

llvm::Error cleave::runtime::checkTorchVersion(StringRef compiled, StringRef loaded,
                                               StringRef directory) {
  auto release = [](StringRef version) {
    auto [major, rest] = version.split('.');
    return std::pair(major, rest.split('.').first);
  };
  if (release(compiled) == release(loaded))
    return llvm::Error::success();
  return llvm::createStringError(
      "expected LibTorch %s, the version that this Cleave was built with, found %s "
      "in %s",
      compiled.str().c_str(), loaded.str().c_str(), directory.str().c_str());
}

llvm::Error cleave::runtime::checkTorchVersion() {
  return checkTorchVersion(TORCH_VERSION, getTorchVersion(), getTorchDirectory());
}

static std::string getProcessor() {
  return findLine(readText("/proc/cpuinfo"), "model name", " \t:");
}

std::string cleave::runtime::getHostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::vector<EnvironmentFact> cleave::runtime::getEnvironment() {
  using enum EnvironmentFact::Weight;
  DeviceDescription device = getDeviceDescription();
  std::vector<EnvironmentFact> facts = {
      {"Cleave", getVersion().str(), Required},
      {"LibTorch", getTorchVersion(), Required},
      {"device", device.kind, Required},
      {"processor instructions of LibTorch", at::get_cpu_capability(), DecidesBits},
      {"processor", getProcessor(), Informs},
      {"threads of an op", std::to_string(at::get_num_threads()), DecidesBits},
  };
  // oneDNN chooses its own instructions.
  if (const char *isa = std::getenv("ONEDNN_MAX_CPU_ISA"))
    facts.push_back({"ONEDNN_MAX_CPU_ISA", isa, DecidesBits});
  if (!device.chip.empty())
    facts.push_back({"chip", device.chip, DecidesBits});
  if (!device.communication.empty())
    facts.push_back({"communication library", device.communication, Required});
  if (!device.neural.empty())
    facts.push_back({"neural network library", device.neural, DecidesBits});
  if (!device.driver.empty())
    facts.push_back({"driver", device.driver, Informs});
  return facts;
}

/// Variables that decide where ranks are, what they see and how they communicate.
static constexpr StringRef kPrefixes[] = {
    "MASTER_",       "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "RANK",
    "TORCHELASTIC_", "SLURM_",     "OMPI_COMM_WORLD_", "GLOO_",      "NCCL_",
    "TORCH_NCCL_",   "CUDA_",      "NVIDIA_",          "OMP_",       "MKL_",
    "ONEDNN_",       "ATEN_",      "CLEAVE_",          "PYTORCH_",   "LD_LIBRARY_PATH"};

std::string cleave::runtime::describeEnvironment() {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto print = [&](StringRef name, StringRef value) {
    os << llvm::left_justify(name, 36) << "  " << (value.empty() ? "-" : value) << "\n";
  };
  for (const EnvironmentFact &fact : getEnvironment())
    print(fact.name, fact.value);
  print("instructions for compiled kernels", getBestCpuTarget());
  print("LibTorch's libraries", getTorchDirectory());
  print("cores", std::to_string(std::thread::hardware_concurrency()));
  print("host", getHostName());
  struct utsname system;
  if (::uname(&system) == 0)
    print("system", std::string(system.sysname) + " " + system.release + " " + system.machine);
  // Without asking a driver: also where there is a GPU that nothing can use.
  std::string driver = findLine(readText("/proc/driver/nvidia/version"), "NVRM version:", " \t");
  print("NVIDIA kernel driver", driver);
  std::vector<StringRef> variables;
  for (char **entry = environ; *entry; ++entry)
    for (StringRef prefix : kPrefixes)
      if (StringRef(*entry).starts_with(prefix)) {
        variables.push_back(*entry);
        break;
      }
  llvm::sort(variables);
  os << "variables\n";
  for (StringRef variable : variables)
    os << "  " << variable << "\n";
  if (variables.empty())
    os << "  none of a launcher, a library or Cleave\n";
  return text;
}
