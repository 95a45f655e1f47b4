//===- Installed.h - the descriptions that come with the tools ------*- C++ -*-===//

#ifndef CLEAVE_LIB_COST_INSTALLED_H
#define CLEAVE_LIB_COST_INSTALLED_H

#include "lib/cost/Cluster.h"

namespace cleave::cost {

/// Something that is installed with the running tool, or lies in the sources that it was built
/// from; empty if it is in neither. Both paths are relative to the tool's folder.
std::string findBeside(llvm::StringRef installed, llvm::StringRef inSources);

/// The folder of devices, links and clusters that comes with the tool; empty if there is none.
std::string findDevices();

/// The cluster of an option `--cluster`: a file that describes it, or the name of a cluster or a
/// device in `folder`, or in that of `findDevices` if it is empty.
llvm::Expected<Cluster> readNamedCluster(llvm::StringRef fileOrName, llvm::StringRef folder);

} // namespace cleave::cost

#endif // CLEAVE_LIB_COST_INSTALLED_H
