//===- Passes.td - passes that take a microbatch apart ----------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_BACKWARD_PASSES
#define CLEAVE_PASSES_BACKWARD_PASSES

include "mlir/Pass/PassBase.td"

def PartitionJoint : Pass<"partition-joint", "::mlir::ModuleOp"> {
  let summary = "part a microbatch into forward and backward, with a list of saved values";
  let description = [{
    Replaces the function of phase `microbatch` by one of phase `forward` and one of phase `backward`
    (`docs/ir.md`, "Forward and backward"; `docs/backward.md` has the reasons). What depends on the
    seed is backward; values that it needs of the forward have the role `saved`, or are computed
    again. Parameters, inputs and random state are arguments of both.

    Policies:
    - `save-all`: saves what the backward uses of the forward;
    - `min-cut`: saves as few bytes as recomputation allows; `recompute` says of which ops: `views`
      (and constants), `cheap` (also pointwise ops, conversions and copies), or `all`.

    Activation-checkpoint tags (`train.checkpoint`) bind both policies: tagged `must_recompute` or
    `prefer_recompute`, an op is computed again from what enters its region; tagged `must_save` or
    `prefer_save`, it is not computed again. Random ops draw the same numbers again. Ops of the
    backward that compute again are marked `train.recomputed`.

    Before:
    ```mlir
    func.func @microbatch(%x, %w, %s) -> (loss, gradient "w") {
      %h = aten.mm(%x, %w) ...
      %c = aten.cos(%h) ...
      %loss = aten.mean(%c) ...
      %0 = aten.sin(%h) ...
      ...
    ```
    After:
    ```mlir
    func.func @forward(%x, %w) -> (loss, saved "mm") {...}
    func.func @backward(%x, %s, %h: saved "mm") -> (gradient "w") {
      %0 = aten.sin(%h) ...
      ...
    ```

    A program without a backward, or one that is in parts already, is refused.
  }];
  let options = [
    Option<"policy", "policy", "::cleave::backward::PartitionPolicy",
           "::cleave::backward::PartitionPolicy::MinCut", "What is saved",
           [{::llvm::cl::values(
              clEnumValN(::cleave::backward::PartitionPolicy::MinCut, "min-cut", "As few bytes as recomputation allows"),
              clEnumValN(::cleave::backward::PartitionPolicy::SaveAll, "save-all", "All that the backward uses"))}]>,
    Option<"recompute", "recompute", "::cleave::backward::RecomputeLevel",
           "::cleave::backward::RecomputeLevel::Cheap", "What min-cut may compute again",
           [{::llvm::cl::values(
              clEnumValN(::cleave::backward::RecomputeLevel::Views, "views", "Views and constants"),
              clEnumValN(::cleave::backward::RecomputeLevel::Cheap, "cheap", "Also pointwise ops, conversions and copies"),
              clEnumValN(::cleave::backward::RecomputeLevel::All, "all", "Everything"))}]>,
    Option<"explain", "explain", "bool", "false", "Print both functions, the saved values and their memory">,
    Option<"json", "json", "std::string", "\"\"", "Write what explain prints to this file, as JSON">
  ];
  let statistics = [
    Statistic<"numSaved", "saved values", "Values that the forward saves">,
    Statistic<"savedBytes", "saved bytes", "Their bytes; memory that several share counts once">,
    Statistic<"numRecomputed", "recomputed ops", "Ops that the backward computes again">
  ];
  let dependentDialects = ["::cleave::train::TrainDialect"];
}

def SplitBackward : Pass<"split-backward", "::mlir::ModuleOp"> {
  let summary = "backward into backward-input (dI) and backward-weight (dW)";
  let description = [{
    Replaces the function of phase `backward` by two. `backward_input` gives the gradients of inputs,
    which the previous pipeline stage waits for; `backward_weight` gives those of parameters, at any
    later time, from saved values and from what `backward_input` has computed on its way. Zero-bubble
    schedules fill their bubbles with the second (Qi et al., arXiv 2401.10241). Gradients come out bit
    for bit as without the split.

    Which is which is read from roles. An op with an `output_mask` is divided: one instance computes
    the gradient of its input, another those of weight and bias. What is held between the halves is a
    minimum cut by bytes, through which views are computed again in `backward_weight`; with
    `recompute=cheap` also elementwise ops and conversions, where that holds less. Ops computed again
    are marked `train.recomputed`. `explain` prints sizes of the halves and what is held.

    A first stage has no gradient of an input, so that its `backward_input` is empty. With `inputs`,
    gradients of activations take their place, and ops that make them are marked
    `train.activation_gradient`: `inputs=activations` splits at every gradient of an activation that
    one of a parameter starts from, `inputs=h.0` at those that leave module `h.0` for another.

    Needs a program that `--partition-joint` has divided.

    Before:
    ```mlir
    func.func @backward(%w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
                        %x: tensor<4x8xf32> {train.role = #train.role<saved "x">},
                        %g: tensor<4x8xf32> {train.role = #train.role<saved "g">})
        -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">},
            tensor<4x8xf32> {train.role = #train.role<gradient "input">})
        attributes {train.phase = #train.phase<backward>} {
      %r = aten.relu(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %rt = aten.t(%r) : (tensor<4x8xf32>) -> tensor<8x4xf32>
      %dw = aten.mm(%rt, %x) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
      %dx = aten.mm(%r, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      return %dw, %dx : tensor<8x8xf32>, tensor<4x8xf32>
    }
    ```
    After:
    ```mlir
    func.func @backward_input(%w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
                              %g: tensor<4x8xf32> {train.role = #train.role<saved "g">})
        -> (tensor<4x8xf32> {train.role = #train.role<gradient "input">},
            tensor<4x8xf32> {train.role = #train.role<saved "relu">})
        attributes {train.phase = #train.phase<backward_input>} {
      %r = aten.relu(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %dx = aten.mm(%r, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      return %dx, %r : tensor<4x8xf32>, tensor<4x8xf32>
    }
    func.func @backward_weight(%x: tensor<4x8xf32> {train.role = #train.role<saved "x">},
                               %r: tensor<4x8xf32> {train.role = #train.role<saved "relu">})
        -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">})
        attributes {train.phase = #train.phase<backward_weight>} {
      %rt = aten.t(%r) : (tensor<4x8xf32>) -> tensor<8x4xf32>
      %dw = aten.mm(%rt, %x) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
      return %dw : tensor<8x8xf32>
    }
    ```
  }];
  let options = [
    Option<"inputs", "inputs", "std::string", "\"roles\"",
           "What backward_input is for besides gradients of inputs: 'roles' (nothing), 'activations', or module paths">,
    Option<"recompute", "recompute", "std::string", "\"none\"",
           "What backward_weight may compute again: 'none' (but views), or 'cheap'">,
    Option<"explain", "explain", "bool", "false", "Print the halves and the memory held between them">
  ];
  let statistics = [
    Statistic<"numInputOps", "ops in backward_input", "Ops of the backward-input">,
    Statistic<"numWeightOps", "ops in backward_weight", "Ops of the backward-weight">,
    Statistic<"numDividedOps", "ops divided by output mask", "Ops with an instance in each half">,
    Statistic<"numRecomputedOps", "ops computed again", "Ops of backward_input that backward_weight repeats">,
    Statistic<"numHeldBytes", "bytes held", "Bytes held from backward_input to backward_weight, for one microbatch">
  ];
  let dependentDialects = ["::cleave::train::TrainDialect"];
}

