//===- Arithmetic.cpp - sums, products, powers, elementary functions ---------===//

#include "lib/kernels/program/ProgramBuilder.h"

using namespace mlir;
using namespace cleave::kernels;

/// `self + alpha * other`, `sign` being that of the second term.
template <int sign> static LogicalResult addTensor(OpDecomposer &d) {
  NodeId self = d.operand(0, d.type()), other = d.operand(1, d.type());
  if (d.has("alpha") && d.number("alpha") != 1)
    other = d.b.mul(other, d.scalar("alpha", d.type(), 1));
  return d.result(sign > 0 ? d.b.add(self, other) : d.b.sub(self, other));
}

static NodeId scaledNumber(OpDecomposer &d) {
  NodeId other = d.scalar("other", d.type());
  if (!d.has("alpha") || d.number("alpha") == 1)
    return other;
  if (isFloat(d.type()))
    return d.b.constant(d.type(), d.number("other") * d.number("alpha"));
  return d.b.mul(other, d.scalar("alpha", d.type(), 1));
}

static LogicalResult addScalar(OpDecomposer &d) {
  return d.result(d.b.add(d.operand(0, d.type()), scaledNumber(d)));
}

static LogicalResult subScalar(OpDecomposer &d) {
  return d.result(d.b.sub(d.operand(0, d.type()), scaledNumber(d)));
}

static LogicalResult rsubScalar(OpDecomposer &d) {
  NodeId self = d.operand(0, d.type());
  if (d.has("alpha") && d.number("alpha") != 1)
    self = d.b.mul(self, d.scalar("alpha", d.type(), 1));
  return d.result(d.b.sub(d.scalar("other", d.type()), self));
}

/// Products of truth values are conjunctions.
static NodeId multiply(OpDecomposer &d, NodeId a, NodeId b) {
  return d.type() == ComputeType::I1 ? d.b.map(Function::And, {a, b}) : d.b.mul(a, b);
}

static LogicalResult mulTensor(OpDecomposer &d) {
  return d.result(multiply(d, d.operand(0, d.type()), d.operand(1, d.type())));
}

static LogicalResult mulScalar(OpDecomposer &d) {
  return d.result(multiply(d, d.operand(0, d.type()), d.scalar("other", d.type())));
}

static LogicalResult divTensor(OpDecomposer &d) {
  return d.result(d.b.div(d.operand(0, d.type()), d.operand(1, d.type())));
}

static LogicalResult divScalar(OpDecomposer &d) {
  // As PyTorch does on the CPU: a product would differ in the last bit.
  return d.result(d.b.div(d.operand(0, d.type()), d.scalar("other", d.type())));
}

static LogicalResult addcmul(OpDecomposer &d) {
  NodeId product = d.operand(1, d.type());
  if (d.has("value") && d.number("value") != 1)
    product = d.b.mul(d.scalar("value", d.type(), 1), product);
  return d.result(d.b.add(d.operand(0, d.type()), d.b.mul(product, d.operand(2, d.type()))));
}

/// The powers that PyTorch computes by other means are computed so here; other whole ones by
/// squaring, what is left by `pow`.
static LogicalResult powScalar(OpDecomposer &d) {
  NodeId self = d.operand(0, d.type());
  double exponent = d.number("exponent");
  ProgramBuilder &b = d.b;
  bool isWhole = exponent == static_cast<int64_t>(exponent);
  if (!isFloat(d.type()) && (!isWhole || exponent < 0))
    return d.refuse("has an exponent that integers do not support");
  if (exponent == 0.5)
    return d.result(b.map(Function::Sqrt, {self}));
  if (exponent == -0.5)
    return d.result(b.div(1.0, b.map(Function::Sqrt, {self})));
  constexpr int64_t kMost = 16;
  if (!isWhole || std::abs(exponent) > kMost) {
    if (!isFloat(d.type()))
      return d.refuse("has an exponent that integers do not support");
    return d.result(b.map(Function::Pow, {self, b.constant(d.type(), exponent)}));
  }
  std::optional<NodeId> product;
  NodeId square = self;
  for (auto left = static_cast<int64_t>(std::abs(exponent)); left; left >>= 1) {
    if (left & 1)
      product = product ? b.mul(*product, square) : square;
    if (left > 1)
      square = b.mul(square, square);
  }
  if (!product)
    product = b.constant(d.type(), 1);
  return d.result(exponent < 0 ? b.div(1.0, *product) : *product);
}

template <Function function> static LogicalResult unary(OpDecomposer &d) {
  return d.result(d.b.map(function, {d.operand(0, d.type())}));
}

static LogicalResult rsqrt(OpDecomposer &d) {
  return d.result(d.b.div(1.0, d.b.map(Function::Sqrt, {d.operand(0, d.type())})));
}

static LogicalResult reciprocal(OpDecomposer &d) {
  return d.result(d.b.div(1.0, d.operand(0, d.type())));
}

void cleave::kernels::addArithmetic(DecompositionTable &table) {
  table["aten.add"] = addTensor<1>;
  table["aten.sub"] = addTensor<-1>;
  table["aten.add_scalar"] = addScalar;
  table["aten.sub_scalar"] = subScalar;
  table["aten.rsub_scalar"] = rsubScalar;
  table["aten.mul"] = mulTensor;
  table["aten.mul_scalar"] = mulScalar;
  table["aten.div"] = divTensor;
  table["aten.div_scalar"] = divScalar;
  table["aten.addcmul"] = addcmul;
  table["aten.pow_tensor_scalar"] = powScalar;
  table["aten.sqrt"] = unary<Function::Sqrt>;
  table["aten.rsqrt"] = rsqrt;
  table["aten.reciprocal"] = reciprocal;
  table["aten.neg"] = unary<Function::Neg>;
  table["aten.abs"] = unary<Function::Abs>;
  table["aten.exp"] = unary<Function::Exp>;
  table["aten.log"] = unary<Function::Log>;
  table["aten.log1p"] = unary<Function::Log1p>;
  table["aten.sin"] = unary<Function::Sin>;
  table["aten.cos"] = unary<Function::Cos>;
  table["aten.erf"] = unary<Function::Erf>;
  table["aten.tanh"] = unary<Function::Tanh>;
}
