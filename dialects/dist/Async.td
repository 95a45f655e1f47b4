//===- Async.td - wait and barrier -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_ASYNC
#define CLEAVE_DIALECTS_DIST_ASYNC

include "dialects/dist/DistOps.td"

def Dist_WaitOp : Dist_Op<"wait", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "wait for a communication and return its value";
  let description = [{
    Pure if there is a value; waiting for the completion of a send or barrier (`none`) affects the channel.

    Constraints:
    1. The operand is the future of the result.

    ```mlir
    %f = dist.all_reduce sum(%0) over @mesh ["tp"] : tensor<8xf32, #P_tp> -> !dist.future<tensor<8xf32, #R_tp>>
    %1 = dist.wait %f : tensor<8xf32, #R_tp>
    ```
  }];
  let arguments = (ins Dist_FutureType:$future);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$future attr-dict `:` custom<FutureOf>(type($future), type($result))";
  let hasVerifier = 1;
}

def Dist_BarrierOp : Dist_CommunicationOp<"barrier", [
    MemoryEffects<[MemRead<Dist_ChannelResource>, MemWrite<Dist_ChannelResource>]>]> {
  let summary = "block until every rank along the axes arrives";
  let messages = "2 * (ranks - 1)";
  let description = [{
    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.

    ```mlir
    dist.barrier over @mesh ["tp"]
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Optional<Dist_Completion>:$completion);
  let assemblyFormat = "`over` $mesh $axes attr-dict (`->` type($completion)^)?";
}

#endif // CLEAVE_DIALECTS_DIST_ASYNC
