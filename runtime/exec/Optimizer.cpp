//===- Optimizer.cpp - scheduled numbers and fused optimizer steps -----------===//
//
// Optimizer ops of equal hyper-parameters become one call of ATen's fused kernel over all their
// parameters. The kernel treats each tensor by itself, so this changes no bit of the result.
//
//===----------------------------------------------------------------------===//

#include "dialects/train/Train.h"
#include "runtime/device/Device.h"
#include "runtime/exec/DeviceNumbers.h"
#include "runtime/exec/Kernels.h"
#include "runtime/program/RateSchedule.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include <cmath>

using namespace mlir;
using namespace cleave::runtime;
namespace train = cleave::train;

//===----------------------------------------------------------------------===//
// train.learning_rate, train.hyperparameter
//===----------------------------------------------------------------------===//

namespace {
class LearningRate : public Instruction {
public:
  Operand step;
  Destination result;
  LearningRate(const RateSchedule &schedule, const int64_t *reductions, const double *given)
      : schedule(schedule), reductions(reductions), given(given) {}

  void execute(Frame &frame) override {
    auto number = static_cast<int64_t>(*step.tensor(frame).const_data_ptr<float>());
    at::Tensor rate = allocate({DType::F64, {}});
    bool isGiven = given && !std::isnan(*given);
    *rate.mutable_data_ptr<double>() =
        isGiven ? *given : schedule.at(number, reductions ? *reductions : 0);
    result.write(frame, std::move(rate));
  }
  void refresh(Frame &frame) override { execute(frame); }

private:
  RateSchedule schedule;
  /// How often a plateau has reduced the rate; null for none.
  const int64_t *reductions;
  /// What the caller has set for its group, or NaN; null for an op without one.
  const double *given;
};
} // namespace

/// Where the caller sets the number of a group; null for none.
static const double *findGiven(Binder &binder, std::optional<int64_t> group) {
  const std::vector<double> *numbers = binder.services().learningRates;
  return group && numbers ? &numbers->at(*group) : nullptr;
}

BindResult cleave::runtime::bindLearningRate(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<train::LearningRateOp>(ops.front());
  auto instruction = std::make_unique<LearningRate>(
      RateSchedule(op), binder.services().rateReductions, findGiven(binder, op.getGroup()));
  instruction->step = binder.use(op.getStep());
  instruction->result = binder.define(op.getResult());
  return instruction;
}

BindResult cleave::runtime::bindHyperparameter(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<train::HyperparameterOp>(ops.front());
  auto instruction = std::make_unique<LearningRate>(RateSchedule(op), /*reductions=*/nullptr,
                                                    findGiven(binder, op.getGroup()));
  instruction->step = binder.use(op.getStep());
  instruction->result = binder.define(op.getResult());
  return instruction;
}

//===----------------------------------------------------------------------===//
// What AdamW and SGD share
//===----------------------------------------------------------------------===//

namespace {
/// The tensors of one kind of operand of all ops in the batch. The kernels compute on reals:
/// complex numbers are updated part by part, as PyTorch's unfused optimizers do.
struct TensorBatch {
  std::vector<Operand> operands;
  std::vector<Destination> results;
  std::vector<at::Tensor> tensors;

  void read(Frame &frame) {
    tensors.clear();
    for (const Operand &operand : operands)
      tensors.push_back(operand.tensor(frame));
  }
  /// Reads what the kernel overwrites, or its flat memory: a copy if there are other references.
  void readOwned(Frame &frame) {
    read(frame);
    for (at::Tensor &tensor : tensors)
      if (!tensor.is_contiguous() || !isSoleOwner(tensor))
        tensor = tensor.clone(at::MemoryFormat::Contiguous);
    splitComplex();
  }
  void readContiguous(Frame &frame) {
    read(frame);
    for (at::Tensor &tensor : tensors)
      tensor = tensor.contiguous();
    splitComplex();
  }
  void write(Frame &frame) {
    for (size_t i = 0; i < tensors.size(); ++i)
      results[i].write(frame, isComplex ? at::view_as_complex(tensors[i]) : std::move(tensors[i]));
    tensors.clear();
  }

private:
  bool isComplex = false; ///< All are, or none.
  void splitComplex() {
    isComplex = !tensors.empty() && tensors.front().is_complex();
    if (isComplex)
      for (at::Tensor &tensor : tensors)
        tensor = at::view_as_real(tensor);
  }
};

/// A number that the host knows, for all steps of a batch. The last of several uses of one value
/// may take it only after all others have read it.
struct SharedScalar {
  std::vector<Operand> operands;

