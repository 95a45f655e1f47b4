//===- Arithmetic.cpp - sums, products, powers, elementary functions ---------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Activation.h"
#include "lib/kernels/program/ProgramBuilder.h"

using namespace mlir;
using namespace cleave;
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
  constexpr int64_t kMax = 16;
  if (!isWhole || std::abs(exponent) > kMax) {
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
  table.add<aten::AddOp>(addTensor<1>);
  table.add<aten::SubOp>(addTensor<-1>);
  table.add<aten::AddScalarOp>(addScalar);
  table.add<aten::SubScalarOp>(subScalar);
  table.add<aten::RsubScalarOp>(rsubScalar);
  table.add<aten::MulOp>(mulTensor);
  table.add<aten::MulScalarOp>(mulScalar);
  table.add<aten::DivOp>(divTensor);
  table.add<aten::DivScalarOp>(divScalar);
  table.add<aten::AddcmulOp>(addcmul);
  table.add<aten::PowTensorScalarOp>(powScalar);
  table.add<aten::SqrtOp>(unary<Function::Sqrt>);
  table.add<aten::RsqrtOp>(rsqrt);
  table.add<aten::ReciprocalOp>(reciprocal);
  table.add<aten::NegOp>(unary<Function::Neg>);
  table.add<aten::AbsOp>(unary<Function::Abs>);
  table.add<aten::ExpOp>(unary<Function::Exp>);
  table.add<aten::LogOp>(unary<Function::Log>);
  table.add<aten::Log1pOp>(unary<Function::Log1p>);
  table.add<aten::SinOp>(unary<Function::Sin>);
  table.add<aten::CosOp>(unary<Function::Cos>);
  table.add<aten::ErfOp>(unary<Function::Erf>);
  table.add<aten::TanhOp>(unary<Function::Tanh>);
}
