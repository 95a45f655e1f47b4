//===- OpWork.cpp - seconds of any op -----------------------------------------===//

#include "lib/cost/OpWork.h"

#include <algorithm>

using namespace cleave::cost;

double cleave::cost::timeOf(const Cluster &cluster, const OpWork &op, const Group &group) {
  if (op.hostBytes > 0)
    return timeOfHostCopy(cluster.device, op.hostBytes);
  switch (op.kind) {
  case OpWork::Bytes:
    return timeOfBytes(cluster.device, op.bytes);
  case OpWork::Product:
    return timeOf(cluster.device, op.product);
  case OpWork::Attention:
    return std::max(attentionTime(cluster.device, op.flops, op.tiles, op.width, op.rate),
                    timeOfBytes(cluster.device, op.bytes));
  case OpWork::Communication:
    break;
  }
  if (group.size <= 1)
    return 0;
  if (op.collective == Collective::AllToAll && op.copies > 0)
    return exchangeTime(cluster, group, op.bytes, op.copies);
  return timeOf(cluster, op.collective, group, op.bytes);
}

double cleave::cost::flopsOf(const OpWork &op) {
  switch (op.kind) {
  case OpWork::Product:
    return op.product.flops();
  case OpWork::Attention:
    return op.flops / op.unmasked;
  default:
    return 0;
  }
}

double cleave::cost::sentBytes(const OpWork &op, const Group &group) {
  if (op.kind != OpWork::Communication || group.size <= 1)
    return 0;
  if (op.collective == Collective::Send)
    return op.bytes;
  double others = static_cast<double>(group.size - 1) / static_cast<double>(group.size);
  if (op.collective == Collective::AllToAll && op.copies > 0)
    return op.copies * op.bytes * others;
  return (op.collective == Collective::AllReduce ? 2 : 1) * op.bytes * others;
}
