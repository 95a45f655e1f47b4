//===- Installed.cpp - the descriptions that come with the tools --------------===//

#include "lib/cost/Installed.h"
#include "lib/support/Error.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace cleave;

std::string cost::findBeside(llvm::StringRef installed, llvm::StringRef inSources) {
  static int anchor;
  llvm::SmallString<256> tool(llvm::sys::fs::getMainExecutable(nullptr, &anchor));
  llvm::sys::path::remove_filename(tool);
  for (llvm::StringRef relative : {installed, inSources}) {
    llvm::SmallString<256> path(tool);
    llvm::sys::path::append(path, relative);
    llvm::sys::path::remove_dots(path, true);
    if (llvm::sys::fs::exists(path))
      return path.str().str();
  }
  return "";
}

std::string cost::findDevices() {
  return findBeside("../share/cleave/devices", "../../examples/devices");
}

llvm::Expected<cost::Cluster> cost::readNamedCluster(llvm::StringRef fileOrName,
                                                     llvm::StringRef folder) {
  if (llvm::sys::fs::exists(fileOrName))
    return Library::readCluster(fileOrName);
  if (fileOrName.ends_with(".json"))
    return makeError("{0}: No such file or directory", fileOrName);
  std::string devices = folder.empty() ? findDevices() : folder.str();
  if (devices.empty())
    return makeError("--cluster: expected --devices=FOLDER, which has a cluster named '{0}'",
                     fileOrName);
  auto library = Library::read(devices);
  if (!library)
    return library.takeError();
  return library->findNamed(fileOrName, "--cluster");
}