def VerifySplitBackward : Pass<"verify-split-backward", "::mlir::ModuleOp"> {
  let summary = "check that each half of a split backward holds what it should";
  let description = [{
    `backward_input` must hold nothing that only a parameter's gradient needs, `backward_weight`
    nothing that `backward_input` computes, except ops marked `train.recomputed`. `--split-backward`
    checks this by itself; this pass is for programs that were edited afterwards.
  }];
}

def SplitFsdpCollectives : Pass<"split-fsdp-collectives", "::mlir::ModuleOp"> {
  let summary = "gather parameters and reduce gradients once a step, not once a microbatch";
  let description = [{
    Under fully sharded data parallelism each microbatch gathers every parameter and reduces and
    scatters every gradient. This pass moves that out of the microbatch:

    - what is made from parameters alone by `all_gather`, waits, placement conversions, casts and
      copies goes to a function of phase `unshard`, which runs before a step's first microbatch.
      Microbatches take the result as a saved value, views are made where they are used, and a
      gather that forward and backward both have is one;
    - the reductions at the end of a parameter's gradient (`reduce_scatter`, `all_reduce`, or both
      under hybrid sharding; of sums and means) go to a function of phase `reduce`, which runs after
      the last microbatch, with the casts to a narrower type before them and the linear ops behind
      them. Views, transpositions and conversions from `R` to `I` behind a reduction stay in the
      microbatch, in front of it, so that what is reduced has the parameter's dimensions.
      Microbatches accumulate before the reduction, so *accumulator and gradient of the
      microbatch have the type of the whole gradient on the rank*; the update gets the reduced one,
      as before. Where the accumulator had a wider element type than what was reduced, the
      accumulated gradient keeps the wider type, and is reduced in it.

    All other communication stays. The program may be a joint microbatch, forward and backward, or
    have a split backward: the results are the same. With several microbatches sums are taken in
    another order than without the pass. `explain` prints the memory that it costs.

    Before, in the backward:
    ```mlir
    %w1 = dist.all_gather(%w) dim 0 over @mesh ["fsdp"] : tensor<4x8xf32> -> tensor<8x8xf32>
    ...
    %d1 = dist.reduce_scatter sum(%d) dim 0 over @mesh ["fsdp"] : tensor<8x8xf32> -> tensor<4x8xf32>
    %sum = train.accumulate %d1 into %acc : tensor<4x8xf32>
    ```
    After:
    ```mlir
    // unshard
    %w1 = dist.all_gather(%w) dim 0 over @mesh ["fsdp"] : tensor<4x8xf32> -> tensor<8x8xf32>
    // backward
    %sum = train.accumulate %d into %acc : tensor<8x8xf32>
    // reduce
    %d1 = dist.reduce_scatter sum(%sum) dim 0 over @mesh ["fsdp"] : tensor<8x8xf32> -> tensor<4x8xf32>
    ```
  }];
  let options = [
    Option<"unshard", "unshard", "bool", "true", "Move the gathers of parameters">,
    Option<"reduce", "reduce", "bool", "true", "Move the reductions of gradients">,
    Option<"explain", "explain", "bool", "false", "Print what moved and the memory that it costs">
  ];
  let statistics = [
    Statistic<"numGathers", "gathers moved", "all_gathers that left the microbatch">,
    Statistic<"numReductions", "reductions moved", "Reductions that left the microbatch">
  ];
  let dependentDialects = ["::cleave::aten::AtenDialect", "::cleave::dist::DistDialect",
                           "::cleave::train::TrainDialect"];
}

#endif // CLEAVE_PASSES_BACKWARD_PASSES
