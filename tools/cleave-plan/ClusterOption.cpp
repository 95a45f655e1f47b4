// What is asked of the cluster.
#include "tools/cleave-plan/ClusterOption.h"

#include "lib/support/Bytes.h"
#include "lib/support/Error.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace cleave;

/// The descriptions that are installed with the tool, or lie in the sources that it was built from.
static std::string findDevices() {
  static int anchor;
  llvm::SmallString<256> tool(llvm::sys::fs::getMainExecutable(nullptr, &anchor));
  llvm::sys::path::remove_filename(tool);
  for (llvm::StringRef relative : {"../share/cleave/devices", "../../examples/devices"}) {
    llvm::SmallString<256> path(tool);
    llvm::sys::path::append(path, relative);
    llvm::sys::path::remove_dots(path, true);
    if (llvm::sys::fs::exists(path))
      return path.str().str();
  }
  return "";
}

llvm::Expected<cost::Cluster> plan::readCluster(llvm::StringRef fileOrName,
                                                llvm::StringRef folder) {
  if (llvm::sys::fs::exists(fileOrName))
    return cost::Library::readCluster(fileOrName);
  if (fileOrName.ends_with(".json"))
    return makeError("{0}: No such file or directory", fileOrName);
  std::string devices = folder.empty() ? findDevices() : folder.str();
  if (devices.empty())
    return makeError("--cluster: expected --devices=FOLDER, which has a cluster named '{0}'",
                     fileOrName);
  auto library = cost::Library::read(devices);
  if (!library)
    return library.takeError();
  return library->findNamed(fileOrName, "--cluster");
}

llvm::Expected<double> plan::readMemory(llvm::StringRef text, const cost::Cluster &cluster) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  std::optional<double> bytes = support::parseBytes(text);
  if (!bytes)
    return makeError("--memory: expected bytes above 0, such as 80GiB or 80e9, found '{0}'", text);
  if (*bytes > cluster.device.memory)
    return makeError("--memory: expected at most the {0:F2} GiB of device {1}, found {2:F2} GiB",
                     cluster.device.memory / gib, cluster.device.name, *bytes / gib);
  return *bytes;
}
