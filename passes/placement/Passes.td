//===- Passes.td - passes over placements -----------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_PLACEMENT_PASSES
#define CLEAVE_PASSES_PLACEMENT_PASSES

include "mlir/Pass/PassBase.td"

def CheckSpmdTypes : Pass<"check-spmd-types", "::mlir::ModuleOp"> {
  let summary = "check placements: reject missing, duplicated or misplaced reductions";
  let description = [{
    Type-checks every function in which a tensor has a placement: the types that each op declares must be
    allowed by `docs/types.md` for its operands, and the signature must match the roles of its arguments
    and results (a gradient's type is dual to its parameter's, a loss is `I` or `P`). Functions without
    placements are skipped. Does not change the program.

    An error names the op, the axis and the types, suggests what to insert, and has a note at the origin
    of the operand; `docs/type-checking.md` explains each. cleave-opt runs this check after each of
    Cleave's passes (unless `--verify-types=false`), and the runtime when it loads a program.

    For
    ```mlir
    %h = aten.mm(%x, %w) : (tensor<4x8xf32, #dist.on<@mesh, tp = I>>, tensor<8x4xf32, #dist.on<@mesh, tp = S(1)>>)
        -> tensor<4x4xf32, #dist.on<@mesh, tp = S(1)>>
    ```
    where a gradient flows to `%x`, the error is
    ```
    'aten.mm' op mixes I and S(1) on axis "tp": 'self' carries a gradient of which each rank would compute only a part, and nothing would sum the parts; insert dist.convert of 'self' from I to R
    (Megatron's f); operands are ...
    ```
  }];
}

