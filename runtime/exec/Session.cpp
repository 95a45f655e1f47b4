//===- Session.cpp - the public face of a session ----------------------------===//

#include "cleave/Session.h"
#include "runtime/exec/SessionImpl.h"
#include "runtime/exec/WholeTensors.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <limits>

using namespace cleave::runtime;

Session::Session(std::unique_ptr<SessionImpl> impl) : impl(std::move(impl)) {}
Session::~Session() = default;

llvm::Expected<std::unique_ptr<Session>> Session::create(const Program &program,
                                                         const SessionOptions &options) {
  auto impl = SessionImpl::create(program, options);
  if (!impl)
    return impl.takeError();
  return std::unique_ptr<Session>(new Session(std::move(*impl)));
}

llvm::Error cleave::runtime::checkDeferrable(const Program &program) {
  if (llvm::is_contained(program.microbatchPhases(), Phase::BackwardWeight))
    return llvm::Error::success();
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "program '" + program.path() +
                                     "' has no function of phase backward_weight, so its weight "
                                     "gradients cannot be deferred; cleave-opt --split-backward "
                                     "makes one");
}

const Program &Session::program() const {
  return *impl->program;
}
RankGrid &Session::grid() {
  return *impl->ranks;
}
int Session::rank() const {
  return impl->ranks->rank();
}
int Session::ranks() const {
  return impl->ranks->ranks();
}
Session::BatchPart Session::batchPart() const {
  return impl->part;
}

llvm::Error Session::runMicrobatch(int64_t step, int64_t index) {
  return impl->runMicrobatch(step, index);
}
llvm::Error Session::runMicrobatches(int64_t step, MicrobatchCallback fill,
                                     MicrobatchCallback done) {
  return impl->runMicrobatches(step, fill, done);
}
bool Session::isScheduled() const {
  return impl->stages.isScheduled();
}
bool Session::hasWeight(llvm::StringRef name) const {
  return impl->stages.hasWeight(name);
}
bool Session::hasOptimizerState(llvm::StringRef parameter) const {
  return impl->stages.hasState(parameter);
}
bool Session::hasInput(llvm::StringRef name) const {
  return impl->stages.hasInput(name);
}
const StageMap &Session::stages() const {
  return impl->stages;
}
std::vector<ConstTensorRef> Session::keptOutputs(llvm::StringRef fileName) {
  return impl->keptOutputs(fileName);
}
llvm::Error Session::runUpdate(int64_t step) {
  return impl->runUpdate(step);
}
llvm::Expected<ConstTensorRef> Session::result(llvm::StringRef fileName) {
  return impl->result(fileName);
}

static llvm::Expected<TensorRef> find(const Program &program, const llvm::StringMap<size_t> &index,
                                      llvm::StringRef key, std::vector<at::Tensor> &tensors,
                                      bool isElsewhere, const llvm::Twine &what) {
  auto found = index.find(key);
  if (found == index.end())
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "program '" + program.path() + "' has no " + what);
  const at::Tensor &tensor = tensors[found->second];
  if (!tensor.defined())
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        what + (isElsewhere ? " is of another rank's stages" : " was lost in a failed run"));
  return refTo(tensor);
}

llvm::Expected<TensorRef> Session::weight(llvm::StringRef name) {
  auto known = impl->weightIndex.find(name);
  bool isElsewhere = known != impl->weightIndex.end() &&
                     !impl->stages.hasWeight(program().weights()[known->second].name);
  return find(program(), impl->weightIndex, name, impl->weights, isElsewhere,
              "weight '" + name + "'");
}

llvm::Expected<TensorRef> Session::optimizerState(llvm::StringRef parameter, llvm::StringRef slot) {
  return find(program(), impl->stateIndex, SessionImpl::stateKey(parameter, slot),
              impl->optimizerStates, !impl->stages.hasState(parameter),
              "optimizer state '" + slot + "' of parameter '" + parameter + "'");
}

llvm::Expected<TensorRef> Session::input(llvm::StringRef name) {
  return find(program(), impl->inputIndex, name, impl->inputs, !impl->stages.hasInput(name),
              "input '" + name + "'");
}

double Session::loss() const {
  for (auto [index, value] : llvm::enumerate(program().results(Phase::Microbatch)))
    if (value.role == RoleKind::Loss && impl->results[index].isTensor())
      return impl->results[index].toTensor().item<double>();
  return std::numeric_limits<double>::quiet_NaN();
}

llvm::Expected<double> Session::wholeLoss() {
  for (const ValueInfo &value : program().results(Phase::Microbatch)) {
    if (value.role != RoleKind::Loss || value.placements.empty())
      continue;
    llvm::Expected<ConstTensorRef> part = result(value.fileName);
    if (!part)
      return part.takeError();
    llvm::Expected<WholeTensor> whole = assemble(value, *part, grid());
    if (!whole)
      return whole.takeError();
    return at::from_blob(whole->bytes.data(), {}, toScalarType(whole->type.dtype)).item<double>();
  }
  return loss();
}

int cleave::runtime::getNumThreads() {
  return at::get_num_threads();
}

void cleave::runtime::setNumThreads(int threads) {
  at::set_num_threads(threads);
}
