//===- Train.td - ops of the train dialect ----------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_TRAIN
#define CLEAVE_DIALECTS_TRAIN_TRAIN

include "dialects/train/Buckets.td"
include "dialects/sharding/ShardingRuleInterface.td"
include "dialects/train/TrainAttrs.td"
include "dialects/train/TrainInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Train_Op<string mnemonic, list<Trait> traits = []>
    : Op<Train_Dialect, mnemonic,
         [Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["getShardingRule"]>] # traits> {
  // Operands in which the op is jointly linear.
  list<int> linear = [];
  // All these ops are elementwise, with 0-d step and rate.
  let extraClassDefinition = [{
    ::cleave::sharding::ShardingRule $cppClass::getShardingRule() {
      ::cleave::sharding::RuleBuilder rule(*this);
      rule.pointwise();
      rule.linear(::llvm::ArrayRef<unsigned>({}] # !interleave(linear, ", ") # [{}));
      return rule.finish();
    }
  }];
}

def Train_ProgramOp : Op<Train_Dialect, "program", [
    HasParent<"::mlir::ModuleOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "declares that the module's phase functions form a complete program";
  let description = [{
    Functions are verified one by one; this op verifies, after each pass, that they are consistent with
    each other. A module without it may hold an incomplete program, such as an update whose gradients
    `--autodiff` has yet to compute; a pass that needs a complete program then checks it itself.

    Constraints:
    1. A module has at most one `train.program`.
    2. For each class of ranks, the module's phase functions form a program as described in
       `docs/ir.md`: the phases are complete, they agree on parameters, inputs and saved values, each
       stage returns the values that the next one takes, and the gradients that the update takes are
       computed.

    ```mlir
    train.program
    ```
  }];
  let assemblyFormat = "attr-dict";
}

// What gradients, and what optimizers update, are made of: floating-point or complex numbers.
def Train_FloatTensor : StaticShapeTensorOf<[F16, BF16, F32, F64, Complex<F32>, Complex<F64>]>;
// A 0-d tensor; its encoding, if any, is a placement.
class Train_Scalar<string element, string name>
    : Type<CPred<"::cleave::train::isScalarTensor($_self, ::mlir::Builder($_self.getContext())." # element # "())">,
           name # " scalar (0-d tensor)", "::mlir::RankedTensorType">;
def Train_StepTensor : Train_Scalar<"getF32Type", "f32">;
def Train_RateTensor : Train_Scalar<"getF64Type", "f64">;

