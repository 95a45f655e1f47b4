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
  I32EnumAttrCase<"StageSum", 17, "stage_sum">]>;

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

def Train_ScheduleKind : Train_Enum<"ScheduleKind", "kind of learning rate schedule", [
  I32EnumAttrCase<"Constant", 0, "constant">,
  I32EnumAttrCase<"WarmupCosine", 1, "warmup_cosine">,
  I32EnumAttrCase<"Step", 2, "step">]>;

def Train_ScheduleAttr : AttrDef<Train_Dialect, "Schedule"> {
  let mnemonic = "schedule";
  let summary = "the learning rate's factor as a function of the step";
  let description = [{
    With t = 0 for the first step, the factor is
    - `constant`: 1;
    - `warmup_cosine`: (t + 1) / warmup for t < warmup, then
      floor + (1 - floor) (1 + cos(pi (t - warmup) / (total - warmup))) / 2, and floor from
      `total` on;
    - `step`: factor^(t div every).

    ```mlir
    #train.schedule<constant>
    #train.schedule<warmup_cosine, warmup = 100, total = 1000, floor = 1.0e-01 : f64>
    #train.schedule<step, every = 30, factor = 1.0e-01 : f64>
    ```
  }];
  let parameters = (ins EnumParameter<Train_ScheduleKind>:$kind,
                        DefaultValuedParameter<"int64_t", "0">:$warmup,
                        DefaultValuedParameter<"int64_t", "0">:$total,
                        OptionalParameter<"::mlir::FloatAttr">:$floor,
                        DefaultValuedParameter<"int64_t", "0">:$every,
                        OptionalParameter<"::mlir::FloatAttr">:$factor);
  let assemblyFormat = "`<` $kind (`,` struct($warmup, $total, $floor, $every, $factor)^)? `>`";
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