def AnnotatePlacements : Pass<"annotate-placements", "::mlir::ModuleOp"> {
  let summary = "annotate a program with the mesh and placements of a plan";
  let description = [{
    Reads the plan `plan=FILE` (docs/plans.md describes the format; `cleave.export(plan=...)` writes one)
    and adds it to the program as `dist.mesh`, as `dist.placement` on arguments and results, and as
    `dist.operands` and `dist.results` on ops. Whatever the plan does not mention stays open for
    `--propagate-placements`. Existing attributes count as rules.

    With the plan
    ```json
    {"mesh": [["tp", 2]], "rules": [{"modules": "h.*.up", "style": "colwise", "axis": "tp"} ] }
    ```
    and before
    ```mlir
    %t = aten.t(%weight) : (tensor<16x8xf32>) -> tensor<8x16xf32> loc("h.0.up")
    %y = aten.mm(%x, %t) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32> loc("h.0.up")
    ```
    the weight's argument gets `dist.placement = #dist.on<@mesh, tp = S(0)>`, and the product becomes
    ```mlir
    %y = aten.mm(%x, %t) {dist.operands = [#dist.on<@mesh, tp = R>, #dist.on<@mesh, tp = S(1)>],
                          dist.results = [#dist.on<@mesh, tp = S(1)>] } : ...
    ```
    A rule that matches nothing, names an unknown axis or dimension, or conflicts with another rule is an
    error that names the rules.

    Where ranks are to exchange the rows that tokens send to experts (`expert` rules, docs/plans.md), the program
    is rewritten first: rows sorted by expert become rows in parts, one with room for the rows of each rank's experts,
    and the ops that write, read and multiply them have `dist.parts`. What it computes stays the same.
  }];
  let options = [
    Option<"plan", "plan", "std::string", "\"\"", "plan, a JSON file">,
    Option<"uneven", "uneven", "bool", "false",
           "allow uneven parameter shards, for --propagate-placements=uneven=true">
  ];
  let statistics = [
    Statistic<"numPlaced", "values placed", "values and uses given a placement on some axis">,
    Statistic<"numExchanged", "rows exchanged", "buffers of rows sorted by expert that became rows in parts">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

def SimplifyCommunication : Pass<"simplify-communication", "::mlir::func::FuncOp"> {
  let summary = "remove, merge and delay communication where types prove it safe";
  let description = [{
    Rewrites typed functions by the meaning that placements give to values; derivatives are preserved.
    Only the order of sums may change, and with it their rounding.

    | before | after |
    | --- | --- |
    | `all_gather` of a slice made by `convert`, `fake_gather` of `fake_scatter` | the value itself |
    | `all_gather` of `reduce_scatter` | `all_reduce` |
    | `all_to_all` of its inverse | the value itself |
    | `reduce_scatter` of a value padded by `convert` | the value itself |
    | `all_reduce` of a value padded by `convert` | `all_gather`, or the value itself |
    | `convert` of `convert`, `reinterpret` of `reinterpret`, on one axis | one, or none |
    | `all_reduce` of `all_reduce`, over different axes | one over all axes |
    | `reduce_scatter` of `reduce_scatter`, along the same dimension | one over all axes |
    | `convert` to the local slice of an `all_reduce` | `reduce_scatter`, `all_reduce` over the other axes |
    | linear ops on results of `all_reduce` | the same on partial values, reduced once, if this sends less |

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
    A value with several uses keeps its reduction, and asynchronous communication (futures) is not
    rewritten: run this pass before those that overlap communication.
  }];
  let statistics = [
    Statistic<"numGathersDropped", "gathers dropped", "gathers of scattered values, and all-to-all pairs, removed">,
    Statistic<"numConversionsFolded", "conversions folded", "pairs of conversions folded to one or none">,
    Statistic<"numReductionsMerged", "reductions merged", "reductions merged with others or with scatters">,
    Statistic<"numReductionsDelayed", "reductions delayed", "reductions replaced by a later one of less data">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def SequenceMajor : Pass<"sequence-major", "::mlir::func::FuncOp"> {
  let summary = "flatten batch and sequence with the sequence as the outer dimension";
  let description = [{
    Before a linear layer or a loss, a view flattens batch and sequence to rows, batch outermost. If the
    sequence is sharded, a rank holds some rows of each example, which no `S(d)` of the flattened dimension
    describes, so `--propagate-placements` gathers it. This pass makes the sequence outermost, so that
    the shard stays contiguous. Use it for context parallelism, before annotating.

    The order changes only if all ops between the flattening and the unflattening views treat rows
    alike: their sharding rules have a factor for the rows, or they are mean losses. Rows with other users
    (expert slots are assigned in order) are not reordered. Results are the same row by row; sums over rows
    are in a different order. Each flattening and unflattening view becomes a copy.

    If the batch is sharded too, over axes of `batch-shards` ranks in all, those shards stay outermost,
    and the sequence comes next within each: a rank's rows are then a shard of a shard. Batches that do
    not divide keep their order, and so do those with one example a shard, which need no other: both
    shardings pass through their flattening as they are.

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
  let options = [
    Option<"batchShards", "batch-shards", "int64_t", "1", "ranks over which the batch is sharded as well">
  ];
  let statistics = [Statistic<"numMerges", "merges reordered", "views that flatten with the sequence outermost">];
  let dependentDialects = ["::cleave::aten::AtenDialect"];
}

def PropagatePlacements : Pass<"propagate-placements", "::mlir::ModuleOp"> {
  let summary = "choose the placement of every tensor in an annotated program";
  let description = [{
    Takes a program for one device with a `dist.mesh` and annotations (`dist.placement` on arguments and
    results of functions, `dist.results` and `dist.operands` on ops), which may leave axes and whole tensors
    open, and completes them. Annotations are constraints; everything else is decided by priority and cost.
    `docs/placements.md` describes the algorithm.

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

    With `solve` nothing need be annotated: all axes are decided together, by the cost of communication and of
    each rank's work, and a remark says what a step costs and what no placement of the program costs less than.
  }];
  let options = [
    Option<"mesh", "mesh", "std::string", "\"\"",
           "mesh to add to a program that has none, such as dp=2,tp=2; it is named @mesh">,
    Option<"strict", "strict", "bool", "false", "reject ops without a sharding rule">,
    Option<"uneven", "uneven", "bool", "false",
           "allow shards of different sizes if an axis does not divide a dimension">,
    Option<"explain", "explain", "bool", "false",
           "emit remarks with the reason for each placement and the cost of each redistribution">,
    Option<"explainJson", "explain-json", "std::string", "\"\"",
           "write the same to a JSON file (schema in docs/placements.md)">,
    Option<"bandwidth", "bandwidth", "std::string", "\"\"",
           "bandwidth between two ranks in bytes per second: one number, or by axis as in dp=25e9,tp=300e9 (default 25e9)">,
    Option<"latency", "latency", "std::string", "\"\"",
           "latency of one hop of a collective in seconds: one number, or by axis (default 0)">,
    Option<"work", "work", "double", "16.0",
           "weight of compute against communication, in bytes sent per byte of work">,
    Option<"microbatches", "microbatches", "unsigned", "4",
           "microbatches per step, for the cost of communication">,
    Option<"solve", "solve", "bool", "false",
           "place on all axes together by cost, annotated or not, and prove a lower bound of it">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "description of the cluster that costs are taken from, in place of bandwidth, latency and work">,
    Option<"memory", "memory", "double", "0",
           "with solve: bytes that a rank may hold at once, such as 80e9; 0 for no limit">,
    Option<"seed", "seed", "uint64_t", "1", "with solve: seed of the search">,
    Option<"moves", "moves", "uint64_t", "1000", "with solve: moves of the search">,
    Option<"gap", "gap", "double", "0.001",
           "with solve: stop once no placement can be cheaper by more than this part of the cost">
  ];
  let statistics = [
    Statistic<"numCost", "cost (ns)", "with solve: nanoseconds of a step by the cost model">,
    Statistic<"numBound", "bound (ns)", "with solve: nanoseconds below which no placement is">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def Partition : Pass<"partition", "::mlir::ModuleOp"> {
  let summary = "turn a placed program into the local program of each rank, with collectives";
  let description = [{
    Takes a program in which every argument, result and op has placements (`dist.placement`,
    `dist.operands`, `dist.results`; `--propagate-placements` completes them), and makes it local: shapes
    become those of one rank, types say how values vary, and wherever an op takes a value in a different
    placement than it was produced, the communication that sends the fewest bytes is inserted.
    `docs/placements.md` has the details; the result passes `--check-spmd-types`.

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
    An op without a strategy for its placements, a value with an open placement, and a dimension that its
    axes do not divide evenly are errors. With `uneven`, a single axis may shard a dimension unevenly: ranks
    then hold shards of different, nonzero sizes, as from `torch.chunk`, and each class of ranks with shards
    of the same sizes has its own functions (`train.ranks`).
  }];
  let options = [
    Option<"fsdpReshard", "fsdp-reshard", "bool", "true",
           "gather a sharded parameter again for the backward; false keeps the gathered parameter">,
    Option<"prefetch", "prefetch", "unsigned", "0",
           "start the gather of a parameter this many gathers before its use (0: at its use)">,
    Option<"uneven", "uneven", "bool", "false",
           "allow shards of different sizes if an axis does not divide a dimension, with functions per "
           "class of ranks">
  ];
  let dependentDialects = ["::cleave::aten::AtenDialect", "::cleave::dist::DistDialect"];
}

def PrintShardingRules : Pass<"print-sharding-rules", "::mlir::ModuleOp"> {
  let summary = "print the sharding rule of every compute op, as remarks or as JSON";
  let description = [{
    Prints for each op of `aten` and `train` which dimensions of its operands and results correspond, which
    are contracted and how, which must not be sharded and why, and in which operands the op is linear.
    `dialects/sharding/ShardingRule.h` defines rules. Does not change the program.

    For
    ```mlir
    %0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    ```
    the remark is
    ```
    [m, k], [k, n] -> [m, n]; m = 4, k = 8 (sum), n = 16; linear {0} {1}
    ```
    A rule that contradicts its op (a size that is not the product of its factors) is an error; it is a bug
    in the op's definition.
  }];
  let options = [
    Option<"json", "json", "std::string", "\"\"",
           "write the rules to a JSON file, with op, file and line of each, instead of emitting remarks">
  ];
}

#endif // CLEAVE_PASSES_PLACEMENT_PASSES
