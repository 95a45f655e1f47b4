//===- Passes.td - passes over placements -----------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_PLACEMENT_PASSES
#define CLEAVE_PASSES_PLACEMENT_PASSES

include "mlir/Pass/PassBase.td"

def CheckSpmdTypes : Pass<"check-spmd-types", "::mlir::ModuleOp"> {
  let summary = "refuse a program whose placements are wrong: a missing, doubled or misplaced reduction";
  let description = [{
    Types every function in which a tensor has a placement: what each op declares must be what
    `docs/types.md` allows for its operands, and the signature must fit the roles of its arguments and
    results (a gradient's type is dual to its parameter's, a loss is `I` or `P`). Functions without
    placements pass. The program stays as it is.

    An error names the op, the axis and the types, says what to insert, and has a note where the operand
    comes from; `docs/type-checking.md` explains them. cleave-opt runs this pass by itself after each of
    Cleave's passes (not with `--verify-types=false`), and the runtime checks a program when it loads it.

    For
    ```mlir
    %h = aten.mm(%x, %w) : (tensor<4x8xf32, #dist.on<@mesh, tp = I>>, tensor<8x4xf32, #dist.on<@mesh, tp = S(1)>>)
        -> tensor<4x4xf32, #dist.on<@mesh, tp = S(1)>>
    ```
    where a gradient flows to `%x`, the error is
    ```
    'aten.mm' op mixes I and S(1) on axis "tp": 'self' carries a gradient, of which each rank would
    compute another part, and nothing would sum the parts; insert dist.convert of 'self' from I to R
    (Megatron's f); operands are ...
    ```
  }];
}

