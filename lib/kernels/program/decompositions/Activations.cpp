//===- Activations.cpp - activation functions and their gradients -----------===//
//
// The formulas are those of PyTorch's CPU kernels (aten/src/ATen/native/cpu/Activation.cpp).
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Activation.h"
#include "lib/kernels/program/ProgramBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

namespace {
constexpr double kSqrtHalf = 0.70710678118654752440;
/// sqrt(2 / pi), and the coefficient of the cubic term.
constexpr double kBeta = 0.79788456080286535588;
constexpr double kKappa = 0.044715;
} // namespace

static NodeId sigmoidOf(ProgramBuilder &b, NodeId x) {
  return b.div(1.0, b.add(b.exp(b.neg(x)), 1.0));
}

/// (1 + erf(x / sqrt(2))) / 2
static NodeId normalDistribution(ProgramBuilder &b, NodeId x) {
  return b.mul(b.add(b.map(Function::Erf, {b.mul(x, kSqrtHalf)}), 1.0), 0.5);
}

static bool isTanh(OpDecomposer &d) {
  auto approximate = d.op->getAttrOfType<StringAttr>("approximate");
  return approximate && approximate.getValue() == "tanh";
}

static NodeId tanhOfCubic(ProgramBuilder &b, NodeId x) {
  NodeId cube = b.mul(b.mul(x, x), x);
  return b.map(Function::Tanh, {b.mul(b.add(x, b.mul(cube, kKappa)), kBeta)});
}

static LogicalResult gelu(OpDecomposer &d) {
  NodeId x = d.operand(0, d.type());
  ProgramBuilder &b = d.b;
  if (isTanh(d))
    return d.result(b.mul(b.mul(x, 0.5), b.add(tanhOfCubic(b, x), 1.0)));
  return d.result(b.mul(x, normalDistribution(b, x)));
}

static LogicalResult geluBackward(OpDecomposer &d) {
  NodeId gradient = d.operand(0, d.type()), x = d.operand(1, d.type());
  ProgramBuilder &b = d.b;
  NodeId square = b.mul(x, x);
  if (isTanh(d)) {
    NodeId t = tanhOfCubic(b, x);
    NodeId left = b.mul(b.add(t, 1.0), 0.5);
    NodeId inner = b.mul(b.add(b.mul(square, 3 * kKappa), 1.0), kBeta);
    NodeId right = b.mul(b.mul(b.mul(x, 0.5), b.sub(1.0, b.mul(t, t))), inner);
    return d.result(b.mul(gradient, b.add(left, right)));
  }
  // The density of the normal distribution: exp(-x^2 / 2) / sqrt(2 pi).
  NodeId density = b.mul(b.exp(b.mul(square, -0.5)), kBeta * 0.5);
  return d.result(b.mul(gradient, b.add(normalDistribution(b, x), b.mul(x, density))));
}

static LogicalResult silu(OpDecomposer &d) {
  NodeId x = d.operand(0, d.type());
  return d.result(d.b.div(x, d.b.add(d.b.exp(d.b.neg(x)), 1.0)));
}

static LogicalResult siluBackward(OpDecomposer &d) {
  NodeId gradient = d.operand(0, d.type()), x = d.operand(1, d.type());
  ProgramBuilder &b = d.b;
  NodeId s = sigmoidOf(b, x);
  return d.result(b.mul(b.mul(gradient, s), b.add(b.mul(x, b.sub(1.0, s)), 1.0)));
}

static LogicalResult sigmoid(OpDecomposer &d) {
  return d.result(sigmoidOf(d.b, d.operand(0, d.type())));
}

static LogicalResult sigmoidBackward(OpDecomposer &d) {
  NodeId gradient = d.operand(0, d.type()), y = d.operand(1, d.type());
  return d.result(d.b.mul(gradient, d.b.mul(d.b.sub(1.0, y), y)));
}

static LogicalResult tanhBackward(OpDecomposer &d) {
  NodeId gradient = d.operand(0, d.type()), y = d.operand(1, d.type());
  return d.result(d.b.mul(gradient, d.b.sub(1.0, d.b.mul(y, y))));
}

/// A NaN stays one.
static LogicalResult relu(OpDecomposer &d) {
  NodeId x = d.operand(0, d.type()), zero = d.b.constant(d.type(), 0);
  return d.result(d.b.select(d.b.map(Function::Less, {x, zero}), zero, x));
}

static LogicalResult thresholdBackward(OpDecomposer &d) {
  NodeId gradient = d.operand(0, d.type()), x = d.operand(1, d.type());
  NodeId below = d.b.map(Function::LessEqual, {x, d.scalar("threshold", d.type())});
  return d.result(d.b.select(below, d.b.constant(d.type(), 0), gradient));
}

void cleave::kernels::addActivations(DecompositionTable &table) {
  table.add<aten::GeluOp>(gelu);
  table.add<aten::GeluBackwardOp>(geluBackward);
  table.add<aten::SiluOp>(silu);
  table.add<aten::SiluBackwardOp>(siluBackward);
  table.add<aten::SigmoidOp>(sigmoid);
  table.add<aten::SigmoidBackwardOp>(sigmoidBackward);
  table.add<aten::TanhBackwardOp>(tanhBackward);
  table.add<aten::ReluOp>(relu);
  table.add<aten::ThresholdBackwardOp>(thresholdBackward);
}
