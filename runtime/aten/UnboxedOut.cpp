//===- UnboxedOut.cpp - out variants called with C++ arguments ---------------===//

#include "runtime/aten/UnboxedOut.h"

using namespace cleave::runtime;

namespace {
template <size_t> using TensorArgument = const at::Tensor &;
template <size_t> using ScalarArgument = const c10::Scalar &;

template <typename TensorIndices, typename ScalarIndices> class Typed;
template <size_t... T, size_t... S>
class Typed<std::index_sequence<T...>, std::index_sequence<S...>> : public UnboxedOut {
  using Signature = at::Tensor &(TensorArgument<T>..., ScalarArgument<S>..., at::Tensor &);

public:
  explicit Typed(const c10::OperatorHandle &out) : handle(out.typed<Signature>()) {}

  void call(const at::Tensor *const *tensors, const c10::Scalar *scalars,
            at::Tensor &out) const override {
    handle.call(*tensors[T]..., scalars[S]..., out);
  }

private:
  c10::TypedOperatorHandle<Signature> handle;
};

template <size_t Tensors, size_t Scalars>
std::unique_ptr<UnboxedOut> make(const c10::OperatorHandle &out) {
  return std::make_unique<
      Typed<std::make_index_sequence<Tensors>, std::make_index_sequence<Scalars>>>(out);
}
} // namespace

std::unique_ptr<UnboxedOut> UnboxedOut::create(const c10::OperatorHandle &out) {
  const c10::FunctionSchema &schema = out.schema();
  size_t tensors = 0, scalars = 0;
  for (const c10::Argument &argument : llvm::ArrayRef(schema.arguments()).drop_back()) {
    c10::TypeKind kind = argument.real_type()->kind();
    if (kind == c10::TypeKind::TensorType && scalars == 0)
      ++tensors;
    else if (kind == c10::TypeKind::NumberType)
      ++scalars;
    else
      return nullptr;
  }
  if (schema.returns().size() != 1 || !schema.arguments().back().is_out() || tensors == 0 ||
      tensors > kMaxTensors || scalars > kMaxScalars)
    return nullptr;
  using Make = std::unique_ptr<UnboxedOut> (*)(const c10::OperatorHandle &);
  static constexpr Make producers[kMaxTensors][kMaxScalars + 1] = {
      {make<1, 0>, make<1, 1>, make<1, 2>},
      {make<2, 0>, make<2, 1>, make<2, 2>},
      {make<3, 0>, make<3, 1>, make<3, 2>}};
  return producers[tensors - 1][scalars](out);
}
