//===- LayerClass.cpp - seconds of a pass -------------------------------------===//

#include "lib/predict/LayerClass.h"

#include <algorithm>
#include <numeric>

using namespace cleave;
using namespace cleave::predict;

llvm::StringRef predict::getName(Axis axis) {
  static constexpr llvm::StringLiteral names[numAxes] = {"tp", "cp", "ep", "dp"};
  return names[size_t(axis)];
}

static void append(Pass &pass, const Pass &other) {
  pass.insert(pass.end(), other.begin(), other.end());
}

void LayerClass::append(const LayerClass &other) {
  ::append(forward, other.forward);
  ::append(backward, other.backward);
  ::append(again, other.again);
  parameters += other.parameters;
  expertParameters += other.expertParameters;
  savedBytes += other.savedBytes;
  inputBytes += other.inputBytes;
  savedWithoutAgain += other.savedWithoutAgain;
}

double PassTime::seconds() const {
  double busy = std::accumulate(exposed.begin(), exposed.end(), compute);
  return cost::timeOfLaunched(busy, host);
}

PassTime &PassTime::operator+=(const PassTime &other) {
  compute += other.compute;
  host += other.host;
  flops += other.flops;
  for (size_t i = 0; i < numAxes; ++i) {
    exposed[i] += other.exposed[i];
    sent[i] += other.sent[i];
  }
  return *this;
}

PassTime PassTime::scaled(double factor) const {
  PassTime result = *this;
  result.compute *= factor;
  result.host *= factor;
  result.flops *= factor;
  for (size_t i = 0; i < numAxes; ++i) {
    result.exposed[i] *= factor;
    result.sent[i] *= factor;
  }
  return result;
}

/// What a launch from a library's loop costs the host, as a part of one from the framework: some 9
/// of 74 microseconds. Grouped products take a Grace host as long for each expert (Transformer
/// Engine's issue 2897).
static constexpr double loopLaunch = 0.125;

PassTime predict::timeOf(const cost::Cluster &cluster, const Groups &groups, const Pass &pass,
                         const Terms &terms, bool graphs) {
  const cost::Device &device = cluster.device;
  PassTime result;
  std::array<double, numAxes> hidden = {};
  for (const LayerOp &op : pass) {
    result.flops += cost::flopsOf(op);
    result.sent[size_t(op.axis)] += cost::sentBytes(op, groups[size_t(op.axis)]);
    if (op.kind == LayerOp::Communication) {
      const cost::Group &group = groups[size_t(op.axis)];
      double seconds = cost::timeOf(cluster, op, group);
      hidden[size_t(op.axis)] += op.overlap * seconds;
      result.exposed[size_t(op.axis)] += (1 - op.overlap) * seconds;
      if (group.size <= 1)
        continue;
    } else if (op.kind == LayerOp::Product) {
      cost::MatrixProduct part = op.product;
      part.batch /= op.loops;
      result.compute += terms.tiles
                            ? op.loops * cost::timeOf(device, part)
                            : op.product.flops() / cost::reachedFlops(device, op.product.width);
    } else if (op.kind == LayerOp::Attention) {
      result.compute +=
          cost::attentionTime(device, op.flops, terms.tiles ? op.tiles : 0, op.width, op.rate);
    } else if (terms.bytes) {
      result.compute += cost::timeOfBytes(device, op.bytes);
    }
    if (terms.launches) {
      double launches = op.kernels + (op.loops - 1) * loopLaunch;
      result.compute += (op.kernels + op.loops - 1 + op.parts) * device.kernelSeconds;
      if (!graphs)
        result.compute += op.waits * device.hostSeconds;
      if (!graphs && !op.replayed)
        result.host += op.launchCost * launches * device.hostSeconds;
    }
  }
  // What may run beside the computation does so until there is none left.
  double room = result.compute;
  for (size_t i = 0; i < numAxes; ++i) {
    double covered = std::min(hidden[i], room);
    room -= covered;
    result.exposed[i] += hidden[i] - covered;
    if (terms.contention)
      result.compute += covered * device.overlapSlowdown;
  }
  return result;
}
