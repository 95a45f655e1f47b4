//===- RandomPhilox.cpp - random ops whose generator is Philox ----------------===//
//
// An element's number comes from its index in the whole tensor, so ranks draw their parts and
// nothing else. Everything is computed in double precision and rounded once: docs/random.md has the
// formulas.
//
//===----------------------------------------------------------------------===//

#include "runtime/exec/RandomPhilox.h"

#include "runtime/device/Device.h"
#include "runtime/device/Draw.h"
#include "runtime/exec/Philox.h"
#include "runtime/ranks/RankGrid.h"

#include "dialects/aten/Aten.h"
#include "dialects/dist/Placed.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>

#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::runtime;

using namespace cleave::draw;

namespace {
bool isWide(const at::Tensor &tensor) {
  return tensor.scalar_type() == at::kDouble;
}

int32_t elementOf(const at::Tensor &tensor) {
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

/// The part as a device is told it: dimensions that are whole continue the one before them.
llvm::Error describePart(const DrawnPart &part, CleaveDraw &request) {
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

class PhiloxInstruction : public Instruction {
public:
  Operand like, seed, offset;
  std::vector<Destination> results;
  DrawnPart part;
  const Device *device = nullptr;
  /// Whether the device draws: then seed and offset are on it.
  bool drawsOnDevice = false;
  /// What is the same in each run of a draw by the device.
  CleaveDraw request{};

protected:
  struct Place {
    at::Tensor seed, offset;
  };
  Place place(Frame &frame) const {
    at::Tensor at = offset.tensor(frame);
    return {seed.tensor(frame), std::move(at)};
  }

  /// A tensor like `x` of `dtype`, for the device's `request`.
  at::Tensor drawThere(const Place &at, const at::Tensor &x, at::ScalarType dtype,
                       CleaveDraw draw) const {
    at::Tensor dense = at::empty(x.sizes(), x.options().dtype(dtype));
    draw.out = dense.mutable_data_ptr();
    draw.seed = at.seed.const_data_ptr<int64_t>();
    draw.offset = at.offset.const_data_ptr<int64_t>();
    draw.element = elementOf(x);
    if (llvm::Error error = device->plugin()->draw(draw))
      throw std::runtime_error(llvm::toString(std::move(error)));
    return layOutLike(x, std::move(dense));
  }

  /// The same, drawn by the host; element i of the part is `make(words, i)`, words being the
  /// `perElement` numbers of the element's index in the whole.
  template <typename T, typename Make>
  at::Tensor drawHere(const Place &at, const at::Tensor &x, at::ScalarType dtype,
                      int64_t perElement, Make make) const {
    constexpr int64_t kChunk = 1024;
    auto key = static_cast<uint64_t>(*at.seed.const_data_ptr<int64_t>());
    auto stream = static_cast<uint64_t>(*at.offset.const_data_ptr<int64_t>() + request.position);
    at::Tensor dense = at::empty(x.sizes(), at::TensorOptions().dtype(dtype));
    T *out = dense.mutable_data_ptr<T>();
    std::vector<uint32_t> words(kChunk * perElement);
    part.forEachRun([&](int64_t local, int64_t whole, int64_t count) {
      for (int64_t done = 0; done < count; done += kChunk) {
        int64_t n = std::min(kChunk, count - done);
        philoxWords(key, stream, static_cast<uint64_t>(whole + done) * perElement,
                    llvm::MutableArrayRef(words).take_front(n * perElement));
        for (int64_t i = 0; i < n; ++i)
          out[local + done + i] = make(words.data() + i * perElement, local + done + i);
      }
    });
    return layOutLike(x, std::move(dense));
  }

  /// Bytes that are 1 where u is less than `p`, or than the element of `x` if there is no `p`.
  at::Tensor drawMask(const Place &at, const at::Tensor &x, std::optional<double> p) const {
    at::Tensor probabilities;
    if (!p)
      probabilities = (drawsOnDevice ? x : device->toHost(x)).to(at::kDouble).contiguous();
    const double *given = p ? nullptr : probabilities.const_data_ptr<double>();
    if (drawsOnDevice) {
      CleaveDraw draw = request;
      draw.kind = p ? CleaveDrawBernoulli : CleaveDrawBernoulliOf;
      draw.first = p.value_or(0);
      draw.probabilities = given;
      return drawThere(at, x, at::kBool, draw);
    }
    bool wide = !p && isWide(x);
    return drawHere<bool>(at, x, at::kBool, wide ? 2 : 1, [&](const uint32_t *words, int64_t i) {
      return (wide ? uniform64(words) : uniform32(words)) < (p ? *p : given[i]);
    });
  }

private:
  at::Tensor layOutLike(const at::Tensor &x, at::Tensor dense) const {
    at::Tensor result = at::empty_like(x, x.options().dtype(dense.scalar_type()));
    if (result.strides() == dense.strides())
      return device->fromHost(dense);
    return result.copy_(dense);
  }
};

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
} // namespace

/// Which part of the whole this rank draws: what the result's placement says.
static llvm::Expected<DrawnPart> partOf(Binder &binder, Operation *op) {
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

template <typename T, typename Make>
static BindResult bindPhilox(Binder &binder, Operation *op, Make make) {
  llvm::Expected<DrawnPart> part = partOf(binder, op);
  if (!part)
    return part.takeError();
  auto instruction = std::make_unique<T>();
  // In the order in which `execute` reads them.
  instruction->offset = binder.use(op->getOperand(2));
  instruction->seed = binder.use(op->getOperand(1));
  instruction->like = binder.use(op->getOperand(0));
  for (Value result : op->getResults())
    instruction->results.push_back(binder.define(result));
  if (llvm::Error error = describePart(*part, instruction->request))
    return error;
  instruction->part = std::move(*part);
  instruction->device = binder.services().device;
  instruction->drawsOnDevice = binder.services().drawsOnDevice;
  if (auto position = op->getAttrOfType<IntegerAttr>("position"))
    instruction->request.position = position.getInt();
  make(*instruction);
  return instruction;
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
  return !device.isHost() && device.plugin()->canDraw() &&
         !findRandomOp(program, [](Operation *op) { return !isPhilox(op); });
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
