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

#endif // CLEAVE_PASSES_COMMUNICATION_PASSES
