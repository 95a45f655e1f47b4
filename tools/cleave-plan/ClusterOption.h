//===- ClusterOption.h - the cluster that a plan is for -------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_CLUSTEROPTION_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_CLUSTEROPTION_H

#include "lib/cost/Cluster.h"

namespace cleave::plan {

/// A file that describes a cluster, or a cluster or device in the folder of devices (that of the
/// installation, or of the sources, where `folder` is empty).
llvm::Expected<cost::Cluster> readCluster(llvm::StringRef fileOrName, llvm::StringRef folder);

/// "80GiB", "80e9": bytes of a device, at most those that it has.
llvm::Expected<double> readMemory(llvm::StringRef text, const cost::Cluster &cluster);

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_CLUSTEROPTION_H
