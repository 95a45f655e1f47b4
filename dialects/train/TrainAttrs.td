//===- TrainAttrs.td - roles, phases, schedules, checkpoint tags -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_TRAINATTRS
#define CLEAVE_DIALECTS_TRAIN_TRAINATTRS

include "dialects/train/TrainBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Train_EnumAttr<string mnemonic, EnumAttrInfo info> : EnumAttr<Train_Dialect, info, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}
class Train_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::cleave::train";
  let genSpecializedAttr = 0;
}

def Train_Phase : Train_Enum<"Phase", "phase of a training step that a function implements", [
  I32EnumAttrCase<"Microbatch", 0, "microbatch">,
  I32EnumAttrCase<"Update", 1, "update">,
  I32EnumAttrCase<"Forward", 2, "forward">,
  I32EnumAttrCase<"Backward", 3, "backward">,
  I32EnumAttrCase<"BackwardInput", 4, "backward_input">,
  I32EnumAttrCase<"BackwardWeight", 5, "backward_weight">,
  I32EnumAttrCase<"Unshard", 6, "unshard">,
  I32EnumAttrCase<"Reduce", 7, "reduce">]>;
def Train_PhaseAttr : Train_EnumAttr<"phase", Train_Phase>;

def Train_RoleKind : Train_Enum<"RoleKind", "role of an argument or result in a training step", [
  I32EnumAttrCase<"Parameter", 0, "parameter">,
  I32EnumAttrCase<"Buffer", 1, "buffer">,
  I32EnumAttrCase<"Constant", 2, "constant">,
  I32EnumAttrCase<"Input", 3, "input">,
  I32EnumAttrCase<"Target", 4, "target">,
  I32EnumAttrCase<"Seed", 5, "seed">,
  I32EnumAttrCase<"Loss", 6, "loss">,
  I32EnumAttrCase<"Output", 7, "output">,
  I32EnumAttrCase<"Accumulator", 8, "accumulator">,
  I32EnumAttrCase<"Gradient", 9, "gradient">,
  I32EnumAttrCase<"OptimizerState", 10, "optimizer_state">,
  I32EnumAttrCase<"Step", 11, "step">,
  I32EnumAttrCase<"RngSeed", 12, "rng_seed">,
  I32EnumAttrCase<"RngOffset", 13, "rng_offset">,
  I32EnumAttrCase<"Saved", 14, "saved">,
  I32EnumAttrCase<"Crossing", 15, "crossing">,
  I32EnumAttrCase<"CrossingGradient", 16, "crossing_gradient">,
  I32EnumAttrCase<"StageSum", 17, "stage_sum">,
  I32EnumAttrCase<"LossScale", 18, "loss_scale">]>;

def Train_RoleAttr : AttrDef<Train_Dialect, "Role"> {
  let mnemonic = "role";
  let summary = "role of an argument or result in a training step";
  let description = [{
    `docs/ir.md` has the table of kinds.

    ```mlir
    #train.role<parameter "wte.weight" aliases ["lm_head.weight"]>
    #train.role<input "tokens" batch 0 over ["dp"]>
    #train.role<optimizer_state "wte.weight" slot "exp_avg">
    #train.role<loss>
    #train.role<saved "h.0.ln_1.0">
    ```
    - `slot`: name of the optimizer state;
    - `batch`: the dimension of the examples;
    - `over`: mesh axes that divide the examples;
    - `aliases`: other state-dict names of a tied parameter;
    - `frozen`: the parameter has no gradient.
  }];
  let parameters = (ins EnumParameter<Train_RoleKind>:$kind,
                        OptionalParameter<"::mlir::StringAttr">:$name,
                        OptionalParameter<"::mlir::StringAttr">:$slot,
                        OptionalParameter<"std::optional<int64_t>">:$batch,
                        OptionalParameter<"::mlir::ArrayAttr">:$over,
                        OptionalParameter<"::mlir::ArrayAttr">:$aliases,
                        OptionalParameter<"::mlir::UnitAttr">:$frozen);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static RoleAttr get(::mlir::MLIRContext *context, RoleKind kind, ::llvm::StringRef name = "");
    ::llvm::StringRef getNameOrEmpty() const { return getName() ? getName().getValue() : ""; }
    ::llvm::StringRef getSlotOrEmpty() const { return getSlot() ? getSlot().getValue() : ""; }
    /// Whether a result with role `other` is the new value of an argument with this role: the
    /// same kind, name and slot, or an accumulator and the gradient of the same name.
    bool isTiedTo(RoleAttr result) const;
    /// The name in files: `grad.w`, `buffer.b`, `loss`, `output.0`, `optim.w.exp_avg`, ...
    std::string getFileName() const;
  }];
}

