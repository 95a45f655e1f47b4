//===- Fakes.td - collectives from and to invariant values -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_FAKES
#define CLEAVE_DIALECTS_DIST_FAKES

include "dialects/dist/DistOps.td"

def Dist_FakeBroadcastOp : Dist_AxesOp<"fake_broadcast", [Pure, DeclareOpInterfaceMethods<ViewLikeOpInterface>]> {
  let summary = "identity on a value that all ranks hold; its derivative is an all-reduce";
  let description = [{
    Does not communicate. This is Megatron's f; data parallelism uses it before each use of a parameter.

    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. The result has the operand's shape and element type.
    3. Placements: `I` to `V` or `R`.

    ```mlir
    %1 = dist.fake_broadcast(%0) over @mesh ["tp"] : tensor<8xf32, #I_tp> -> tensor<8xf32, #V_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    `(` $input `)` `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

def Dist_FakeReduceOp : Dist_CommunicationOp<"fake_reduce", [Pure]> {
  let summary = "all-reduce whose derivative is the identity";
  let messages = "2 * (ranks - 1)";
  let description = [{
    Communicates, as an all-reduce. This is Megatron's g.

    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. The element type supports sums (see `dist.all_reduce`).
    3. The result has the operand's shape and element type.
    4. Placements: `V` or `P(sum)` to `I`.

    ```mlir
    %1 = dist.fake_reduce(%0) over @mesh ["tp"] : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    `(` $input `)` `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

def Dist_FakeScatterOp : Dist_AxesOp<"fake_scatter", [Pure, DeclareOpInterfaceMethods<ViewLikeOpInterface>]> {
  let summary = "slice a value that all ranks hold; its derivative is an all-gather";
  let description = [{
    Does not communicate.

    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. `dim` is a dimension of the operand.
    3. The result's `dim` is one rank's chunk of the operand's (`torch.chunk`); the other dimensions
       and the element types are equal.
    4. Placements: `I` to `V` or `S(dim)`. Axes that shard `dim` are listed major first, and are the
       minor ones that shard it.

    ```mlir
    %1 = dist.fake_scatter(%0) dim 0 over @mesh ["tp"] : tensor<8xf32, #I_tp> -> tensor<4xf32, #S0_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_Int:$dim, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    `(` $input `)` `dim` $dim `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

def Dist_FakeGatherOp : Dist_CommunicationOp<"fake_gather", [Pure]> {
  let hasFolder = 1;
  let summary = "all-gather whose derivative is a slice";
  let description = [{
    Communicates, as an all-gather.

    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. `dim` is a dimension of the operand.
    3. The operand's `dim` is one rank's chunk of the result's (`torch.chunk`); the other dimensions
       and the element types are equal.
    4. Placements: `V` or `S(dim)` to `I`. Axes that shard `dim` are listed major first, and are the
       minor ones that shard it.

    ```mlir
    %1 = dist.fake_gather(%0) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0_tp> -> tensor<8xf32, #I_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_Int:$dim, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    `(` $input `)` `dim` $dim `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

#endif // CLEAVE_DIALECTS_DIST_FAKES
