//===- CommunicationWork.h - what an op communicates, and with whom -*- C++ -*-===//

#ifndef CLEAVE_LIB_ATEN_COMMUNICATIONWORK_H
#define CLEAVE_LIB_ATEN_COMMUNICATIONWORK_H

#include "dialects/dist/Dist.h"
#include "lib/cost/OpWork.h"

namespace cleave::aten {

/// A communication among so many ranks.
cost::OpWork describeCommunication(dist::CommunicationOpInterface op, int64_t ranks);

/// The ranks of a mesh, if there is one: those along an axis that is listed later lie side by side.
class MeshRanks {
public:
  /// `sizeOf` says how many ranks lie along an axis of size `?`; 0 where that is not known.
  MeshRanks(dist::MeshOp op, llvm::function_ref<int64_t(llvm::StringRef axis)> sizeOf);

  /// The ranks along these axes: so many, so far apart. Of axes that do not lie side by side, the
  /// distance along the innermost counts. Size 0 where one is not known.
  cost::Group find(mlir::ArrayAttr names) const;

  using Axis = std::pair<std::string, int64_t>;
  /// With their sizes; 0 where one is not known.
  llvm::ArrayRef<Axis> getAxes() const { return axes; }

private:
  std::vector<Axis> axes;
};

} // namespace cleave::aten

#endif // CLEAVE_LIB_ATEN_COMMUNICATIONWORK_H
