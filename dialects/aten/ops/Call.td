//===- Call.td - every operator that has no typed op -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CALL
#define CLEAVE_DIALECTS_ATEN_OPS_CALL

include "dialects/aten/AtenAttrs.td"

def Aten_CallOp : Op<Aten_Dialect, "call", [
    Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["getShardingRule"]>,
    DeclareOpInterfaceMethods<AtenOpInterface,
        ["getSchemaName", "getArgumentSpecs", "getArguments", "getViewedOperand", "mixesElements",
         "getLookUp"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["countFlops"]>]> {
  let summary = "call of any operator of PyTorch's dispatcher";
  let description = [{
    For operators without a typed op. The call is checked against the schema table that the build
    dumps from the dispatcher's registry; to everything else it is opaque. An operator of a library that
    PyTorch does not have brings its `schema`, and runs where the library is loaded (`cleave-run --load-library`).

    Constraints:
    1. `callee` is the full name of an overload in the table, or `schema` is present; where both are, they agree.
    2. Every argument is one of the schema's, has its type, and none without a default is missing.
    3. Results correspond to the schema's returns.
    4. The operator mutates none of its arguments.

    An operator that draws random numbers from the global generator is refused: use `aten.rng_*`.
    Attention draws only with a `dropout_p`.

    ```mlir
    %0 = aten.call "aten::roll"(self = %x, shifts = [1], dims = [0])
        : (tensor<4xf32>) -> tensor<4xf32>
    %1 = aten.call "mine::cube"(x = %x) {schema = "(Tensor x) -> Tensor"} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$callee, DictionaryAttr:$args, OptionalAttr<StrAttr>:$schema, Variadic<Aten_Tensor>:$inputs);
  let results = (outs Variadic<Aten_MaybeTensor>:$outputs);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_CALL
