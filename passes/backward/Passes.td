//===- Passes.td - passes that split a microbatch ----------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_BACKWARD_PASSES
#define CLEAVE_PASSES_BACKWARD_PASSES

include "mlir/Pass/PassBase.td"

def PartitionJoint : Pass<"partition-joint", "::mlir::ModuleOp"> {
  let summary = "split a microbatch into forward and backward, with a list of saved values";
  let description = [{
    Replaces the function of phase `microbatch` by one of phase `forward` and one of phase `backward`
    (`docs/ir.md`, "Forward and backward"; `docs/backward.md` gives the rationale). Ops that depend on
    the seed are backward; forward values that they need have the role `saved`, or are recomputed.
    Parameters, inputs and random state are arguments of both.

    Policies:
    - `save-all`: saves every forward value that the backward uses;
    - `min-cut`: saves as few bytes as recomputation allows; `recompute` selects the ops: `views`
      (and constants), `cheap` (also pointwise ops, conversions and copies), `gathers` (also all_gathers, so
      that shards are saved), or `all`;
    - `budget`: the least recomputation with which the peak of a step on a rank, as
      `cleave-run --dry-run` reports it, is at most `memory` (`memory=80GiB`). Of each value it is decided
      whether it is saved, recomputed, or gathered again; `recompute` restricts that (default here:
      `all`). A smaller `memory` never gives a higher peak. One that is too small is an error that says
      what is needed at least. `microbatches`: how many a step has; `lowered`: the peak is that of the
      program after `--lower-to-exec`, in which memory for all gradients is there from the start.
      `offload`: saved values may also wait in host memory (`dist.offload`, `dist.reload`), which `memory`
      does not count. `cluster`: a file that describes the device whose times count, and its link to
      the host (`docs/prediction.md`); without one those of a nominal device do. `graph`: a file for
      what is searched in numbers, with which others can check the choice (`bench/budget_mip.py`).

    All policies respect activation-checkpoint tags (`train.checkpoint`): an op tagged
    `must_recompute` or `prefer_recompute` is recomputed from the inputs of its region; one tagged
    `must_save` or `prefer_save` is not recomputed. Random ops draw the same numbers again. Recomputed
    ops are marked `train.recomputed`.

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

    A program without a backward, or one already split, is rejected.
  }];
  let options = [
    Option<"policy", "policy", "::cleave::backward::PartitionPolicy",
           "::cleave::backward::PartitionPolicy::MinCut", "what to save",
           [{::llvm::cl::values(
              clEnumValN(::cleave::backward::PartitionPolicy::MinCut, "min-cut", "as few bytes as recomputation allows"),
              clEnumValN(::cleave::backward::PartitionPolicy::SaveAll, "save-all", "everything that the backward uses"),
              clEnumValN(::cleave::backward::PartitionPolicy::Budget, "budget", "as much as 'memory' allows, to recompute little"))}]>,
    Option<"memory", "memory", "std::string", "\"\"", "what a step may need with policy=budget: bytes, or such as 80GiB">,
    Option<"microbatches", "microbatches", "int64_t", "1", "microbatches per step, for policy=budget">,
    Option<"lowered", "lowered", "bool", "false", "whether policy=budget is for a program that --lower-to-exec lowers">,
    Option<"offloads", "offload", "bool", "false", "whether policy=budget may keep saved values in host memory">,
    Option<"cluster", "cluster", "std::string", "\"\"", "description of the cluster whose times policy=budget compares (empty: those of a nominal device)">,
    Option<"recompute", "recompute", "::cleave::backward::RecomputeLevel",
           "::cleave::backward::RecomputeLevel::Cheap", "what min-cut and budget may recompute (default for budget: all)",
           [{::llvm::cl::values(
              clEnumValN(::cleave::backward::RecomputeLevel::Views, "views", "views and constants"),
              clEnumValN(::cleave::backward::RecomputeLevel::Cheap, "cheap", "also pointwise ops, conversions and copies"),
              clEnumValN(::cleave::backward::RecomputeLevel::Gathers, "gathers", "also all_gathers: shards are saved"),
              clEnumValN(::cleave::backward::RecomputeLevel::All, "all", "everything"))}]>,
    Option<"explain", "explain", "bool", "false", "print both functions, the saved values and their memory">,
    Option<"json", "json", "std::string", "\"\"", "write what explain prints to a JSON file">,
    Option<"graphFile", "graph", "std::string", "\"\"", "write ops and values with their times and bytes, as policy=budget counts them, to a JSON file">
  ];
  let statistics = [
    Statistic<"numSaved", "saved values", "values that the forward saves">,
    Statistic<"savedBytes", "saved bytes", "bytes of the saved values; shared memory counts once">,
    Statistic<"numRecomputed", "recomputed ops", "forward ops recomputed in the backward">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

def OffloadSaved : Pass<"offload-saved", "::mlir::ModuleOp"> {
  let summary = "keep saved values in host memory between the functions of a microbatch";
  let description = [{
    Values that one function of a microbatch saves for another one are copied to host memory as soon as
    they are made (`dist.offload`), and back in each function that takes them (`dist.reload`): before the
    last product of matrices ahead of the first use, beside which the copy runs, or else right before that use. In
    between they need no memory of the device. What stays on the device anyway, such as parameters, inputs,
    and what is returned too, is not copied.

    By default all saved values of at least `min-bytes` are offloaded; `values` names some instead. The
    program may be in stages, and its backward split.

    Before:
    ```mlir
    func.func @forward(%x, %w) -> (loss, saved "mm") {
      %h = aten.mm(%x, %w) ...
      ...
      return %loss, %h
    }
    func.func @backward(%x, %s, %h: saved "mm") -> (gradient "w") {
      ...
    ```
    After:
    ```mlir
    func.func @forward(%x, %w) -> (loss, saved "mm": !dist.host) {
      %h = aten.mm(%x, %w) ...
      %c = dist.offload %h ...
      ...
      return %loss, %c
    }
    func.func @backward(%x, %s, %c: saved "mm") -> (gradient "w") {
      %h = dist.reload %c ...
      ...
    ```
  }];
  let options = [
    Option<"minBytes", "min-bytes", "std::string", "\"1MiB\"", "the least that is worth a copy: bytes, or such as 16MiB">,
    ListOption<"values", "values", "std::string", "names of saved values to offload, whatever their size">
  ];
  let statistics = [
    Statistic<"numOffloaded", "offloaded", "values offloaded">,
    Statistic<"offloadedBytes", "offloaded bytes", "bytes of the memory that they no longer need">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def SplitBackward : Pass<"split-backward", "::mlir::ModuleOp"> {
  let summary = "split the backward into backward-input (dI) and backward-weight (dW)";
  let description = [{
    Replaces the function of phase `backward` by two. `backward_input` computes the gradients of
    inputs, which the previous pipeline stage waits for; `backward_weight` computes those of
    parameters, at any later time, from saved values and intermediate results of `backward_input`.
    Zero-bubble schedules fill their bubbles with the latter (Qi et al., arXiv 2401.10241). Gradients
    are bitwise identical to those of the unsplit backward.

    Roles determine which half an op belongs to. An op with an `output_mask` is divided: one instance
    computes the gradient of its input, another those of weight and bias. The values held between the
    halves are a minimum cut by bytes. `backward_weight` recomputes views; with `recompute=cheap` also
    elementwise ops and conversions, if that holds fewer bytes. Recomputed ops are marked
    `train.recomputed`. `explain` prints the sizes of the halves and the values held.

    The first stage has no input gradients, so its `backward_input` is empty. With `inputs`, gradients
    of activations take their place, and ops that compute them are marked
    `train.activation_gradient`: `inputs=activations` splits at every activation gradient from which a
    parameter gradient is computed, `inputs=h.0` at those that leave module `h.0`.

    Requires a program split by `--partition-joint`.

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
           "what backward_input computes besides gradients of inputs: 'roles' (nothing), 'activations', or module paths">,
    Option<"recompute", "recompute", "::cleave::backward::RecomputeLevel",
           "::cleave::backward::RecomputeLevel::Views", "what backward_weight may recompute",
           [{::llvm::cl::values(
              clEnumValN(::cleave::backward::RecomputeLevel::Views, "none", "nothing but views"),
              clEnumValN(::cleave::backward::RecomputeLevel::Cheap, "cheap", "also pointwise ops, conversions and copies"))}]>,
    Option<"explain", "explain", "bool", "false", "print the halves and the memory held between them">
  ];
  let statistics = [
    Statistic<"numInputOps", "ops in backward_input", "ops of the backward-input">,
    Statistic<"numWeightOps", "ops in backward_weight", "ops of the backward-weight">,
    Statistic<"numDividedOps", "ops divided by output mask", "ops with an instance in each half">,
    Statistic<"numRecomputedOps", "ops recomputed", "ops of backward_input that backward_weight recomputes">,
    Statistic<"numHeldBytes", "bytes held", "bytes held from backward_input to backward_weight, per microbatch">
  ];
  let dependentDialects = ["::cleave::train::TrainDialect"];
}

def VerifySplitBackward : Pass<"verify-split-backward", "::mlir::ModuleOp"> {
  let summary = "check that the halves of a split backward do not overlap";
  let description = [{
    `backward_input` must not contain ops that only a parameter's gradient needs, and
    `backward_weight` none that `backward_input` computes, except ops marked `train.recomputed`.
    `--split-backward` checks this itself; this pass is for programs edited afterwards.
  }];
}

def SplitFsdpCollectives : Pass<"split-fsdp-collectives", "::mlir::ModuleOp"> {
  let summary = "gather parameters and reduce gradients once per step, not once per microbatch";
  let description = [{
    Under fully sharded data parallelism each microbatch gathers every parameter and reduces and
    scatters every gradient. This pass moves that out of the microbatch:

    - values computed from parameters alone by `all_gather`, waits, placement conversions, casts and
      copies go to a function of phase `unshard`, which runs before a step's first microbatch.
      Microbatches take the result as a saved value, views stay where they are used, and a
      gather common to forward and backward runs once;
    - the reductions at the end of a parameter's gradient (`reduce_scatter`, `all_reduce`, or both
      under hybrid sharding; of sums and means) go to a function of phase `reduce`, which runs after
      the last microbatch, with the preceding casts to a narrower type and the linear ops that
      follow. Views, transpositions and conversions from `R` to `I` after a reduction stay in the
      microbatch, before it, so that the reduced value has the parameter's dimensions.
      Microbatches accumulate before the reduction, so *accumulator and gradient of the
      microbatch have the type of the rank's unreduced gradient*; the update consumes the reduced one,
      as before. If the accumulator had a wider element type than the reduced value, the
      accumulated gradient keeps the wider type and is reduced in it.

    All other communication stays. The microbatch may be joint, split into forward and backward, or
    have a split backward; the results are the same. With several microbatches the order of
    summation changes. `explain` prints the memory cost.

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
    Option<"unshard", "unshard", "bool", "true", "move the gathers of parameters">,
    Option<"reduce", "reduce", "bool", "true", "move the reductions of gradients">,
    Option<"explain", "explain", "bool", "false", "print what moved and its memory cost">
  ];
  let statistics = [
    Statistic<"numGathers", "gathers moved", "all-gathers moved out of the microbatch">,
    Statistic<"numReductions", "reductions moved", "reductions moved out of the microbatch">
  ];
  let dependentDialects = ["::cleave::aten::AtenDialect", "::cleave::dist::DistDialect",
                           "::cleave::train::TrainDialect"];
}

#endif // CLEAVE_PASSES_BACKWARD_PASSES
