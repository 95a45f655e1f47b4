//===- RandomIntegers.cpp - integers, permutations and samples ---------------===//
//
// What each op draws from PyTorch's generator, and how many numbers, is in `docs/random.md`.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Random.h"
#include "runtime/exec/RandomInstruction.h"
#include "runtime/exec/RandomPhilox.h"

#include <ATen/ops/multinomial.h>
#include <ATen/ops/randperm.h>

using namespace mlir;
using namespace cleave;
using namespace cleave::runtime;

namespace {
class Randint : public RandomInstruction {
public:
  int64_t low = 0, high = 1;

  void execute(Frame &frame) override {
    at::Generator &gen = generator(frame);
    at::Tensor result = hostLike(like.tensor(frame)).random_(low, high, gen);
    // The difference does not fit where the range is more than half of all numbers.
    uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    stream->advance(range >= kWideRange ? 2 * result.numel() : result.numel());
    results[0].write(frame, device->fromHost(result));
  }

private:
  /// From this range on, PyTorch makes a number of two draws.
  static constexpr uint64_t kWideRange = uint64_t(1) << 28;
};

class Randperm : public RandomInstruction {
public:
  void execute(Frame &frame) override {
    at::Generator &gen = generator(frame);
    at::Tensor x = like.tensor(frame);
    at::Tensor result = at::randperm(x.numel(), gen, at::TensorOptions().dtype(x.scalar_type()));
    stream->advance(std::max<int64_t>(x.numel(), 1) - 1);
    results[0].write(frame, device->fromHost(result));
  }
};

class Multinomial : public RandomInstruction {
public:
  int64_t samples = 1;
  bool replacement = false;

  void execute(Frame &frame) override {
    at::Generator &gen = generator(frame);
    at::Tensor x = device->toHost(like.tensor(frame));
    at::Tensor result = at::multinomial(x, samples, replacement, gen);
    // One sample is drawn as samples without replacement are: by a number for each weight.
    stream->advance(2 * (replacement && samples > 1 ? result.numel() : x.numel()));
    results[0].write(frame, device->fromHost(result));
  }
};
} // namespace

BindResult cleave::runtime::bindRngRandint(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<aten::RngRandintOp>(ops.front());
  if (isPhilox(op))
    return bindPhiloxRandint(binder, op);
  return bindRandom<Randint>(binder, op, [&](Randint &instruction) {
    instruction.low = op.getLow();
    instruction.high = op.getHigh();
  });
}

BindResult cleave::runtime::bindRngRandperm(Binder &binder, ArrayRef<Operation *> ops) {
  Operation *op = ops.front();
  if (isPhilox(op))
    return bindPhiloxRandperm(binder, op);
  return bindRandom<Randperm>(binder, op, [](Randperm &) {});
}

BindResult cleave::runtime::bindRngMultinomial(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<aten::RngMultinomialOp>(ops.front());
  if (isPhilox(op))
    return bindPhiloxMultinomial(binder, op);
  return bindRandom<Multinomial>(binder, op, [&](Multinomial &instruction) {
    instruction.samples = op.getNumSamples();
    instruction.replacement = op.getReplacement();
  });
}
