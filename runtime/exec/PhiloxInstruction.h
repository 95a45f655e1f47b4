//===- PhiloxInstruction.h - what ops that draw by Philox share ----*- C++ -*-===//
//
// An element's number comes from its index in the whole tensor, so ranks draw their parts and
// nothing else. Everything is computed in double precision and rounded once: docs/random.md has the
// formulas.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_PHILOXINSTRUCTION_H
#define CLEAVE_RUNTIME_EXEC_PHILOXINSTRUCTION_H

#include "runtime/device/Device.h"
#include "runtime/device/Draw.h"
#include "runtime/exec/Kernels.h"
#include "runtime/exec/Philox.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace cleave::runtime {

inline bool isWide(const at::Tensor &tensor) {
  return tensor.scalar_type() == at::kDouble;
}
/// What a device calls the tensor's elements.
int32_t elementOf(const at::Tensor &tensor);

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

  /// The same, drawn by the host.
  template <typename T, typename Make>
  at::Tensor drawHere(const Place &at, const at::Tensor &x, at::ScalarType dtype,
                      int64_t perElement, Make make) const {
    return layOutLike(x, drawDense<T>(at, x.sizes(), dtype, perElement, make));
  }

  /// A contiguous tensor on the host. Element i of the part is `make(words, i)`, words being the
  /// `perElement` numbers of the element's index in the whole.
  template <typename T, typename Make>
  at::Tensor drawDense(const Place &at, at::IntArrayRef sizes, at::ScalarType dtype,
                       int64_t perElement, Make make) const {
    constexpr int64_t kChunk = 1024;
    auto key = static_cast<uint64_t>(*at.seed.const_data_ptr<int64_t>());
    auto stream = static_cast<uint64_t>(*at.offset.const_data_ptr<int64_t>() + request.position);
    at::Tensor dense = at::empty(sizes, at::TensorOptions().dtype(dtype));
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
    return dense;
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
      return (wide ? draw::uniform64(words) : draw::uniform32(words)) < (p ? *p : given[i]);
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

/// Which part of the whole this rank draws: what the result's placement says.
llvm::Expected<DrawnPart> partOf(Binder &binder, mlir::Operation *op);
/// The part as a device is told it: dimensions that are whole continue the one before them.
llvm::Error describePart(const DrawnPart &part, CleaveDraw &request);

/// Binds what all these ops have; `make` fills in the rest.
template <typename T, typename Make>
BindResult bindPhilox(Binder &binder, mlir::Operation *op, Make make) {
  llvm::Expected<DrawnPart> part = partOf(binder, op);
  if (!part)
    return part.takeError();
  auto instruction = std::make_unique<T>();
  // In the order in which `execute` reads them.
  instruction->offset = binder.use(op->getOperand(2));
  instruction->seed = binder.use(op->getOperand(1));
  instruction->like = binder.use(op->getOperand(0));
  for (mlir::Value result : op->getResults())
    instruction->results.push_back(binder.define(result));
  if (llvm::Error error = describePart(*part, instruction->request))
    return error;
  instruction->part = std::move(*part);
  instruction->device = binder.services().device;
  instruction->drawsOnDevice = binder.services().drawsOnDevice;
  if (auto position = op->getAttrOfType<mlir::IntegerAttr>("position"))
    instruction->request.position = position.getInt();
  make(*instruction);
  return instruction;
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_PHILOXINSTRUCTION_H