def Train_TargetsAttr : AttrDef<Train_Dialect, "Targets"> {
  let mnemonic = "targets";
  let summary = "the targets that count in the mean of the loss";
  let description = [{
    The elements of an input or target of the whole microbatch that lie in a range of each
    dimension, but for those with the value that the loss ignores. As `train.mean_over` of a module
    it makes the loss of a step the mean over all of them, whatever microbatch and rank they are in;
    without it every microbatch counts the same.

    ```mlir
    module attributes {train.mean_over = #train.targets<"labels" except -100 from [0, 1] to [2, 64]>}
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$input, "int64_t":$ignored,
                        ArrayRefParameter<"int64_t">:$begin, ArrayRefParameter<"int64_t">:$end);
  let assemblyFormat = [{
    `<` $input `except` $ignored `from` ` ` `[` $begin `]` `to` ` ` `[` $end `]` `>`
  }];
  let genVerifyDecl = 1;
}

def Train_LossScalingAttr : AttrDef<Train_Dialect, "LossScaling"> {
  let mnemonic = "loss_scaling";
  let summary = "how the scale of the loss changes from step to step";
  let description = [{
    The rule of `torch.amp.GradScaler`. As `train.loss_scaling` of a module it multiplies the `seed` of each microbatch by the
    scale, which reduce functions take (`loss_scale`) to divide gradients by it. The scale is `init` at first. A step
    whose gradients are not all finite is skipped, and multiplies it by `backoff`; `interval` steps in a row that are
    not multiply it by `growth`. A skipped step is no step of the optimizer: the update of the next one has its number.

    ```mlir
    module attributes {train.loss_scaling = #train.loss_scaling<init = 6.5536e+04 : f64, growth = 2.0 : f64,
                                                                backoff = 5.0e-01 : f64, interval = 2000>}
    ```
  }];
  let parameters = (ins "::mlir::FloatAttr":$init, "::mlir::FloatAttr":$growth, "::mlir::FloatAttr":$backoff,
                        "int64_t":$interval);
  let assemblyFormat = "`<` struct($init, $growth, $backoff, $interval) `>`";
  let genVerifyDecl = 1;
}

def Train_ScheduleKind : Train_Enum<"ScheduleKind", "kind of learning rate schedule", [
  I32EnumAttrCase<"Constant", 0, "constant">,
  I32EnumAttrCase<"WarmupCosine", 1, "warmup_cosine">,
  I32EnumAttrCase<"Step", 2, "step">,
  I32EnumAttrCase<"Geometric", 3, "geometric">,
  I32EnumAttrCase<"Table", 4, "table">]>;

def Train_ScheduleAttr : AttrDef<Train_Dialect, "Schedule"> {
  let mnemonic = "schedule";
  let summary = "a factor as a function of the step";
  let description = [{
    With t = 0 for the first step, the factor is
    - `constant`: 1;
    - `warmup_cosine`: (t + 1) / warmup for t < warmup, then
      floor + (1 - floor) (1 + cos(pi (t - warmup) / (total - warmup))) / 2, and floor from
      `total` on;
    - `step`: factor^(t div every);
    - `geometric`: 1, multiplied by `factor` after every `every` steps. Each product is rounded, the first
      one with the op's base: what PyTorch's StepLR and ExponentialLR compute;
    - `table`: `values[i]` from t = `starts[i]` until the next start; without `starts` `values[t]`. The last
      value holds from then on, unless there is an `end`: then no run may have more steps than that.

    ```mlir
    #train.schedule<constant>
    #train.schedule<warmup_cosine, warmup = 100, total = 1000, floor = 1.0e-01 : f64>
    #train.schedule<step, every = 30, factor = 1.0e-01 : f64>
    #train.schedule<geometric, every = 30, factor = 1.0e-01 : f64>
    #train.schedule<table, starts = [0, 30], values = dense<[1.0e-01, 2.5e-02]> : tensor<2xf64>>
    #train.schedule<table, values = dense<[1.0e-01, 2.5e-02]> : tensor<2xf64>, end = 2>
    ```
  }];
  let parameters = (ins EnumParameter<Train_ScheduleKind>:$kind,
                        DefaultValuedParameter<"int64_t", "0">:$warmup,
                        DefaultValuedParameter<"int64_t", "0">:$total,
                        OptionalParameter<"::mlir::FloatAttr">:$floor,
                        DefaultValuedParameter<"int64_t", "0">:$every,
                        OptionalParameter<"::mlir::FloatAttr">:$factor,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$starts,
                        OptionalParameter<"::mlir::DenseFPElementsAttr">:$values,
                        DefaultValuedParameter<"int64_t", "0">:$end);
  let assemblyFormat = [{
    `<` $kind (`,` struct($warmup, $total, $floor, $every, $factor, $starts, $values, $end)^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Train_ThresholdMode : Train_Enum<"ThresholdMode", "what an improvement's threshold is relative to", [
  I32EnumAttrCase<"Relative", 0, "rel">,
  I32EnumAttrCase<"Absolute", 1, "abs">]>;

def Train_PlateauAttr : AttrDef<Train_Dialect, "Plateau"> {
  let mnemonic = "plateau";
  let summary = "reduction of the learning rate when the evaluation loss no longer improves";
  let description = [{
    `torch.optim.lr_scheduler.ReduceLROnPlateau` in mode `min`, fed by the loss of each evaluation of the run. A
    loss improves if it is less than the best one by `threshold`, of the best one (`rel`) or in itself (`abs`).
    After more than `patience` evaluations without an improvement, the rate is multiplied by `factor`, but
    is at least `min`, and stays where it would change by no more than `eps`; then `cooldown` evaluations do not count.

    ```mlir
    #train.plateau<rel, factor = 1.0e-01 : f64, patience = 10, threshold = 1.0e-04 : f64, cooldown = 0,
                   min = 0.0 : f64, eps = 1.0e-08 : f64>
    ```
  }];
  let parameters = (ins EnumParameter<Train_ThresholdMode>:$mode, "::mlir::FloatAttr":$factor,
                        "int64_t":$patience, "::mlir::FloatAttr":$threshold, "int64_t":$cooldown,
                        "::mlir::FloatAttr":$min, "::mlir::FloatAttr":$eps);
  let assemblyFormat = "`<` $mode `,` struct($factor, $patience, $threshold, $cooldown, $min, $eps) `>`";
  let genVerifyDecl = 1;
}

def Train_CheckpointPolicy : Train_Enum<"CheckpointPolicy", "activation-checkpointing policy of a value", [
  I32EnumAttrCase<"MustSave", 0, "must_save">,
  I32EnumAttrCase<"PreferSave", 1, "prefer_save">,
  I32EnumAttrCase<"MustRecompute", 2, "must_recompute">,
  I32EnumAttrCase<"PreferRecompute", 3, "prefer_recompute">]>;

def Train_CheckpointAttr : AttrDef<Train_Dialect, "Checkpoint"> {
  let mnemonic = "checkpoint";
  let summary = "activation-checkpointing tag of an op";
  let description = [{
    Tag of `torch.utils.checkpoint` for the op's results: a policy (`must_save`, `prefer_save`,
    `must_recompute`, `prefer_recompute`) and the checkpointed region that contains it.

    ```mlir
    train.checkpoint = #train.checkpoint<prefer_recompute, graph 3>
    ```
  }];
  let parameters = (ins EnumParameter<Train_CheckpointPolicy>:$policy, "int64_t":$graph);
  let assemblyFormat = "`<` $policy `,` `graph` $graph `>`";
}

#endif // CLEAVE_DIALECTS_TRAIN_TRAINATTRS