  at::Tensor read(Frame &frame) const {
    at::Tensor value;
    for (const Operand &operand : operands)
      value = operand.tensor(frame);
    return value;
  }
};

/// A hyper-parameter: a constant, or a number that changes from step to step.
struct Hyperparameter {
  SharedScalar scheduled;
  double constant = 0;

  double read(Frame &frame) const {
    return scheduled.operands.empty() ? constant : *scheduled.read(frame).const_data_ptr<double>();
  }
  void set(const std::optional<llvm::APFloat> &attribute) {
    if (attribute)
      constant = attribute->convertToDouble();
  }
  void use(Binder &binder, Value operand) {
    if (operand)
      scheduled.operands.push_back(binder.use(operand));
  }
};
} // namespace

/// Whether two optimizer ops have the same hyper-parameters, step and learning rate.
bool cleave::runtime::batchesOptimizerSteps(Operation *a, Operation *b) {
  // The kernels take tensors with the same dtype.
  auto element = [](Operation *op) {
    return cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
  };
  auto first = cast<train::OptimizerStepOpInterface>(a);
  auto second = cast<train::OptimizerStepOpInterface>(b);
  return a->getName() == b->getName() && a->getNumOperands() == b->getNumOperands() &&
         first.getStep() == second.getStep() && first.getLr() == second.getLr() &&
         first.getScheduledNumber() == second.getScheduledNumber() && element(a) == element(b) &&
         a->getPropertiesAsAttribute() == b->getPropertiesAsAttribute();
}

//===----------------------------------------------------------------------===//
// train.adamw
//===----------------------------------------------------------------------===//

namespace {
class AdamW : public Instruction {
public:
  TensorBatch parameters, gradients, expAvgs, expAvgSqs;
  SharedScalar step, rate;
  explicit AdamW(const Device &device) : device(&device), numbers(device, 2) {}
  Hyperparameter beta1;
  double beta2 = 0, eps = 0, weightDecay = 0, rateScale = 1;

  void execute(Frame &frame) override {
    parameters.readOwned(frame);
    gradients.readContiguous(frame);
    expAvgs.readOwned(frame);
    expAvgSqs.readOwned(frame);
    // The kernel reads one step count per parameter, where the parameters are.
    at::Tensor count = step.read(frame);
    double lr = *rate.read(frame).const_data_ptr<double>() * rateScale;
    double firstBeta = beta1.read(frame);
    bool isRecorded = device->isRecording();
    if (isRecorded) {
      setNumbers(count, lr);
      numbers.send();
      count = numbers.get(kStep);
    } else if (!device->isHost()) {
      count = at::full({}, *count.const_data_ptr<float>(), device->options(DType::F32));
    }
    std::vector<at::Tensor> steps(parameters.tensors.size(), count);
    if (isRecorded)
      at::_fused_adamw_(parameters.tensors, gradients.tensors, expAvgs.tensors, expAvgSqs.tensors,
                        /*max_exp_avg_sqs=*/{}, steps, numbers.get(kRate), firstBeta, beta2,
                        weightDecay, eps, /*amsgrad=*/false, /*maximize=*/false);
    else
      at::_fused_adamw_(parameters.tensors, gradients.tensors, expAvgs.tensors, expAvgSqs.tensors,
                        /*max_exp_avg_sqs=*/{}, steps, lr, firstBeta, beta2, weightDecay, eps,
                        /*amsgrad=*/false, /*maximize=*/false);
    gradients.tensors.clear();
    parameters.write(frame);
    expAvgs.write(frame);
    expAvgSqs.write(frame);
  }

  void refresh(Frame &frame) override {
    at::Tensor count = step.read(frame);
    setNumbers(count, *rate.read(frame).const_data_ptr<double>() * rateScale);
  }

private:
  enum { kRate, kStep };
  void setNumbers(const at::Tensor &count, double lr) {
    numbers.set(kRate, lr);
    numbers.set(kStep, *count.const_data_ptr<float>());
  }
  const Device *device;
  DeviceNumbers numbers;
};
} // namespace

