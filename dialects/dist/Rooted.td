//===- Rooted.td - collectives with a root --*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_ROOTED
#define CLEAVE_DIALECTS_DIST_ROOTED

include "dialects/dist/DistOps.td"

def Dist_BroadcastOp : Dist_CommunicationOp<"broadcast", [Pure]> {
  let summary = "send the root's value to every rank";
  let description = [{
    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. `root` is the index of a rank along the axes.
    3. The result has the operand's shape and element type.
    4. Placements: `V` to `V`, `R` or `I`.

    ```mlir
    %1 = dist.broadcast(%0) root 0 over @mesh ["tp"] : tensor<8xf32, #V_tp> -> tensor<8xf32, #R_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_Int:$root, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    `(` $input `)` `root` $root `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

def Dist_ReduceOp : Dist_CommunicationOp<"reduce", [Pure]> {
  let summary = "reduce a value over all ranks; the root gets the result, the others zeros";
  let description = [{
    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. `root` is the index of a rank along the axes.
    3. The element type supports the reduction (see `dist.all_reduce`).
    4. The result has the operand's shape and element type.
    5. Placements: `P(k)` to `V`, with reduction k; `V` to `V` with any.

    ```mlir
    %1 = dist.reduce sum(%0) root 0 over @mesh ["tp"] : tensor<8xf32, #V_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_ReductionAttr:$reduction, Dist_Int:$root,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    custom<Reduction>($reduction) `(` $input `)` `root` $root `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

def Dist_GatherOp : Dist_CommunicationOp<"gather", [Pure]> {
  let summary = "concatenate the values of all ranks at the root; the others get zeros";
  let description = [{
    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. `root` is the index of a rank along the axes.
    3. `dim` is a dimension of the operand.
    4. The operand's `dim` is one rank's chunk of the result's (`torch.chunk`); the other dimensions
       and the element types are equal.
    5. Placements: `V` to `V`.

    ```mlir
    %1 = dist.gather(%0) dim 0 root 0 over @mesh ["tp"] : tensor<4xf32, #V_tp> -> tensor<8xf32, #V_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_Int:$dim, Dist_Int:$root,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    `(` $input `)` `dim` $dim `root` $root `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

def Dist_ScatterOp : Dist_CommunicationOp<"scatter", [Pure]> {
  let summary = "split the root's value along a dimension; each rank gets its part";
  let description = [{
    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. `root` is the index of a rank along the axes.
    3. `dim` is a dimension of the operand.
    4. The result's `dim` is one rank's chunk of the operand's (`torch.chunk`); the other dimensions
       and the element types are equal.
    5. Placements: `V` to `V`.

    ```mlir
    %1 = dist.scatter(%0) dim 0 root 0 over @mesh ["tp"] : tensor<8xf32, #V_tp> -> tensor<4xf32, #V_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_Int:$dim, Dist_Int:$root,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    `(` $input `)` `dim` $dim `root` $root `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

#endif // CLEAVE_DIALECTS_DIST_ROOTED
