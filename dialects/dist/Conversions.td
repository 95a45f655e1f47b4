//===- Conversions.td - local changes of placement -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_CONVERSIONS
#define CLEAVE_DIALECTS_DIST_CONVERSIONS

include "dialects/dist/DistOps.td"

class Dist_ConversionOp<string mnemonic>
    : Dist_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                         DeclareOpInterfaceMethods<ViewLikeOpInterface>]> {
  let arguments = (ins Dist_Tensor:$input);
  let results = (outs Dist_Tensor:$result);
  let hasVerifier = 1;
  code conversionDeclarations = [{
    /// The axis on which the operand's and the result's placements differ.
    ::mlir::StringAttr getAxis();
    /// The operand's placement on that axis.
    ::cleave::dist::AxisPlacement getSource();
    /// The result's placement on that axis.
    ::cleave::dist::AxisPlacement getDestination();
  }];
  let extraClassDeclaration = conversionDeclarations;
  let hasFolder = 1;
}

def Dist_ConvertOp : Dist_ConversionOp<"convert"> {
  let summary = "change the placement locally; the global value is unchanged";
  let description = [{
    To `S(d)`, or to `V` with `dim`, a rank slices its shard; from these to `P` it pads its shard
    with zeros; from `R` or `I` to `P` the first rank along the axis keeps the value and the others
    use zeros.

    Constraints:
    1. Both types have placements on the same mesh and axes, which differ on exactly one axis.
    2. Placements: `I` to `R`, `V`, `S(d)` or `P`; `R` to `V`, `S(d)`, `P` or `I`; `V` or `S(d)` to `P`; `P` is
       `P(sum)`. An axis that starts or stops sharding a dimension is the most minor one that shards it.
    3. `dim`, a dimension of the tensor, is given if and only if one type is `V`.
    4. Element types are equal; shapes too, except that the dimension of a `V` or `S(d)` type is one
       rank's chunk of the other's (`torch.chunk`).

    ```mlir
    %1 = dist.convert %0 : tensor<8xf32, #I_tp> -> tensor<8xf32, #R_tp>
    %2 = dist.convert %1 dim 0 : tensor<8xf32, #R_tp> -> tensor<4xf32, #V_tp>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, OptionalAttr<Dist_Int>:$dim);
  let assemblyFormat = [{
    $input (`dim` $dim^)? attr-dict `:` custom<Transition>(type($input), type($result))
  }];
  let extraClassDeclaration = conversionDeclarations # [{
    /// The dimension that is sliced or padded; nothing if the whole value is kept or zeroed.
    std::optional<int64_t> getSlicedDim();
  }];
}

def Dist_ReinterpretOp : Dist_ConversionOp<"reinterpret"> {
  let summary = "change the placement; each rank's data is unchanged";
  let description = [{
    `R` to `P` scales the global value by the size of the axis: every rank's value becomes a term of the
    sum.

    Constraints:
    1. Both types have placements on the same mesh and axes, which differ on exactly one axis.
    2. Placements: `R` to `V`; `V` to `P` (any reduction); `R` to `P(sum)`; `V` to `S(d)`; `S(d)` to
       `V`. An axis that starts or stops sharding a dimension is the most minor one that shards it.
    3. Shapes and element types are equal.

    ```mlir
    %1 = dist.reinterpret %0 : tensor<8xf32, #V_tp> -> tensor<8xf32, #P_tp>
    ```
  }];
  let assemblyFormat = "$input attr-dict `:` custom<Transition>(type($input), type($result))";
}

def Dist_AxisIndexOp : Dist_AxesOp<"axis_index", [Pure]> {
  let summary = "the rank's index along mesh axes; the first listed axis is the major one";
  let description = [{
    Constraints:
    1. `mesh` names a `dist.mesh`; `axes` lists one or more distinct axes of it.
    2. The result is a 0-d i64 tensor; its placement is `V` along the axes, `R` or `I` along others.

    ```mlir
    %0 = dist.axis_index over @mesh ["tp"] : tensor<i64, #V_tp>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "`over` $mesh $axes attr-dict `:` type($result)";
}

#endif // CLEAVE_DIALECTS_DIST_CONVERSIONS
