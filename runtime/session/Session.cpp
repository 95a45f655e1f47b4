//===- Session.cpp - the public face of a session ----------------------------===//

#include "cleave/Session.h"
#include "runtime/aten/Requests.h"
#include "runtime/session/SessionImpl.h"

#include <ATen/Parallel.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/zeros.h>

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

const Program &Session::program() const {
  return impl->context.program;
}
RankGrid &Session::grid() {
  return *impl->context.ranks;
}
int Session::rank() const {
  return impl->context.ranks->rank();
}
int Session::ranks() const {
  return impl->context.ranks->ranks();
}
Session::BatchPart Session::batchPart() const {
  return impl->context.part;
}
const StageMap &Session::stages() const {
  return impl->context.stages;
}
bool Session::isScheduled() const {
  return stages().isScheduled();
}
bool Session::hasWeight(llvm::StringRef name) const {
  return stages().hasWeight(name);
}
bool Session::hasOptimizerState(llvm::StringRef parameter) const {
  return stages().hasState(parameter);
}
bool Session::hasInput(llvm::StringRef name) const {
  return stages().hasInput(name);
}

llvm::Error Session::setLossSeeds(llvm::ArrayRef<double> seeds) {
  return impl->setLossSeeds(seeds);
}
llvm::ArrayRef<double> Session::lossSeeds() const {
  return impl->context.lossSeeds;
}

llvm::Error Session::runMicrobatch(int64_t step, int64_t index) {
  if (llvm::Error error = impl->checkLossSeeds())
    return error;
  return impl->runner->runMicrobatch(step, index);
}
llvm::Error Session::runMicrobatches(int64_t step, MicrobatchCallback fill,
                                     MicrobatchCallback done) {
  if (llvm::Error error = impl->checkLossSeeds())
    return error;
  return impl->runner->runMicrobatches(step, fill, done);
}
llvm::Error Session::runUpdate(int64_t step) {
  return impl->runUpdate(step);
}
llvm::Error Session::runStep(int64_t step, MicrobatchCallback fill, MicrobatchCallback done) {
  return impl->runStep(step, fill, done);
}
void Session::setDrawsBefore(int64_t draws) {
  impl->context.drawsBefore = draws;
}
void Session::setRateReductions(int64_t count) {
  impl->context.rateReductions = count;
}
llvm::StringRef Session::graphRefusal() const {
  return impl->graphRefusal;
}

llvm::Expected<TensorRef> Session::weight(llvm::StringRef name) {
  return impl->weight(name);
}
llvm::Expected<TensorRef> Session::optimizerState(llvm::StringRef parameter, llvm::StringRef slot) {
  return impl->optimizerState(parameter, slot);
}
llvm::Expected<TensorRef> Session::input(llvm::StringRef name) {
  return impl->input(name);
}
llvm::Expected<ConstTensorRef> Session::result(llvm::StringRef fileName) {
  return impl->result(fileName);
}
std::vector<ConstTensorRef> Session::keptOutputs(llvm::StringRef fileName) {
  return impl->keptOutputs(fileName);
}

llvm::Error Session::setLearningRate(int64_t group, double rate) {
  return impl->setLearningRate(group, rate);
}

std::optional<LossScale> Session::lossScale() const {
  return impl->context.lossScale;
}
llvm::Error Session::setLossScale(const LossScale &scale) {
  return impl->setLossScale(scale);
}
llvm::Error Session::swapAverages() {
  return impl->swapAverages();
}

double Session::loss() const {
  return impl->losses.loss();
}
llvm::Expected<double> Session::wholeLoss() {
  return impl->losses.wholeLoss();
}
llvm::Error Session::noteLoss() {
  return impl->losses.note(*impl->runner);
}
llvm::Expected<std::vector<double>> Session::takeLosses() {
  return impl->losses.take();
}

std::optional<Session::MemoryUse> Session::memoryUse() const {
  const StepContext &context = impl->context;
  MemoryCounts counts = context.device.memory();
  if (counts.peak == 0)
    return std::nullopt;
  return MemoryUse{context.plannedBytes,     counts.tensorPeak,
                   counts.workspacePeak,     context.device.countsWorkspace(),
                   context.plannedHostBytes, counts.hostPeak};
}
void Session::resetMemoryUse() {
  impl->context.device.resetMemoryPeak();
}

int cleave::runtime::getNumThreads() {
  return at::get_num_threads();
}

void cleave::runtime::setNumThreads(int threads) {
  at::set_num_threads(threads);
}
