//===- Session.cpp - the public face of a session ----------------------------===//

#include "cleave/Session.h"
#include "runtime/aten/Requests.h"
#include "runtime/exec/Compare.h"
#include "runtime/ranks/WholeTensors.h"
#include "runtime/session/SessionImpl.h"

#include <ATen/Parallel.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <mutex>

using namespace cleave::runtime;

Session::Session(std::unique_ptr<SessionImpl> impl) : impl(std::move(impl)) {}
Session::~Session() = default;

/// MKL's vector math finds out on its first call what the processor can do, and meanwhile computes
/// less exactly (relative errors of 1e-5) for other threads. Ranks that are threads begin together,
/// so that call is made before any of them runs a program.
static void prepareVectorMath() {
  static std::once_flag isPrepared;
  std::call_once(isPrepared, [] { at::exp(at::zeros({64}, at::kFloat)); });
}

llvm::Expected<std::unique_ptr<Session>> Session::create(const Program &program,
                                                         const SessionOptions &options) {
  Requests::enterThread();
  prepareVectorMath();
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
llvm::Error Session::runStep(int64_t step, MicrobatchCallback fill, MicrobatchCallback done) {
  return impl->runStep(step, fill, done);
}
llvm::Expected<ConstTensorRef> Session::result(llvm::StringRef fileName) {
  return impl->result(fileName);
}

/// The index of a value in `tensors`, which it is one of here.
static llvm::Expected<size_t> find(const Program &program, const llvm::StringMap<size_t> &index,
                                   llvm::StringRef key, const std::vector<at::Tensor> &tensors,
                                   bool isElsewhere, const llvm::Twine &what) {
  auto found = index.find(key);
  if (found == index.end())
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "program '" + program.path() + "' has no " + what);
  if (!tensors[found->second].defined())
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        what + (isElsewhere ? " is of another rank's stages" : " was lost in a failed run"));
  return found->second;
}

static llvm::Expected<TensorRef> view(HostViews &views, at::Tensor &tensor) {
  TensorRef ref;
  if (llvm::Error error = guarded([&] { ref = views.forWriting(tensor); }))
    return error;
  return ref;
}

llvm::Expected<TensorRef> Session::weight(llvm::StringRef name) {
  auto known = impl->weightIndex.find(name);
  bool isElsewhere = known != impl->weightIndex.end() &&
                     !impl->stages.hasWeight(program().weights()[known->second].name);
  auto index =
      find(program(), impl->weightIndex, name, impl->weights, isElsewhere, "weight '" + name + "'");
  return index ? view(impl->views, impl->weights[*index]) : index.takeError();
}

llvm::Expected<TensorRef> Session::optimizerState(llvm::StringRef parameter, llvm::StringRef slot) {
  auto index = find(program(), impl->stateIndex, SessionImpl::stateKey(parameter, slot),
                    impl->optimizerStates, !impl->stages.hasState(parameter),
                    "optimizer state '" + slot + "' of parameter '" + parameter + "'");
  return index ? view(impl->views, impl->optimizerStates[*index]) : index.takeError();
}

llvm::Expected<TensorRef> Session::input(llvm::StringRef name) {
  auto index = find(program(), impl->inputIndex, name, impl->inputs, !impl->stages.hasInput(name),
                    "input '" + name + "'");
  if (!index)
    return index.takeError();
  if (!impl->stagedInputs.isUsed())
    return refTo(impl->inputs[*index]);
  TensorRef ref;
  if (llvm::Error error = guarded([&] { ref = impl->stagedInputs.forWriting(*index); }))
    return error;
  return ref;
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

/// The loss among a microbatch's results; null where there is none.
static const at::Tensor *findLoss(const SessionImpl &session) {
  for (auto [index, value] : llvm::enumerate(session.program->results(Phase::Microbatch)))
    if (value.role == RoleKind::Loss && session.results[index].isTensor())
      return &session.results[index].toTensor();
  return nullptr;
}

std::optional<Session::MemoryUse> Session::memoryUse() const {
  if (!impl->plannedBytes)
    return std::nullopt;
  MemoryCounts counts = impl->device->memory();
  return MemoryUse{*impl->plannedBytes, counts.tensorPeak, counts.workspacePeak,
                   impl->device->countsWorkspace()};
}
void Session::resetMemoryUse() {
  impl->device->resetMemoryPeak();
}

double Session::loss() const {
  const at::Tensor *loss = findLoss(*impl);
  return loss ? loss->item<double>() : std::numeric_limits<double>::quiet_NaN();
}

/// The number of which each rank holds `part`.
static llvm::Expected<double> assembleLoss(const Program &program, const ConstTensorRef &part,
                                           RankGrid &grid) {
  for (const ValueInfo &value : program.results(Phase::Microbatch)) {
    if (value.role != RoleKind::Loss || value.placements.empty())
      continue;
    llvm::Expected<WholeTensor> whole = assemble(value, part, grid);
    if (!whole)
      return whole.takeError();
    return toNumber(whole->ref());
  }
  return toNumber(part);
}

llvm::Expected<double> Session::wholeLoss() {
  const at::Tensor *loss = findLoss(*impl);
  if (!loss)
    return std::numeric_limits<double>::quiet_NaN();
  at::Tensor part;
  if (llvm::Error error = guarded([&] { part = impl->device->toHost(*loss); }))
    return error;
  return assembleLoss(program(), refTo(part), grid());
}

llvm::StringRef Session::graphRefusal() const {
  return impl->graphRefusal;
}

llvm::Error Session::noteLoss() {
  if (impl->recordsSteps() && !impl->recordedLosses.empty()) {
    impl->notedLosses.push_back(impl->recordedLosses[impl->doneMicrobatch]);
    return llvm::Error::success();
  }
  const at::Tensor *loss = findLoss(*impl);
  if (!loss || impl->device->isHost()) {
    llvm::Expected<double> known = wholeLoss();
    if (!known)
      return known.takeError();
    impl->knownLosses.push_back(*known);
    return llvm::Error::success();
  }
  return guarded([&] {
    c10::InferenceMode inferenceMode;
    at::Tensor part = impl->device->allocateStaging(*typeOf(*loss));
    part.copy_(*loss, /*non_blocking=*/true);
    impl->notedLosses.push_back(std::move(part));
  });
}

llvm::Expected<std::vector<double>> Session::takeLosses() {
  std::vector<double> losses = std::exchange(impl->knownLosses, {});
  std::vector<at::Tensor> noted = std::exchange(impl->notedLosses, {});
  if (!noted.empty())
    if (llvm::Error error = impl->awaitDevice())
      return error;
  for (const at::Tensor &part : noted) {
    llvm::Expected<double> loss = assembleLoss(program(), refTo(part), grid());
    if (!loss)
      return loss.takeError();
    losses.push_back(*loss);
  }
  return losses;
}

int cleave::runtime::getNumThreads() {
  return at::get_num_threads();
}

void cleave::runtime::setNumThreads(int threads) {
  at::set_num_threads(threads);
}