def Train_AccumulateOp : Train_Op<"accumulate", [AllTypesMatch<["accumulator", "result"]>]> {
  let summary = "add a microbatch's gradient to the step's accumulator";
  let description = [{
    The result is tied to `accumulator`. With an *empty* accumulator (the first microbatch
    of a step) it is the gradient itself, bit for bit. Gradients of narrower types may be added up in f32.

    Constraints:
    1. Gradient and accumulator have the same type, or the gradient has elements of type bf16 or f16 where those of the
       accumulator are f32.

    ```mlir
    %sum = train.accumulate %grad into %acc : tensor<8x8xf32>
    %sum = train.accumulate %grad into %acc : tensor<8x8xbf16> into tensor<8x8xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$gradient, Train_FloatTensor:$accumulator);
  let linear = [0, 1];
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = [{
    $gradient `into` $accumulator attr-dict `:` custom<AccumulatedTypes>(type($gradient), type($accumulator))
  }];
  let hasVerifier = 1;
}

def Train_LearningRateOp : Train_Op<"learning_rate"> {
  let summary = "the learning rate of a step";
  let description = [{
    `base` times the schedule's factor; `step` counts from 1. With a `plateau`, `base` is reduced whenever the
    evaluations of the run say so: between two of them the rate is a function of the step alone. `group` numbers the
    parameter group whose rate it is: the caller may set that group's rate at each step instead.

    Constraints:
    1. `base` is finite and not negative.
    2. `group` is not negative.
    3. A `plateau` has the constant schedule.

    ```mlir
    %lr = train.learning_rate(%step) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>}
        : (tensor<f32>) -> tensor<f64>
    ```
  }];
  let arguments = (ins Train_StepTensor:$step, F64Attr:$base, Train_ScheduleAttr:$schedule,
                       OptionalAttr<Train_PlateauAttr>:$plateau,
                       OptionalAttr<I64Attr>:$group);
  let results = (outs Train_RateTensor:$result);
  let assemblyFormat = "`(` $step `)` attr-dict `:` functional-type($step, $result)";
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
}

def Train_HyperparameterOp : Train_Op<"hyperparameter"> {
  let summary = "a number of the optimizer, other than the learning rate, that changes from step to step";
  let description = [{
    The schedule's factor; `step` counts from 1. `torch.optim.lr_scheduler.OneCycleLR` and `CyclicLR` write
    the momentum, or the first beta, besides the rate. With a `group` the caller may set the number at each step instead:
    groups are counted together with those of `train.learning_rate`.

    Constraints:
    1. The schedule is a table.
    2. `group` is not negative.

    ```mlir
    %beta1 = train.hyperparameter(%step) {name = "beta1",
        schedule = #train.schedule<table, values = dense<[9.5e-01, 8.5e-01]> : tensor<2xf64>, end = 2>}
        : (tensor<f32>) -> tensor<f64>
    %momentum = train.hyperparameter(%step) {name = "momentum", group = 1 : i64,
        schedule = #train.schedule<table, starts = [0], values = dense<[9.0e-01]> : tensor<1xf64>>}
        : (tensor<f32>) -> tensor<f64>
    ```
  }];
  let arguments = (ins Train_StepTensor:$step, StrAttr:$name, Train_ScheduleAttr:$schedule,
                       OptionalAttr<I64Attr>:$group);
  let results = (outs Train_RateTensor:$result);
  let assemblyFormat = "`(` $step `)` attr-dict `:` functional-type($step, $result)";
  let hasVerifier = 1;
}

def Train_AdamWOp : Train_Op<"adamw", [
    OptimizerStepOpInterface,
    AllTypesMatch<["parameter", "gradient", "expAvg", "expAvgSq", "newParameter", "newExpAvg", "newExpAvgSq"]>]> {
  let summary = "one step of AdamW for one parameter (Loshchilov and Hutter, arXiv 1711.05101)";
  let description = [{
    The update of `torch.optim.AdamW(fused=True)`, executed by `aten::_fused_adamw_`. Results are tied
    to `parameter`, `expAvg` and `expAvgSq`. `lr_scale` multiplies the learning rate for this
    parameter's group. Complex tensors are updated part by part, as PyTorch does. If `step` or `lr` has a placement, the types of both follow that of the
    parameter. A `beta1` that changes from step to step is an operand, of the type of `lr`, instead of an attribute.

    Constraints:
    1. 0 <= beta1, beta2 < 1; eps >= 0; weight_decay >= 0.
    2. `beta1` is an attribute or an operand, and not both.

    ```mlir
    %p1, %m1, %v1 = train.adamw(%p, %g, %m, %v, %step, %lr)
        {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-08 : f64, weight_decay = 0.01 : f64}
        : tensor<8x8xf32>
    %p2, %m2, %v2 = train.adamw(%p1, %g, %m1, %v1, %step, %lr) beta1 %beta1
        {beta2 = 0.999 : f64, eps = 1.0e-08 : f64, weight_decay = 0.01 : f64} : tensor<8x8xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$parameter, Train_FloatTensor:$gradient,
                       Train_FloatTensor:$expAvg, Train_FloatTensor:$expAvgSq,
                       Train_StepTensor:$step, Train_RateTensor:$lr,
                       Optional<Train_RateTensor>:$scheduledBeta1,
                       OptionalAttr<F64Attr>:$beta1, F64Attr:$beta2, F64Attr:$eps, F64Attr:$weight_decay,
                       OptionalAttr<F64Attr>:$lr_scale);
  let results = (outs Train_FloatTensor:$newParameter, Train_FloatTensor:$newExpAvg,
                      Train_FloatTensor:$newExpAvgSq);
  let extraClassDeclaration = "::mlir::Value getScheduledNumber() { return getScheduledBeta1(); }";
  let hasCustomAssemblyFormat = 1;
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
}

def Train_SGDOp : Train_Op<"sgd", [OptimizerStepOpInterface, AttrSizedOperandSegments]> {
  let summary = "one step of stochastic gradient descent for one parameter";
  let description = [{
    The update of `torch.optim.SGD(fused=True)`, executed by `aten::_fused_sgd_`. With momentum, the
    momentum buffer is an operand and a result; in step 1 its value is not read: the gradient becomes
    the buffer. Results are tied to `parameter` and `momentumBuffer`. Complex tensors are updated part by part. Types are written as in
    `train.adamw`. A `momentum` that changes from step to step is an operand, of the type of `lr`, instead of an attribute.

    Constraints:
    1. 0 <= momentum; 0 <= weight_decay; nesterov needs momentum and no dampening.
    2. There is a momentum buffer if and only if momentum is an operand or not 0.
    3. Parameter, gradient, buffer and results have the same type.
    4. `momentum` is an attribute or an operand, and not both.

    ```mlir
    %p1, %b1 = train.sgd(%p, %g, %b, %step, %lr)
        {momentum = 0.9 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64}
        : tensor<8x8xf32>
    %p2, %b2 = train.sgd(%p1, %g, %b1, %step, %lr) momentum %momentum
        {dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8x8xf32>
    ```
  }];
  let arguments = (ins Train_FloatTensor:$parameter, Train_FloatTensor:$gradient,
                       Optional<Train_FloatTensor>:$momentumBuffer,
                       Train_StepTensor:$step, Train_RateTensor:$lr,
                       Optional<Train_RateTensor>:$scheduledMomentum,
                       OptionalAttr<F64Attr>:$momentum, F64Attr:$dampening, BoolAttr:$nesterov,
                       F64Attr:$weight_decay, OptionalAttr<F64Attr>:$lr_scale);
  let results = (outs Train_FloatTensor:$newParameter, Optional<Train_FloatTensor>:$newMomentumBuffer);
  let extraClassDeclaration = "::mlir::Value getScheduledNumber() { return getScheduledMomentum(); }";
  let hasCustomAssemblyFormat = 1;
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_TRAIN_TRAIN
