//===- Random.cpp - random ops, with PyTorch's generator --------------------===//
//
// What each op draws, and how many numbers, is in `docs/random.md`.
//
//===----------------------------------------------------------------------===//

#include "runtime/exec/RandomInstruction.h"
#include "runtime/exec/RandomPhilox.h"

#include <ATen/ops/bernoulli.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>

using namespace mlir;
using namespace cleave::runtime;

namespace {
/// Draws of a tensor's elements where 64-bit elements take two: uniform numbers and the like.
uint64_t drawsPerWidth(const at::Tensor &tensor) {
  return tensor.numel() * (tensor.scalar_type() == at::kDouble ? 2 : 1);
}

class NativeDropout : public RandomInstruction {
public:
  double p = 0;
  bool isTraining = true;

  void execute(Frame &frame) override {
    at::Generator &gen = generator(frame);
    at::Tensor x = like.tensor(frame);
    if (!isTraining) {
      results[1].write(frame, at::ones_like(x, at::TensorOptions().dtype(at::kBool)));
      results[0].write(frame, x.clone());
      return;
    }
    at::Tensor mask = device->fromHost(hostLike(x, at::kBool).bernoulli_(1.0 - p, gen));
    stream->advance(2 * x.numel());
    // Eager's noise tensor of x's type is divided by 1 - p: so the scale is rounded to that type.
    at::Scalar scale = 0.0;
    if (p < 1.0)
      scale = at::ones({}, at::TensorOptions().dtype(x.scalar_type())).div_(1.0 - p).item();
    at::Tensor y = x.mul(mask).mul_(scale);
    results[0].write(frame, std::move(y));
    results[1].write(frame, std::move(mask));
  }
};

class Bernoulli : public RandomInstruction {
public:
  /// Absent: `like` holds the probabilities.
  std::optional<double> p;

  void execute(Frame &frame) override {
    at::Generator &gen = generator(frame);
    at::Tensor x = like.tensor(frame);
    at::Tensor result;
    if (p) {
      result = at::bernoulli(device->isHost() ? x : hostLike(x), *p, gen);
      stream->advance(2 * x.numel());
    } else {
      result = hostLike(x).bernoulli_(device->toHost(x), gen);
      stream->advance(drawsPerWidth(x));
    }
    results[0].write(frame, device->fromHost(result));
  }
};

class Uniform : public RandomInstruction {
public:
  double from = 0, to = 1;

  void execute(Frame &frame) override {
    at::Generator &gen = generator(frame);
    at::Tensor result = hostLike(like.tensor(frame)).uniform_(from, to, gen);
    stream->advance(drawsPerWidth(result));
    results[0].write(frame, device->fromHost(result));
  }
};

class Normal : public RandomInstruction {
public:
  double mean = 0, deviation = 1;

  void execute(Frame &frame) override {
    at::Generator &gen = generator(frame);
    at::Tensor result = hostLike(like.tensor(frame)).normal_(mean, deviation, gen);
    stream->advance(draws(result));
    results[0].write(frame, device->fromHost(result));
  }

private:
  static uint64_t draws(const at::Tensor &result) {
    uint64_t n = result.numel();
    if (n < 16 || !result.is_contiguous())
      return 2 * n;
    uint64_t numbers = n + (n % 16 ? 16 : 0);
    return result.scalar_type() == at::kDouble ? 2 * numbers : numbers;
  }
};

class Exponential : public RandomInstruction {
public:
  double rate = 1;

  void execute(Frame &frame) override {
    at::Generator &gen = generator(frame);
    at::Tensor result = hostLike(like.tensor(frame)).exponential_(rate, gen);
    stream->advance(2 * result.numel());
    results[0].write(frame, device->fromHost(result));
  }
};
} // namespace

BindResult cleave::runtime::bindRngNativeDropout(Binder &binder, ArrayRef<Operation *> ops) {
  Operation *op = ops.front();
  if (isPhilox(op))
    return bindPhiloxDropout(binder, op);
  return bindRandom<NativeDropout>(binder, op, [&](NativeDropout &instruction) {
    instruction.p = numberOf(op, "p", 0.0);
    if (auto train = op->getAttrOfType<BoolAttr>("train"))
      instruction.isTraining = train.getValue();
  });
}

BindResult cleave::runtime::bindRngBernoulli(Binder &binder, ArrayRef<Operation *> ops) {
  Operation *op = ops.front();
  if (isPhilox(op))
    return bindPhiloxBernoulli(binder, op);
  return bindRandom<Bernoulli>(binder, op, [&](Bernoulli &instruction) {
    if (op->hasAttr("p"))
      instruction.p = numberOf(op, "p", 0.0);
  });
}

BindResult cleave::runtime::bindRngUniform(Binder &binder, ArrayRef<Operation *> ops) {
  Operation *op = ops.front();
  if (isPhilox(op))
    return bindPhiloxUniform(binder, op);
  return bindRandom<Uniform>(binder, op, [&](Uniform &instruction) {
    instruction.from = numberOf(op, "from", 0.0);
    instruction.to = numberOf(op, "to", 1.0);
  });
}

BindResult cleave::runtime::bindRngNormal(Binder &binder, ArrayRef<Operation *> ops) {
  Operation *op = ops.front();
  if (isPhilox(op))
    return bindPhiloxNormal(binder, op);
  return bindRandom<Normal>(binder, op, [&](Normal &instruction) {
    instruction.mean = numberOf(op, "mean", 0.0);
    instruction.deviation = numberOf(op, "std", 1.0);
  });
}

BindResult cleave::runtime::bindRngExponential(Binder &binder, ArrayRef<Operation *> ops) {
  Operation *op = ops.front();
  if (isPhilox(op))
    return bindPhiloxExponential(binder, op);
  return bindRandom<Exponential>(
      binder, op, [&](Exponential &instruction) { instruction.rate = numberOf(op, "lambd", 1.0); });
}
