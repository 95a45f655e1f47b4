//===- Passes.td - passes over communication --------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_COMMUNICATION_PASSES
#define CLEAVE_PASSES_COMMUNICATION_PASSES

include "mlir/Pass/PassBase.td"

def OverlapCommunication : Pass<"overlap-communication", "::mlir::func::FuncOp"> {
  let summary = "start communications early and wait for them late";
  let description = [{
    Splits each communication into a start, as soon as its operands are available, and a wait, before
    the first use of its result, so that the compute in between overlaps it. Only starts move:
    compute keeps its order, and so do communications among themselves (all ranks run the same
    function, so they agree on the order). With `arguments-ahead`, what communicates arguments alone may
    start before others. Nothing moves across a send, a receive or a barrier. A communication that
    consumes the result of another is not moved.

    An earlier start keeps its result's memory live for longer: results in flight at any time take
    at most `max-in-flight-mb`, except a single larger one. A communication with nothing to overlap is
    not split.

    Before:
    ```mlir
    %0 = aten.mm(%x, %a) ...
    %b = dist.all_gather(%shard) dim 0 over @mesh ["fsdp"] : tensor<4x8xf32> -> tensor<8x8xf32>
    %1 = aten.mm(%0, %b) ...
    ```
    After:
    ```mlir
    %f = dist.all_gather(%shard) dim 0 over @mesh ["fsdp"] : tensor<4x8xf32> -> !dist.future<tensor<8x8xf32>>
    %0 = aten.mm(%x, %a) ...
    %b = dist.wait %f : tensor<8x8xf32>
    %1 = aten.mm(%0, %b) ...
    ```
  }];
  let options = [
    Option<"maxInFlightMb", "max-in-flight-mb", "double", "256", "maximum size in MiB of results in flight">,
    Option<"argumentsAhead", "arguments-ahead", "bool", "false", "what communicates arguments alone, such as shards of parameters, may start before communications that come earlier">
  ];
  let statistics = [
    Statistic<"numOverlapped", "communications overlapped", "communications split into start and wait">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def AsyncTP : Pass<"async-tp", "::mlir::func::FuncOp"> {
  let summary = "decompose all_gather + mm and mm + reduce_scatter into rings that overlap";
  let description = [{
    A product of gathered rows (`aten.mm`, `aten.addmm`, directly or after a view that flattens the row
    dimensions) is computed block by block: blocks travel round the ring by `dist.shift`, and a rank multiplies
    one while it receives the next. All products of one gathered value share the ring. A product whose rows
    are reduced and scattered computes its blocks one by one, its own last, and adds each to the partial sum
    received from the previous rank; a bias is added to the sum.

    Not decomposed: communication of less than `min-mb`, blocks not divisible by ranks and `chunks`, axes of
    unknown size, products separated from the collective by other ops, and products that are not distributed
    (results of type R). Other users of the gathered value, such as the gradient of the weight, gather it
    again when they need it, so it need not be kept; with `regather=false` such a gather is not decomposed.

    Rows of gathered products are unchanged; sums are in ring order. Run `--overlap-communication` before
    this pass or not at all: the ring's starts are already in place.

    Before:
    ```mlir
    %0 = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<2x4xf32> -> tensor<4x4xf32>
    %1 = aten.mm(%0, %w) : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    ```
    After:
    ```mlir
    %f = dist.shift(%x) by 1 wrap over @mesh ["tp"] : tensor<2x4xf32> -> !dist.future<tensor<2x4xf32>>
    %0 = aten.mm(%x, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    %y = dist.wait %f : tensor<2x4xf32>
    %1 = aten.mm(%y, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    ... // the blocks, put in the order of the ranks they come from
    ```
  }];
  let options = [
    Option<"chunks", "chunks", "int64_t", "1", "pieces per rank's block, each sent separately">,
    Option<"minMb", "min-mb", "double", "1", "minimum size in MiB of the gathered or reduced value">,
    Option<"regather", "regather", "bool", "true", "let other users of a gathered value gather it again">
  ];
  let statistics = [
    Statistic<"numGathers", "gathers decomposed", "all-gathers decomposed into rings">,
    Statistic<"numScatters", "scatters decomposed", "reduce-scatters decomposed into rings">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

#endif // CLEAVE_PASSES_COMMUNICATION_PASSES
