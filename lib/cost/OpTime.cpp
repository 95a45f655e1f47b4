//===- OpTime.cpp - tiles, waves and bytes ------------------------------------===//

#include "lib/cost/OpTime.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace cleave::cost;

/// Tile sizes of the usual kernels. A small tile loads more operands for each product: its rate is
/// that part of the largest tile's.
static constexpr struct {
  double m, n, rate;
} tiles[] = {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.97}, {256, 64, 0.9},
             {64, 256, 0.9},  {128, 64, 0.85}, {64, 128, 0.85},  {64, 64, 0.65}};

double MatrixProduct::bytes() const {
  double operand = width == Width::Bits32   ? 4
                   : width == Width::Bits16 ? 2
                   : width == Width::Bits8  ? 1
                                            : 0.5;
  double result = added > 0 ? 2 * added : std::max(operand, 2.0);
  return batch * (operand * (m * k + k * n) + result * m * n);
}

double cleave::cost::reachedFlops(const Device &device, Width width) {
  if (width == Width::Bits32)
    return device.flops32 * device.matrixEfficiency16;
  if (width == Width::Bits4 && device.flops4 > 0)
    return device.flops4 * device.matrixEfficiency4;
  if (width != Width::Bits16 && device.flops8 > 0)
    return device.flops8 * device.matrixEfficiency8;
  return device.flops16 * device.matrixEfficiency16;
}

double cleave::cost::timeOf(const Device &device, const MatrixProduct &product) {
  if (!(product.flops() > 0))
    return 0;
  if (device.processors == 0)
    return std::max(product.flops() / reachedFlops(device, product.width),
                    timeOfBytes(device, product.bytes()));
  double rate = reachedFlops(device, product.width) / device.processors;
  double best = std::numeric_limits<double>::infinity();
  for (const auto &tile : tiles) {
    double count = product.batch * std::ceil(product.m / tile.m) * std::ceil(product.n / tile.n);
    for (double split = 1; split <= 8; split *= 2) {
      double depth = product.k / split;
      if (split > 1 && (depth < 512 || count * split > device.processors))
        break;
      // Partial sums are written and read once more in 32 bits.
      double extra =
          split > 1 ? timeOfBytes(device, 8 * split * product.batch * product.m * product.n) : 0;
      double seconds = std::ceil(count * split / device.processors) * 2 * tile.m * tile.n *
                           (depth + device.depthOverhead) / (rate * tile.rate) +
                       extra;
      best = std::min(best, seconds);
    }
  }
  return std::max(best, timeOfBytes(device, product.bytes()));
}

double cleave::cost::attentionTime(const Device &device, double flops, double tiles, Width width,
                                   double rate) {
  double peak = width == Width::Bits32 ? device.flops32 : device.flops16;
  double idle = 1;
  if (tiles > 0 && device.processors > 0) {
    double waves = std::ceil(tiles / device.processors);
    // Blocks of different length fill a long run's last wave: only a short one leaves idle
    // processors.
    if (waves <= 4)
      idle = waves * device.processors / tiles;
  }
  if (device.processors == 0)
    rate = 1;
  return flops * idle / (peak * device.attentionEfficiency * rate);
}

double cleave::cost::rateOfHeads(double depth, bool isBackward) {
  constexpr double kUsual = 128;
  // The depth of a head whose products take as long as its softmax.
  double softmax = isBackward ? 32 : 128;
  return std::min(1.0, (1 + softmax / kUsual) / (1 + softmax / depth));
}

double cleave::cost::timeOfBytes(const Device &device, double bytes) {
  return bytes / (device.memoryBandwidth * device.memoryEfficiency);
}

double cleave::cost::timeOfLaunched(double busy, double host) {
  double longer = std::max(busy, host);
  if (longer <= 0)
    return 0;
  // Neither hides the other entirely: long kernels stand beside short ones, and the queue between
  // host and device runs empty at times. Where both take as long, that is a fifth more.
  double ratio = std::min(busy, host) / longer;
  return longer * std::pow(1 + std::pow(ratio, 4), 0.25);
}
