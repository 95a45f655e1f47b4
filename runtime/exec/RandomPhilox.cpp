//===- RandomPhilox.cpp - random ops whose generator is Philox ----------------===//

#include "runtime/exec/RandomPhilox.h"

#include "runtime/exec/PhiloxInstruction.h"
#include "runtime/ranks/RankGrid.h"

#include "dialects/aten/ops/Random.h"
#include "dialects/dist/Placed.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>

#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::runtime;

using namespace cleave::draw;

int32_t cleave::runtime::elementOf(const at::Tensor &tensor) {
  switch (tensor.scalar_type()) {
  case at::kHalf:
    return CleaveDrawF16;
  case at::kBFloat16:
    return CleaveDrawBF16;
  case at::kFloat:
    return CleaveDrawF32;
  case at::kDouble:
    return CleaveDrawF64;
  default:
    TORCH_CHECK(false, "expected a floating-point type, found ", tensor.scalar_type());
  }
}

llvm::Error cleave::runtime::describePart(const DrawnPart &part, CleaveDraw &request) {
  request.count = 1;
  for (auto [whole, begin, size] : llvm::zip_equal(part.whole, part.begin, part.sizes)) {
    request.count *= size;
    int32_t last = request.dimensions - 1;
    if (last >= 0 && size == whole) {
      request.whole[last] *= whole;
      request.begin[last] *= whole;
      request.sizes[last] *= whole;
      continue;
    }
    if (++last == CLEAVE_DRAW_MOST_DIMENSIONS)
      return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                     "draws a part of more than " +
                                         llvm::Twine(CLEAVE_DRAW_MOST_DIMENSIONS) + " dimensions");
    request.whole[last] = whole;
    request.begin[last] = begin;
    request.sizes[last] = size;
    request.dimensions = last + 1;
  }
  return llvm::Error::success();
}

namespace {
class PhiloxDropout : public PhiloxInstruction {
public:
  double p = 0;
  bool isTraining = true;

  void execute(Frame &frame) override {
    Place at = place(frame);
    at::Tensor x = like.tensor(frame);
    if (!isTraining) {
      results[1].write(frame, at::ones_like(x, at::TensorOptions().dtype(at::kBool)));
      results[0].write(frame, x.clone());
      return;
    }
    double keep = 1.0 - p;
    at::Tensor mask = drawMask(at, x, keep);
    // Rounded to x's type, as with the other generator.
    at::Scalar scale = 0.0;
    if (p < 1.0)
      scale = at::ones({}, at::TensorOptions().dtype(x.scalar_type())).div_(keep).item();
    results[0].write(frame, x.mul(mask).mul_(scale));
    results[1].write(frame, std::move(mask));
  }
};

class PhiloxBernoulli : public PhiloxInstruction {
public:
  /// Absent: `like` holds the probabilities.
  std::optional<double> p;

  void execute(Frame &frame) override {
    Place at = place(frame);
    at::Tensor x = like.tensor(frame);
    at::Tensor drawn = drawMask(at, x, p).to(x.scalar_type());
    results[0].write(frame, p ? drawn.contiguous() : std::move(drawn));
  }
};

class PhiloxUniform : public PhiloxInstruction {
public:
  double from = 0, to = 1;

  void execute(Frame &frame) override {
    Place at = place(frame);
    at::Tensor x = like.tensor(frame), result;
    if (drawsOnDevice) {
      CleaveDraw draw = request;
      draw.kind = CleaveDrawUniform;
      draw.first = from;
      draw.second = to;
      results[0].write(frame, drawThere(at, x, x.scalar_type(), draw));
      return;
    }
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "rng_uniform", [&] {
      using Limits = std::numeric_limits<scalar_t>;
      bool wide = isWide(x);
      // As many bits as the type's mantissa has, so that a number is not rounded up to `to`.
      double scale = std::ldexp(1.0, Limits::digits);
      result = drawHere<scalar_t>(
          at, x, x.scalar_type(), wide ? 2 : 1, [&](const uint32_t *words, int64_t) {
            double u = wide ? uniform64(words) : std::floor(uniform32(words) * scale) / scale;
            double value = from + u * (to - from);
            auto rounded = static_cast<scalar_t>(value);
            return static_cast<double>(rounded) < to || from == to ? rounded
                                                                   : static_cast<scalar_t>(from);
          });
    });
    results[0].write(frame, std::move(result));
  }
};

class PhiloxNormal : public PhiloxInstruction {
public:
  double mean = 0, deviation = 1;

  void execute(Frame &frame) override {
    Place at = place(frame);
    at::Tensor x = like.tensor(frame), result;
    if (drawsOnDevice) {
      CleaveDraw draw = request;
      draw.kind = CleaveDrawNormal;
      draw.first = mean;
      draw.second = deviation;
      results[0].write(frame, drawThere(at, x, x.scalar_type(), draw));
      return;
    }
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "rng_normal", [&] {
      bool wide = isWide(x);
      result = drawHere<scalar_t>(
          at, x, x.scalar_type(), wide ? 4 : 2, [&](const uint32_t *words, int64_t) {
            return static_cast<scalar_t>(mean +
                                         deviation * (wide ? normal64(words) : normal32(words)));
          });
    });
    results[0].write(frame, std::move(result));
  }
};

