//===- RandomPhiloxIntegers.cpp - integers, permutations and samples by Philox ===//

#include "dialects/aten/ops/Random.h"
#include "runtime/exec/PhiloxInstruction.h"
#include "runtime/exec/RandomPhilox.h"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace cleave;
using namespace cleave::runtime;

/// A number of 64 bits.
static uint64_t bits64(const uint32_t *words) {
  return words[0] | uint64_t(words[1]) << 32;
}

namespace {
class PhiloxRandint : public PhiloxInstruction {
public:
  int64_t low = 0;
  uint64_t range = 1;

  void execute(Frame &frame) override {
    Place at = place(frame);
    at::Tensor x = like.tensor(frame), result;
    AT_DISPATCH_ALL_TYPES_AND3(
        at::kHalf, at::kBFloat16, at::kBool, x.scalar_type(), "rng_randint", [&] {
          result =
              drawHere<scalar_t>(at, x, x.scalar_type(), 2, [&](const uint32_t *words, int64_t) {
                // The upper half of the product: below `range`, without a division.
                auto above = static_cast<uint64_t>(
                    (static_cast<unsigned __int128>(bits64(words)) * range) >> 64);
                return static_cast<scalar_t>(
                    static_cast<int64_t>(static_cast<uint64_t>(low) + above));
              });
        });
    results[0].write(frame, std::move(result));
  }
};

/// The indices in the order of a number drawn for each.
class PhiloxRandperm : public PhiloxInstruction {
public:
  void execute(Frame &frame) override {
    Place at = place(frame);
    at::Tensor x = like.tensor(frame);
    at::Tensor drawn =
        drawDense<int64_t>(at, x.sizes(), at::kLong, 2, [](const uint32_t *words, int64_t) {
          return static_cast<int64_t>(bits64(words));
        });
    const int64_t *keys = drawn.const_data_ptr<int64_t>();
    at::Tensor order = at::empty(x.sizes(), at::TensorOptions().dtype(at::kLong));
    llvm::MutableArrayRef<int64_t> indices(order.mutable_data_ptr<int64_t>(), order.numel());
    std::iota(indices.begin(), indices.end(), 0);
    llvm::stable_sort(indices, [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
    results[0].write(frame, device->fromHost(order.to(x.scalar_type())));
  }
};

class PhiloxMultinomial : public PhiloxInstruction {
public:
  int64_t samples = 1;
  bool replacement = false;

  void execute(Frame &frame) override {
    Place at = place(frame);
    at::Tensor weights = device->toHost(like.tensor(frame)).to(at::kDouble).contiguous();
    const double *given = weights.const_data_ptr<double>();
    int64_t width = weights.size(-1);
    for (int64_t i = 0; i < weights.numel(); ++i)
      TORCH_CHECK(given[i] >= 0 && std::isfinite(given[i]),
                  "multinomial: expected finite weights that are not negative, found ", given[i]);
    std::vector<int64_t> sizes = weights.sizes().vec();
    sizes.back() = samples;
    at::Tensor result = replacement ? drawAgain(at, given, width, sizes)
                                    : drawOnce(at, weights.sizes(), given, sizes);
    results[0].write(frame, device->fromHost(result));
  }

private:
  /// Each sample is where a number falls among the sums of the row's weights.
  at::Tensor drawAgain(const Place &at, const double *given, int64_t width,
                       at::IntArrayRef sizes) const {
    std::vector<double> sums(width);
    int64_t summed = -1;
    return drawDense<int64_t>(at, sizes, at::kLong, 2, [&](const uint32_t *words, int64_t i) {
      int64_t row = i / samples;
      if (row != summed) {
        std::partial_sum(given + row * width, given + (row + 1) * width, sums.begin());
        TORCH_CHECK(sums.back() > 0, "multinomial: expected weights with a positive sum");
        summed = row;
      }
      double wanted = draw::uniform64(words) * sums.back();
      auto found = std::upper_bound(sums.begin(), sums.end(), wanted);
      return std::min<int64_t>(found - sums.begin(), width - 1);
    });
  }

  /// Of exponentially distributed numbers with the weights as rates, the smallest come first.
  at::Tensor drawOnce(const Place &at, at::IntArrayRef shape, const double *given,
                      at::IntArrayRef sizes) const {
    at::Tensor drawn =
        drawDense<double>(at, shape, at::kDouble, 2, [&](const uint32_t *words, int64_t i) {
          return -draw::logOf(draw::uniform64(words) + 0x1p-53) / given[i];
        });
    const double *times = drawn.const_data_ptr<double>();
    int64_t width = shape.back();
    at::Tensor result = at::empty(sizes, at::TensorOptions().dtype(at::kLong));
    int64_t *out = result.mutable_data_ptr<int64_t>();
    std::vector<int64_t> order(width);
    for (int64_t row = 0; row < drawn.numel() / width; ++row) {
      const double *mine = times + row * width;
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(
          order.begin(), order.begin() + samples, order.end(),
          [&](int64_t a, int64_t b) { return std::pair(mine[a], a) < std::pair(mine[b], b); });
      TORCH_CHECK(std::isfinite(mine[order[samples - 1]]),
                  "multinomial: expected a positive weight for each of ", samples,
                  " samples without replacement");
      std::copy_n(order.begin(), samples, out + row * samples);
    }
    return result;
  }
};
} // namespace

BindResult cleave::runtime::bindPhiloxRandint(Binder &binder, Operation *op) {
  auto randint = cast<aten::RngRandintOp>(op);
  return bindPhilox<PhiloxRandint>(binder, op, [&](PhiloxRandint &instruction) {
    instruction.low = randint.getLow();
    instruction.range =
        static_cast<uint64_t>(randint.getHigh()) - static_cast<uint64_t>(randint.getLow());
  });
}

BindResult cleave::runtime::bindPhiloxRandperm(Binder &binder, Operation *op) {
  return bindPhilox<PhiloxRandperm>(binder, op, [](PhiloxRandperm &) {});
}

BindResult cleave::runtime::bindPhiloxMultinomial(Binder &binder, Operation *op) {
  auto multinomial = cast<aten::RngMultinomialOp>(op);
  return bindPhilox<PhiloxMultinomial>(binder, op, [&](PhiloxMultinomial &instruction) {
    instruction.samples = multinomial.getNumSamples();
    instruction.replacement = multinomial.getReplacement();
    if (instruction.replacement)
      return;
    // Numbers are drawn for the weights, whose rows are whole.
    int64_t width = cast<RankedTensorType>(op->getOperand(0).getType()).getShape().back();
    instruction.part.whole.back() = instruction.part.sizes.back() = width;
  });
}
