//===- CommunicationWork.cpp - what an op communicates, and with whom ---------===//

#include "lib/aten/CommunicationWork.h"

using namespace mlir;
using namespace cleave;

/// The collective by whose algorithm an op communicates, and the bytes that are meant by it (see
/// lib/cost/CollectiveTime.h), from what the busiest of `ranks` ranks sends.
static std::pair<cost::Collective, double> describeCollective(Operation *op, double sent,
                                                              double ranks) {
  double whole = ranks > 1 ? sent * ranks / (ranks - 1) : 0;
  if (isa<dist::AllToAllOp, dist::RaggedAllToAllOp>(op))
    return {cost::Collective::AllToAll, whole};
  if (isa<dist::AllGatherOp, dist::GatherOp, dist::BroadcastOp, dist::FakeGatherOp>(op))
    return {cost::Collective::AllGather, whole};
  if (isa<dist::ReduceScatterOp, dist::ReduceOp, dist::ScatterOp>(op))
    return {cost::Collective::ReduceScatter, whole};
  if (isa<dist::AllReduceOp, dist::FakeReduceOp>(op))
    return {cost::Collective::AllReduce, whole / 2};
  return {cost::Collective::Send, sent};
}

cost::OpWork cleave::aten::describeCommunication(dist::CommunicationOpInterface op, int64_t ranks) {
  cost::OpWork work;
  work.kind = cost::OpWork::Communication;
  std::tie(work.collective, work.bytes) =
      describeCollective(op, double(op.getBytesSent(ranks)), double(ranks));
  return work;
}

cleave::aten::MeshRanks::MeshRanks(dist::MeshOp op,
                                   llvm::function_ref<int64_t(StringRef axis)> sizeOf) {
  if (!op)
    return;
  for (auto axis : op.getAxes().getAsRange<dist::AxisAttr>()) {
    int64_t size = axis.getSize() ? axis.getSize() : sizeOf(axis.getName());
    axes.push_back({axis.getName().str(), size});
  }
}

cost::Group cleave::aten::MeshRanks::find(ArrayAttr names) const {
  cost::Group group{1, 0};
  int64_t stride = 1;
  for (const auto &[name, size] : llvm::reverse(axes)) {
    for (StringAttr each : names.getAsRange<StringAttr>())
      if (each.getValue() == name) {
        group.size *= size;
        group.stride = group.stride ? group.stride : stride;
      }
    stride *= std::max<int64_t>(size, 1);
  }
  group.stride = std::max<int64_t>(group.stride, 1);
  return group;
}