class PhiloxExponential : public PhiloxInstruction {
public:
  double rate = 1;

  void execute(Frame &frame) override {
    Place at = place(frame);
    at::Tensor x = like.tensor(frame), result;
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kHalf, at::kBFloat16, x.scalar_type(), "rng_exponential", [&] {
          bool wide = isWide(x);
          // Of u, 0 is left out: the logarithm is finite, and 0 where u is rounded to 1.
          result = drawHere<scalar_t>(
              at, x, x.scalar_type(), wide ? 2 : 1, [&](const uint32_t *words, int64_t) {
                double u = wide ? uniform64(words) + 0x1p-53 : (words[0] + 1.0) * 0x1p-32;
                return static_cast<scalar_t>(-logOf(u) / rate);
              });
        });
    results[0].write(frame, std::move(result));
  }
};
} // namespace

llvm::Expected<DrawnPart> cleave::runtime::partOf(Binder &binder, Operation *op) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  DrawnPart part;
  part.whole.assign(type.getShape().begin(), type.getShape().end());
  part.sizes = part.whole;
  part.begin.assign(type.getRank(), 0);
  dist::PlacementAttr placement = dist::getPlacement(type);
  const RankGrid *grid = binder.services().ranks;
  if (!placement || !grid)
    return part;
  auto given = op->getAttrOfType<DenseI64ArrayAttr>(dist::kWholeShapeAttr);
  if (given && given.size() != type.getRank())
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "expected one size per dimension in " + dist::kWholeShapeAttr +
                                       ", found " + llvm::Twine(given.size()) + " for " +
                                       llvm::Twine(type.getRank()) + " dimensions");
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    std::vector<std::string> axes;
    for (StringAttr axis : placement.getShardingAxes(dim)) {
      axes.push_back(axis.str());
      part.whole[dim] *= grid->size(axis);
    }
    if (given)
      part.whole[dim] = given[dim];
    Part mine = grid->part(part.whole[dim], axes);
    if (mine.size != type.getDimSize(dim))
      return llvm::createStringError(
          llvm::inconvertibleErrorCode(),
          "expected a part of " + llvm::Twine(mine.size) + " in dimension " + llvm::Twine(dim) +
              " of what is drawn, which has " + llvm::Twine(part.whole[dim]) + " in all, found " +
              llvm::Twine(type.getDimSize(dim)));
    part.begin[dim] = mine.begin;
  }
  return part;
}

static double number(Operation *op, llvm::StringRef name, double otherwise) {
  auto attribute = op->getAttrOfType<FloatAttr>(name);
  return attribute ? attribute.getValueAsDouble() : otherwise;
}

bool cleave::runtime::isPhilox(Operation *op) {
  auto random = dyn_cast<aten::RandomOpInterface>(op);
  return random && random.getGenerator() == aten::Generator::Philox;
}

Operation *cleave::runtime::findRandomOp(const Program &program,
                                         llvm::function_ref<bool(Operation *)> matches) {
  for (func::FuncOp function : program.impl().functions.getFunctions())
    for (Operation &op : function.getOps())
      if (isa<aten::RandomOpInterface>(op) && matches(&op))
        return &op;
  return nullptr;
}

bool cleave::runtime::canDrawOnDevice(const Program &program, const Device &device) {
  // Devices draw floating-point numbers of the kinds that `CleaveDraw` lists.
  return !device.isHost() && device.plugin()->canDraw() &&
         !findRandomOp(program, [](Operation *op) {
           return !isPhilox(op) || isa<aten::RngExponentialOp, aten::RngRandintOp,
                                       aten::RngRandpermOp, aten::RngMultinomialOp>(op);
         });
}

BindResult cleave::runtime::bindPhiloxDropout(Binder &binder, Operation *op) {
  return bindPhilox<PhiloxDropout>(binder, op, [&](PhiloxDropout &instruction) {
    instruction.p = number(op, "p", 0.0);
    if (auto train = op->getAttrOfType<BoolAttr>("train"))
      instruction.isTraining = train.getValue();
  });
}

BindResult cleave::runtime::bindPhiloxBernoulli(Binder &binder, Operation *op) {
  return bindPhilox<PhiloxBernoulli>(binder, op, [&](PhiloxBernoulli &instruction) {
    if (op->hasAttr("p"))
      instruction.p = number(op, "p", 0.0);
  });
}

BindResult cleave::runtime::bindPhiloxUniform(Binder &binder, Operation *op) {
  return bindPhilox<PhiloxUniform>(binder, op, [&](PhiloxUniform &instruction) {
    instruction.from = number(op, "from", 0.0);
    instruction.to = number(op, "to", 1.0);
  });
}

BindResult cleave::runtime::bindPhiloxNormal(Binder &binder, Operation *op) {
  return bindPhilox<PhiloxNormal>(binder, op, [&](PhiloxNormal &instruction) {
    instruction.mean = number(op, "mean", 0.0);
    instruction.deviation = number(op, "std", 1.0);
  });
}

BindResult cleave::runtime::bindPhiloxExponential(Binder &binder, Operation *op) {
  return bindPhilox<PhiloxExponential>(binder, op, [&](PhiloxExponential &instruction) {
    instruction.rate = number(op, "lambd", 1.0);
  });
}
