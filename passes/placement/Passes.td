//===- Passes.td - passes over placements -----------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_PLACEMENT_PASSES
#define CLEAVE_PASSES_PLACEMENT_PASSES

include "mlir/Pass/PassBase.td"

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
