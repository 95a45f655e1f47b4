//===- TensorFunction.cpp - a program as a function of tensors ----------------===//

#include "runtime/session/TensorFunction.h"
#include "runtime/io/Error.h"
#include "runtime/kernels/CpuKernels.h"
#include "runtime/program/Form.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/zeros.h>

#include <mutex>

using namespace cleave::runtime;

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<TensorFunction>> TensorFunction::create(const Program &program,
                                                                       const std::string &kernels) {
  std::unique_ptr<TensorFunction> function(new TensorFunction(program));
  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    c10::InferenceMode inferenceMode;
    failure = function->bind(kernels);
  });
  if (llvm::Error error = llvm::joinErrors(std::move(failure), std::move(thrown)))
    return error;
  return function;
}

llvm::Error TensorFunction::bind(const std::string &kernels) {
  auto refuse = [&](const llvm::Twine &found) {
    return makeError("program '{0}': expected one function from tensors to outputs, found {1}",
                     program.path(), found.str());
  };
  const std::vector<PhaseFunction> &functions = program.impl().phaseFunctions;
  if (functions.size() != 1 || functions.front().phase != Phase::Microbatch)
    return refuse(llvm::Twine(functions.size()) + " functions, the first of phase " +
                  getPhaseName(functions.front().phase));
  // Results in an arena would be overwritten by the next call.
  if (isLowered(program))
    return refuse("one whose memory is planned (--lower-to-exec)");
  const PhaseFunction &part = functions.front();
  for (const ValueInfo &value : part.signature.results)
    if (value.role != RoleKind::Output)
      return refuse("the result '" + value.fileName + "'");
  for (const ValueInfo &value : part.signature.arguments) {
    switch (value.role) {
    case RoleKind::RngSeed:
    case RoleKind::RngOffset:
      places.push_back(std::nullopt);
      break;
    case RoleKind::Input:
    case RoleKind::Parameter:
    case RoleKind::Buffer:
    case RoleKind::Constant:
      places.push_back(parameters.size());
      parameters.push_back(value);
      break;
    default:
      return refuse("the argument '" + value.fileName + "'");
    }
  }

  if (llvm::Error error = RankGrid::create(program, nullptr).moveInto(ranks))
    return error;
  if (llvm::Error error =
          CpuKernels::create(*program.impl().module, kernels).moveInto(kernelSource))
    return error;
  rngStart = at::zeros({}, at::kLong);
  services.ranks = ranks.get();
  services.random = &random;
  services.device = &Device::host();
  if (!kernelSource->target().empty())
    services.kernels = kernelSource.get();
  llvm::Expected<BoundFunction> bound = Binder(part.function, services).bind();
  if (!bound)
    return makeError("program '{0}': {1}", program.path(), llvm::toString(bound.takeError()));
  executor = std::make_unique<Executor>(std::move(*bound), part.phase, /*arena=*/nullptr);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

llvm::Error TensorFunction::check(llvm::ArrayRef<at::Tensor> tensors) const {
  if (tensors.size() != parameters.size())
    return makeError("program '{0}': expected {1} tensors, found {2}", program.path(),
                     parameters.size(), tensors.size());
  for (auto [value, tensor] : llvm::zip_equal(parameters, tensors)) {
    bool fits = tensor.defined() && tensor.device().is_cpu() &&
                tensor.scalar_type() == toScalarType(value.type.dtype) &&
                tensor.sizes() == at::IntArrayRef(value.type.shape.data(), value.type.shape.size());
    if (fits)
      continue;
    std::optional<TensorType> type = tensor.defined() ? typeOf(tensor) : std::nullopt;
    return makeError("program '{0}': '{1}': expected {2} on the CPU, found {3}", program.path(),
                     value.name, value.type.str(),
                     !tensor.defined() ? std::string("none")
                                       : (type ? type->str() : std::string("another type")) +
                                             " on " + tensor.device().str());
  }
  return llvm::Error::success();
}

void TensorFunction::takeGenerator() {
  if (program.draws() == 0)
    return;
  at::Generator process = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(process.mutex());
  random.continueFrom(process.get<at::CPUGeneratorImpl>()->engine(), /*newSeed=*/0,
                      /*newPosition=*/0);
}

void TensorFunction::leaveGenerator() {
  if (program.draws() == 0)
    return;
  at::Generator &reached = random.seek(/*seed=*/0, program.draws());
  at::Generator process = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(process.mutex());
  process.get<at::CPUGeneratorImpl>()->set_engine(reached.get<at::CPUGeneratorImpl>()->engine());
}

namespace {
/// The arguments of a call, as far as the caller still holds them: which of them a result is, or is
/// a view of.
class HeldArguments {
public:
  explicit HeldArguments(llvm::ArrayRef<at::Tensor> tensors) {
    for (const at::Tensor &tensor : tensors) {
      byMemory.try_emplace(tensor.storage().unsafeGetStorageImpl(), held.size());
      byTensor.try_emplace(tensor.unsafeGetTensorImpl(), held.size());
      held.emplace_back(tensor.getIntrusivePtr());
    }
  }

  /// What the caller gets for a result: outside of inference mode, so that autograd can keep it.
  at::Tensor show(const at::Tensor &result) const {
    if (std::optional<at::Tensor> argument = find(byTensor, result.unsafeGetTensorImpl()))
      return *argument;
    // Another tensor may have taken the address of one that is gone: storage is compared, too.
    std::optional<at::Tensor> base = find(byMemory, result.storage().unsafeGetStorageImpl());
    if (base && base->storage().is_alias_of(result.storage()) &&
        base->scalar_type() == result.scalar_type())
      return base->as_strided(result.sizes(), result.strides(), result.storage_offset());
    at::Tensor shown = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(result.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), result.dtype());
    shown.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides(),
                                                       result.storage_offset());
    return shown;
  }

private:
  template <typename Key>
  std::optional<at::Tensor> find(const llvm::DenseMap<const Key *, size_t> &places,
                                 const Key *key) const {
    auto found = places.find(key);
    if (found == places.end())
      return std::nullopt;
    c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor =
        held[found->second].lock();
    if (!tensor.defined())
      return std::nullopt;
    return at::Tensor(std::move(tensor));
  }

  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> held;
  llvm::DenseMap<const c10::StorageImpl *, size_t> byMemory;
  llvm::DenseMap<const c10::TensorImpl *, size_t> byTensor;
};
} // namespace

llvm::Expected<std::vector<at::Tensor>> TensorFunction::call(std::vector<at::Tensor> tensors) {
  if (llvm::Error error = check(tensors))
    return error;
  std::vector<at::Tensor> shown;
  std::vector<c10::IValue> results;
  std::optional<HeldArguments> arguments;
  if (llvm::Error error = guarded([&] {
        // Values carry no marks: kernels are called past the keys that heed them.
        for (at::Tensor &tensor : tensors)
          if (tensor.is_conj() || tensor.is_neg())
            tensor = tensor.resolve_conj().resolve_neg();
        arguments.emplace(tensors);
        takeGenerator();
        for (auto [index, place] : llvm::enumerate(places))
          executor->argument(index) = place ? std::move(tensors[*place]) : rngStart;
        tensors.clear();
      }))
    return error;
  if (llvm::Error error = executor->run(results, {}))
    return error;
  if (llvm::Error error = guarded([&] {
        leaveGenerator();
        at::NoGradGuard noGrad;
        for (const c10::IValue &result : results)
          shown.push_back(arguments->show(result.toTensor()));
      }))
    return error;
  return shown;
}
