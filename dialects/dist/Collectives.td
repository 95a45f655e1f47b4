//===- Collectives.td - symmetric collectives -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_COLLECTIVES
#define CLEAVE_DIALECTS_DIST_COLLECTIVES

include "dialects/dist/DistOps.td"

def Dist_AllReduceOp : Dist_CommunicationOp<"all_reduce", [Pure]> {
  let summary = "reduce a value over all ranks along mesh axes; every rank gets the result";
  let messages = "2 * (ranks - 1)";
  let description = [{
    Several operands are reduced by one coalesced communication.

    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. There is one result per operand; either all results are futures or none is.
    3. The element type supports the reduction: `sum`, `product`, `max` and `min` take numbers, `avg`
       and `premul_sum` floating-point numbers, `band`, `bor` and `bxor` integers and booleans.
    4. A result has the shape and element type of its operand.
    5. Placements: `P(k)` to `R` or `I`, with reduction k; `V` to `V`, `R` or `I` with any.

    ```mlir
    %1 = dist.all_reduce sum(%0) over @mesh ["dp"] : tensor<8xf32>
    %2 = dist.all_reduce sum(%p) over @mesh ["tp"] : tensor<8xf32, #P_tp> -> tensor<8xf32, #R_tp>
    %3:2 = dist.all_reduce max(%0, %1) over @mesh ["dp"] : tensor<8xf32>, tensor<8xf32>
    ```
  }];
  let arguments = (ins Variadic<Dist_Tensor>:$inputs, Dist_ReductionAttr:$reduction,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Variadic<Dist_Result>:$results);
  let assemblyFormat = [{
    custom<Reduction>($reduction) `(` $inputs `)` `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($inputs), type($results))
  }];
}

def Dist_AllGatherOp : Dist_CommunicationOp<"all_gather", [Pure]> {
  let summary = "concatenate the values of all ranks along a dimension; every rank gets the result";
  let description = [{
    Several operands are gathered by one coalesced communication.

    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. There is one result per operand; either all results are futures or none is.
    3. `dim` is a dimension of each operand.
    4. An operand's `dim` is one rank's chunk of the result's (`torch.chunk`); the other dimensions
       and the element types are equal.
    5. Placements: `S(dim)` or `V` to `R` or `I`; `V` to `V`. Axes that shard `dim` are
       listed major first, and no other axis shards it below them.

    ```mlir
    %1 = dist.all_gather(%0) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0_tp> -> tensor<8xf32, #R_tp>
    ```
  }];
  let arguments = (ins Variadic<Dist_Tensor>:$inputs, Dist_Int:$dim,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Variadic<Dist_Result>:$results);
  let assemblyFormat = [{
    `(` $inputs `)` `dim` $dim `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($inputs), type($results))
  }];
}

def Dist_ReduceScatterOp : Dist_CommunicationOp<"reduce_scatter", [Pure]> {
  let summary = "reduce a value over all ranks; each rank gets its shard of the result";
  let description = [{
    Several operands are reduced by one coalesced communication.

    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. There is one result per operand; either all results are futures or none is.
    3. The element type supports the reduction (see `dist.all_reduce`).
    4. `dim` is a dimension of each operand.
    5. A result's `dim` is one rank's chunk of the operand's (`torch.chunk`); the other dimensions
       and the element types are equal.
    6. Placements: `P(k)` to `S(dim)` or `V`, with reduction k; `V` to `V` with any. Axes that
       shard `dim` are listed major first, and no other axis shards it below them.

    ```mlir
    %1 = dist.reduce_scatter sum(%0) dim 0 over @mesh ["tp"] : tensor<8xf32, #P_tp> -> tensor<4xf32, #S0_tp>
    ```
  }];
  let arguments = (ins Variadic<Dist_Tensor>:$inputs, Dist_ReductionAttr:$reduction, Dist_Int:$dim,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Variadic<Dist_Result>:$results);
  let assemblyFormat = [{
    custom<Reduction>($reduction) `(` $inputs `)` `dim` $dim `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($inputs), type($results))
  }];
}

def Dist_AllToAllOp : Dist_CommunicationOp<"all_to_all", [Pure]> {
  let summary = "split the value, send part i to rank i and concatenate the received parts";
  let description = [{
    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. `split` and `concat` are dimensions of the operand.
    3. The result's `split` is the rank's chunk of the operand's, and the operand's `concat` the same
       rank's chunk of the result's (`torch.chunk`); the other dimensions and the element types are
       equal. If `split` and `concat` are the same dimension, the number of ranks divides it and the
       shapes are equal.
    4. Placements: `S(concat)` to `S(split)`, for different dimensions; `V` to `V`. Axes that shard a
       dimension are listed major first, and no other axis shards it below them.

    ```mlir
    %1 = dist.all_to_all(%0) split 1 concat 0 over @mesh ["tp"]
        : tensor<2x8xf32, #S0_tp> -> tensor<4x4xf32, #S1_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_Int:$split, Dist_Int:$concat,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    `(` $input `)` `split` $split `concat` $concat `over` $mesh $axes attr-dict
    `:` custom<Transition>(type($input), type($result))
  }];
}

def Dist_RaggedAllToAllOp : Dist_CommunicationOp<"ragged_all_to_all", [Pure]> {
  let summary = "send as many rows to each rank as data say; the received ones, then zeros";
  let description = [{
    Rows are indices of dimension 0. The first `sends[0]` rows go to rank 0, the next `sends[1]` to rank 1, and so
    on; the rest go nowhere. The result has the rows that come from rank 0, of which there are `receives[0]`, then those
    from rank 1, and so on; the rest of its rows, whose number is static, are zeros. `receives` on a rank is what the
    others have in their `sends` for it: a `dist.all_to_all` of `sends`. The gradient takes the way back: `sends` and
    `receives` change places.

    More rows than the operand has, or than the result has room for, are an error of the run that names the rank
    and the numbers. No row is dropped.

    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. The operand has at least one dimension; the result has its element type and its shape but for dimension 0.
    3. `sends` and `receives` have dtype `i64`, one dimension and an element for each rank along the axes.
    4. Placements: `V` to `V`, and `V` of `sends` and `receives`. Along other axes the operand keeps its placement, which is
       not `S(0)`, and the numbers are `R`, `I` or, if the operand is, `V`.

    ```mlir
    %1 = dist.ragged_all_to_all(%0, %sends, %receives) over @mesh ["ep"]
        : (tensor<8x4xf32, #V_ep>, tensor<2xi64, #V_ep>, tensor<2xi64, #V_ep>) -> tensor<16x4xf32, #V_ep>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_Tensor:$sends, Dist_Tensor:$receives,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Result:$result);
  let assemblyFormat = [{
    `(` $input `,` $sends `,` $receives `)` `over` $mesh $axes attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    ::mlir::OperandRange getCommunicated() { return getODSOperands(0); }
  }];
}

#endif // CLEAVE_DIALECTS_DIST_COLLECTIVES