def AnnotatePlacements : Pass<"annotate-placements", "::mlir::ModuleOp"> {
  let summary = "a plan's mesh and placements, by parameter, module and op, as attributes";
  let description = [{
    Reads the plan `plan=FILE` (docs/plans.md has the format; `cleave.export(plan=...)` writes one) and
    says in the program what it says: `dist.mesh`, `dist.placement` on arguments and results,
    `dist.operands` and `dist.results` on ops. What the plan does not mention stays open, for
    `--propagate-placements` to decide. Attributes that the program has already count as rules.

    With the plan
    ```json
    {"mesh": [["tp", 2]], "rules": [{"modules": "h.*.up", "style": "colwise", "axis": "tp"} ] }
    ```
    and before
    ```mlir
    %t = aten.t(%weight) : (tensor<16x8xf32>) -> tensor<8x16xf32> loc("h.0.up")
    %y = aten.mm(%x, %t) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32> loc("h.0.up")
    ```
    the weight's argument has `dist.placement = #dist.on<@mesh, tp = S(0)>` after, and the product is
    ```mlir
    %y = aten.mm(%x, %t) {dist.operands = [#dist.on<@mesh, tp = R>, #dist.on<@mesh, tp = S(1)>],
                          dist.results = [#dist.on<@mesh, tp = S(1)>] } : ...
    ```
    A rule that matches nothing, names an axis that the mesh lacks or a dimension that a tensor lacks, or
    disagrees with another one is an error that names the rules.
  }];
  let options = [
    Option<"plan", "plan", "std::string", "\"\"", "The plan, a JSON file">,
    Option<"uneven", "uneven", "bool", "false",
           "Shard parameters that no dimension of divides evenly, for --propagate-placements=uneven=true">
  ];
  let statistics = [
    Statistic<"numPlaced", "values placed", "Values and uses of values that got a placement on some axis">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

def SimplifyCommunication : Pass<"simplify-communication", "::mlir::ModuleOp"> {
  let summary = "drop, merge and delay communication where types prove it safe";
  let description = [{
    Works on typed functions, by what placements say the values mean; the derivative of what comes out is
    the derivative of what went in. Only the order of sums may change, and with it their rounding.

    | before | after |
    | --- | --- |
    | `all_gather` of what `convert` has just sliced, `fake_gather` of `fake_scatter` | the value itself |
    | `all_gather` of `reduce_scatter` | `all_reduce` |
    | `all_to_all` of its inverse | the value itself |
    | `reduce_scatter` of what `convert` has just padded | the value itself |
    | `all_reduce` of what `convert` has just padded | `all_gather`, or the value itself |
    | `convert` of `convert`, `reinterpret` of `reinterpret`, on one axis | one, or none |
    | `all_reduce` of `all_reduce`, over different axes | one over all axes |
    | `convert` to the local slice of an `all_reduce` | `reduce_scatter`, `all_reduce` over the other axes |
    | linear ops on results of `all_reduce` | the same on partial values, reduced once, where this sends less |

    Before:
    ```mlir
    %a = dist.all_reduce sum(%p) over @mesh ["tp"] : tensor<4x8xf32, #P_tp> -> tensor<4x8xf32, #I_tp>
    %b = dist.all_reduce sum(%q) over @mesh ["tp"] : tensor<4x8xf32, #P_tp> -> tensor<4x8xf32, #I_tp>
    %0 = aten.add(%a, %b) : (tensor<4x8xf32, #I_tp>, tensor<4x8xf32, #I_tp>) -> tensor<4x8xf32, #I_tp>
    ```
    After:
    ```mlir
    %0 = aten.add(%p, %q) : (tensor<4x8xf32, #P_tp>, tensor<4x8xf32, #P_tp>) -> tensor<4x8xf32, #P_tp>
    %1 = dist.all_reduce sum(%0) over @mesh ["tp"] : tensor<4x8xf32, #P_tp> -> tensor<4x8xf32, #I_tp>
    ```
    A value that several ops use is reduced where it was, and communication that is only started (a
    future) stays as it is: run this pass before those that overlap.
  }];
  let statistics = [
    Statistic<"numGathersDropped", "gathers dropped", "Gathers of what was just scattered, and all_to_all pairs">,
    Statistic<"numConversionsFolded", "conversions folded", "Pairs of conversions that became one or none">,
    Statistic<"numReductionsMerged", "reductions merged", "Reductions merged with others or scatters">,
    Statistic<"numReductionsDelayed", "reductions delayed", "Reductions that were replaced by a later one of less data">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def SequenceMajor : Pass<"sequence-major", "::mlir::ModuleOp"> {
  let summary = "merge batch and sequence to rows with sequence positions first";
  let description = [{
    In front of a linear layer or a loss a view merges batch and sequence to rows, example by example. Of a sharded
    sequence a rank has some rows of each example, which no `S(d)` of the merged dimension describes, so
    `--propagate-placements` has it gathered. This pass merges position by position, so that the
    shard stays one: for context parallelism, before annotating.

    It changes the order only where all ops between merging views and the views that split rows again treat
    rows alike: their sharding rules have a factor for the rows, or they are mean losses. Rows that
    something else sees (an expert's slots are given out in order) stay as they are. Row by row the results are the same; sums
    over rows are in another order. Each merging and splitting view comes to copy, which is what it costs.

    Before:
    ```mlir
    %0 = aten.view(%x, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
    %1 = aten.mm(%0, %w) : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
    %2 = aten.view(%1, size = [2, 4, 5]) : (tensor<8x5xf32>) -> tensor<2x4x5xf32>
    ```
    After:
    ```mlir
    %0 = aten.transpose(%x, dim0 = 0, dim1 = 1) : (tensor<2x4x3xf32>) -> tensor<4x2x3xf32>
    %1 = aten.clone(%0, memory_format = "contiguous_format") : (tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
    %2 = aten.view(%1, size = [8, 3]) : (tensor<4x2x3xf32>) -> tensor<8x3xf32>
    %3 = aten.mm(%2, %w) : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
    %4 = aten.view(%3, size = [4, 2, 5]) : (tensor<8x5xf32>) -> tensor<4x2x5xf32>
    %5 = aten.transpose(%4, dim0 = 0, dim1 = 1) : (tensor<4x2x5xf32>) -> tensor<2x4x5xf32>
    %6 = aten.clone(%5, memory_format = "contiguous_format") : (tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
    ```
  }];
  let statistics = [Statistic<"numMerges", "merges reordered", "Views that merge position by position">];
  let dependentDialects = ["::cleave::aten::AtenDialect"];
}

def PropagatePlacements : Pass<"propagate-placements", "::mlir::ModuleOp"> {
  let summary = "decide where every tensor of an annotated program lives on the mesh";
  let description = [{
    Takes a program for one device with a `dist.mesh` and annotations (`dist.placement` on arguments and
    results of functions, `dist.results` and `dist.operands` on ops), which may leave axes and whole tensors
    open, and fills all in. Annotations are constraints; what they leave open follows them, by priority and
    cost. `docs/placements.md` describes the algorithm.

    For
    ```mlir
    dist.mesh @mesh ["tp" = 2]
    func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x16xf32> {dist.placement = #dist.on<@mesh, tp = S(1)>})
        -> tensor<4x16xf32> {
      %0 = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
      return %0 : tensor<4x16xf32>
    }
    ```
    the product becomes
    ```mlir
    %0 = aten.mm(%x, %w) {dist.operands = [#R_tp, #S1_tp], dist.results = [#S1_tp]}
        : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    ```
    An op without a sharding rule runs replicated, with a remark.
  }];
  let options = [
    Option<"mesh", "mesh", "std::string", "\"\"",
           "Mesh to add to a program that has none, such as dp=2,tp=2; its name is @mesh">,
    Option<"strict", "strict", "bool", "false", "Refuse ops that have no sharding rule">,
    Option<"uneven", "uneven", "bool", "false",
           "Allow for shards of different sizes, where an axis does not divide a dimension">,
    Option<"explain", "explain", "bool", "false",
           "Remarks that say why each tensor is placed so, and what each redistribution costs">,
    Option<"explainJson", "explain-json", "std::string", "\"\"",
           "File that gets the same as JSON (docs/placements.md has the schema)">,
    Option<"bandwidth", "bandwidth", "std::string", "\"\"",
           "Bytes a second between two ranks; one number, or by axis as in dp=25e9,tp=300e9 (default 25e9)">,
    Option<"latency", "latency", "std::string", "\"\"",
           "Seconds a hop of a collective takes on top, as one number or by axis (default 0)">,
    Option<"work", "work", "double", "16.0",
           "What a byte of work is worth against a byte sent: large, so that annotated work is divided">,
    Option<"microbatches", "microbatches", "unsigned", "4",
           "Microbatches a step, each of which pays for its communication">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def Partition : Pass<"partition", "::mlir::ModuleOp"> {
  let summary = "from a placed program for one device to what each rank computes, collectives included";
  let description = [{
    Takes a program in which every argument, result and op says how its tensors lie on the mesh
    (`dist.placement`, `dist.operands`, `dist.results`; `--propagate-placements` completes them), and makes
    it local: shapes are those of one rank, types say how values vary, and where an op takes a
    value in another way than it was made stands the communication that sends least. `docs/placements.md`
    says how; `--check-spmd-types` accepts the result.

    Before:
    ```mlir
    func.func @f(%x: tensor<4x8xf32> {dist.placement = #S1_tp}, %w: tensor<8x6xf32> {dist.placement = #S0_tp})
        -> (tensor<4x6xf32> {dist.placement = #R_tp}) {
      %0 = aten.mm(%x, %w) {dist.operands = [#S1_tp, #S0_tp], dist.results = [#P_tp]}
          : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      return %0 : tensor<4x6xf32>
    }
    ```
    After:
    ```mlir
    func.func @f(%x: tensor<4x4xf32, #S1_tp>, %w: tensor<4x6xf32, #S0_tp>) -> tensor<4x6xf32, #R_tp> {
      %0 = aten.mm(%x, %w) : (tensor<4x4xf32, #S1_tp>, tensor<4x6xf32, #S0_tp>) -> tensor<4x6xf32, #P_tp>
      %1 = dist.all_reduce sum(%0) over @mesh ["tp"] : tensor<4x6xf32, #P_tp> -> tensor<4x6xf32, #R_tp>
      return %1 : tensor<4x6xf32, #R_tp>
    }
    ```
    An op without a strategy for its placements and a value whose placement is open are errors, and so is a
    dimension that its axes do not divide evenly. With `uneven`, one axis alone may do so: ranks then hold parts
    of different sizes, as `torch.chunk` makes them, none empty, and each class of ranks that hold the same gets
    functions of its own (`train.ranks`).
  }];
  let options = [
    Option<"fsdpReshard", "fsdp-reshard", "bool", "true",
           "Gather a sharded parameter again for the backward; false keeps what the forward gathered">,
    Option<"prefetch", "prefetch", "unsigned", "0",
           "Start the gather of a parameter this many gathers before its use (0: at its use)">,
    Option<"uneven", "uneven", "bool", "false",
           "Where an axis does not divide a dimension, parts of different sizes, with functions for each "
           "class of ranks that hold the same">
  ];
  let dependentDialects = ["::cleave::aten::AtenDialect", "::cleave::dist::DistDialect"];
}

def PrintShardingRules : Pass<"print-sharding-rules", "::mlir::ModuleOp"> {
  let summary = "show every compute op's sharding rule, as remarks or as JSON";
  let description = [{
    For each op of `aten` and `train`: which dimensions of its operands and results correspond, which are
    contracted and how, which must be whole and why, and in which operands the op is linear.
    `dialects/sharding/ShardingRule.h` says what a rule means. The program stays as it is.

    For
    ```mlir
    %0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    ```
    the remark is
    ```
    [m, k], [k, n] -> [m, n]; m = 4, k = 8 (sum), n = 16; linear {0} {1}
    ```
    A rule that contradicts its op (sizes that are no product of their factors) is an error: a mistake in
    the op's record.
  }];
  let options = [
    Option<"json", "json", "std::string", "\"\"",
           "File that gets the rules as a JSON list, with the op, its file and line each; no remarks then">
  ];
}

#endif // CLEAVE_PASSES_PLACEMENT_PASSES
