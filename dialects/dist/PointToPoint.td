//===- PointToPoint.td - from one rank to another -------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_POINTTOPOINT
#define CLEAVE_DIALECTS_DIST_POINTTOPOINT

include "dialects/dist/DistOps.td"

def Dist_PermuteOp : Dist_CommunicationOp<"permute", [Pure]> {
  let summary = "send each rank's value to another rank; ranks that receive nothing get zeros";
  let messages = "1";
  let description = [{
    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. `sources` and `destinations` have the same length; each lists distinct indices of ranks along the
       axes.
    3. The result has the operand's shape and element type.
    4. Placements: `V` to `V`.

    ```mlir
    %1 = dist.permute(%0) [0 -> 1, 1 -> 0] over @mesh ["tp"] : tensor<8xf32, #V_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, DenseI64ArrayAttr:$sources, DenseI64ArrayAttr:$destinations,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    `(` $input `)` custom<Pairs>($sources, $destinations) `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

def Dist_ShiftOp : Dist_CommunicationOp<"shift", [Pure]> {
  let hasFolder = 1;
  let summary = "send each rank's value to the rank `by` positions further along the axes";
  let messages = "1";
  let description = [{
    With `wrap` the last ranks' values go to the first ranks; without it they are dropped and the first
    ranks get zeros. A negative `by` shifts towards rank 0.

    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. The result has the operand's shape and element type.
    3. Placements: `V` to `V`.

    ```mlir
    %1 = dist.shift(%0) by 1 wrap over @mesh ["tp"] : tensor<8xf32, #V_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_Int:$by, UnitAttr:$wrap,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    `(` $input `)` `by` $by (`wrap` $wrap^)? `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

def Dist_SendOp : Dist_CommunicationOp<"send", [MemoryEffects<[MemWrite<Dist_ChannelResource>]>]> {
  let summary = "send a value from one rank to another, to the `dist.receive` with the same tag";
  let messages = "1";
  let description = [{
    Ranks other than `from` do nothing.

    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. `from` and `to` are the indices of two different ranks along the axes.
    3. `tag` is not negative.
    4. The operand has placement `V` along the axes.

    ```mlir
    dist.send(%0) from 0 to 1 tag 7 over @mesh ["pp"] : tensor<8xf32, #V_pp>
    %sent = dist.send(%0) from 0 to 1 tag 8 over @mesh ["pp"] : tensor<8xf32, #V_pp> -> !dist.future<none>
    %done = dist.wait %sent : none
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_Int:$from, Dist_Int:$to, Dist_Int:$tag,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Optional<Dist_Completion>:$completion);
  let assemblyFormat = [{
    `(` $input `)` `from` $from `to` $to `tag` $tag `over` $mesh $axes attr-dict
    `:` type($input) (`->` type($completion)^)?
  }];
}

def Dist_ReceiveOp : Dist_CommunicationOp<"receive", [
    MemoryEffects<[MemRead<Dist_ChannelResource>, MemWrite<Dist_ChannelResource>]>]> {
  let summary = "receive the value that another rank sends with the same tag; zeros on ranks other than `to`";
  let messages = "1";
  let description = [{
    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. `from` and `to` are the indices of two different ranks along the axes.
    3. `tag` is not negative.
    4. The result has placement `V` along the axes.

    ```mlir
    %1 = dist.receive from 0 to 1 tag 7 over @mesh ["pp"] : tensor<8xf32, #V_pp>
    ```
  }];
  let arguments = (ins Dist_Int:$from, Dist_Int:$to, Dist_Int:$tag,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    `from` $from `to` $to `tag` $tag `over` $mesh $axes attr-dict `:` type($result)
  }];
}

#endif // CLEAVE_DIALECTS_DIST_POINTTOPOINT