BindResult cleave::runtime::bindAdamW(Binder &binder, ArrayRef<Operation *> ops) {
  auto first = cast<train::AdamWOp>(ops.front());
  auto instruction = std::make_unique<AdamW>(*binder.services().device);
  instruction->beta1.set(first.getBeta1());
  instruction->beta2 = first.getBeta2().convertToDouble();
  instruction->eps = first.getEps().convertToDouble();
  instruction->weightDecay = first.getWeightDecay().convertToDouble();
  if (std::optional<llvm::APFloat> scale = first.getLrScale())
    instruction->rateScale = scale->convertToDouble();
  for (Operation *each : ops) {
    auto op = cast<train::AdamWOp>(each);
    instruction->parameters.operands.push_back(binder.use(op.getParameter()));
    instruction->gradients.operands.push_back(binder.use(op.getGradient()));
    instruction->expAvgs.operands.push_back(binder.use(op.getExpAvg()));
    instruction->expAvgSqs.operands.push_back(binder.use(op.getExpAvgSq()));
    instruction->step.operands.push_back(binder.use(op.getStep()));
    instruction->rate.operands.push_back(binder.use(op.getLr()));
    instruction->beta1.use(binder, op.getScheduledBeta1());
  }
  for (Operation *each : ops) {
    auto op = cast<train::AdamWOp>(each);
    instruction->parameters.results.push_back(binder.define(op.getNewParameter()));
    instruction->expAvgs.results.push_back(binder.define(op.getNewExpAvg()));
    instruction->expAvgSqs.results.push_back(binder.define(op.getNewExpAvgSq()));
  }
  return instruction;
}

//===----------------------------------------------------------------------===//
// train.sgd
//===----------------------------------------------------------------------===//

namespace {
class SGD : public Instruction {
public:
  TensorBatch parameters, gradients, buffers;
  SharedScalar step, rate;
  Hyperparameter momentum;
  double dampening = 0, weightDecay = 0, rateScale = 1;
  bool nesterov = false;
  explicit SGD(const Device &device) : device(&device), numbers(device, 1) {}

  void execute(Frame &frame) override {
    parameters.readOwned(frame);
    gradients.readContiguous(frame);
    buffers.readOwned(frame);
    double lr = *rate.read(frame).const_data_ptr<double>() * rateScale;
    double share = momentum.read(frame);
    bool isFirst = *step.read(frame).const_data_ptr<float>() == 1.0f;
    if (device->isRecording()) {
      numbers.set(0, lr);
      numbers.send();
      at::_fused_sgd_(parameters.tensors, gradients.tensors, buffers.tensors, weightDecay, share,
                      numbers.get(0), dampening, nesterov, /*maximize=*/false, isFirst);
    } else {
      at::_fused_sgd_(parameters.tensors, gradients.tensors, buffers.tensors, weightDecay, share,
                      lr, dampening, nesterov, /*maximize=*/false, isFirst);
    }
    gradients.tensors.clear();
    parameters.write(frame);
    buffers.write(frame);
  }

  void refresh(Frame &frame) override {
    numbers.set(0, *rate.read(frame).const_data_ptr<double>() * rateScale);
    step.read(frame);
  }

private:
  const Device *device;
  DeviceNumbers numbers;
};
} // namespace

BindResult cleave::runtime::bindSGD(Binder &binder, ArrayRef<Operation *> ops) {
  auto first = cast<train::SGDOp>(ops.front());
  auto instruction = std::make_unique<SGD>(*binder.services().device);
  instruction->momentum.set(first.getMomentum());
  instruction->dampening = first.getDampening().convertToDouble();
  instruction->weightDecay = first.getWeightDecay().convertToDouble();
  instruction->nesterov = first.getNesterov();
  if (std::optional<llvm::APFloat> scale = first.getLrScale())
    instruction->rateScale = scale->convertToDouble();
  for (Operation *each : ops) {
    auto op = cast<train::SGDOp>(each);
    instruction->parameters.operands.push_back(binder.use(op.getParameter()));
    instruction->gradients.operands.push_back(binder.use(op.getGradient()));
    if (op.getMomentumBuffer())
      instruction->buffers.operands.push_back(binder.use(op.getMomentumBuffer()));
    instruction->step.operands.push_back(binder.use(op.getStep()));
    instruction->rate.operands.push_back(binder.use(op.getLr()));
    instruction->momentum.use(binder, op.getScheduledMomentum());
  }
  for (Operation *each : ops) {
    auto op = cast<train::SGDOp>(each);
    instruction->parameters.results.push_back(binder.define(op.getNewParameter()));
    if (op.getNewMomentumBuffer())
      instruction->buffers.results.push_back(binder.define(op.getNewMomentumBuffer()));
  }
  return instruction;
}
