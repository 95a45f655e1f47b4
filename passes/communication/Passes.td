//===- Passes.td - passes over communication --------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_COMMUNICATION_PASSES
#define CLEAVE_PASSES_COMMUNICATION_PASSES

include "mlir/Pass/PassBase.td"

def OverlapCommunication : Pass<"overlap-communication", "::mlir::ModuleOp"> {
  let summary = "start communications early and wait for them late";
  let description = [{
    Splits each communication into a start, as early as its operands are there, and a wait, in front
    of the first use of its result; compute in between runs while data moves. Only starts move:
    compute keeps its order, and so do communications among themselves (all ranks run the same
    function, so they agree on the order). Nothing moves over a send, a receive or a barrier. A
    communication of another one's result stays where it is.

    A start that moves up holds its result's memory longer: the results under way at any time have
    at most `max-in-flight-mb`, but for one that is larger by itself. A communication that has nothing to overlap with
    stays as it is.

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
    Option<"maxInFlightMb", "max-in-flight-mb", "double", "256", "Most MiB of results under way at one time">
  ];
  let statistics = [
    Statistic<"numOverlapped", "communications overlapped", "Communications split into start and wait">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def AsyncTP : Pass<"async-tp", "::mlir::ModuleOp"> {
  let summary = "decompose all_gather + mm and mm + reduce_scatter into rings that overlap";
  let description = [{
    A product of gathered rows (`aten.mm`, `aten.addmm`, directly or behind a view that merges the rows' dimensions)
    is that of each rank's block: blocks go round the ring by `dist.shift`, and a rank multiplies the one it has
    while the next is on its way. All products of one gathered value share the ring. A product whose rows are
    reduced and scattered makes its blocks one by one, the last one its own, and adds each to the sum that comes
    from the rank before; a bias joins the sum.

    Left as they are: what sends less than `min-mb`, blocks that do not divide by ranks and `chunks`, axes whose size
    is not known, products that other ops stand in the way of, and products of which not each rank makes its own
    part (results of type R). Where other ops use the gathered value too, as the gradient of the weight does,
    they gather it again when they need it (and it need not be kept); with `regather=false` such a gather
    is left as it is.

    Gathered products give the same rows; sums are in the order of the ring. Run `--overlap-communication` before
    this pass, or not at all: the ring's starts stand where they belong.

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
    Option<"chunks", "chunks", "int64_t", "1", "Pieces into which a rank's block is cut, each sent by itself">,
    Option<"minMb", "min-mb", "double", "1", "Least MiB of the gathered or summed value">,
    Option<"regather", "regather", "bool", "true", "Whether other users of a gathered value gather it again">
  ];
  let statistics = [
    Statistic<"numGathers", "gathers decomposed", "All-gathers that became rings">,
    Statistic<"numScatters", "scatters decomposed", "Reduce-scatters that became rings">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

#endif // CLEAVE_PASSES_COMMUNICATION_PASSES
