//===- Call.td - operators without a typed op -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CALL
#define CLEAVE_DIALECTS_ATEN_OPS_CALL

include "dialects/aten/AtenAttrs.td"

def Aten_CallOp : Op<Aten_Dialect, "call", [
    Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["getShardingRule"]>,
    DeclareOpInterfaceMethods<AtenOpInterface,
        ["getSchemaName", "getArgumentSpecs", "getArguments", "getViewedOperand", "mixesElements"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["countFlops"]>]> {
  let summary = "call any operator of PyTorch's dispatcher";
  let description = [{
    For operators without a typed op. The call is verified against the schema table that the build dumps
    from the dispatcher's registry. An operator of a library that PyTorch does not have brings its `schema`, and runs
    if the library is loaded (`cleave-run --load-library`).

    The operator is opaque, so it runs replicated, unless `sharding` says which dimensions correspond, in the
    notation of `dialects/sharding/RuleText.h`. Of a rule only the sizes can be checked.

    Constraints:
    1. `callee` is the full name of an overload in the table, or `schema` is present; if both are, they agree.
    2. Arguments match the schema by name and type; those without a default are present.
    3. Results correspond to the schema's returns.
    4. The operator does not mutate its arguments.
    5. `sharding` has the dimensions of each tensor argument, in the order of the schema (of each tensor of a
       list; an absent one has a place too), and of each result; a factor has one size, and one that no operand has
       is whole.

    Operators that draw random numbers from the global generator are rejected: use `aten.rng_*`.
    Attention draws only if `dropout_p` is not 0.

    ```mlir
    %0 = aten.call "aten::roll"(self = %x, shifts = [1], dims = [0])
        : (tensor<4xf32>) -> tensor<4xf32>
    %1 = aten.call "mine::cube" "(Tensor x) -> Tensor"(x = %x) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = aten.call "mine::total" "(Tensor x) -> Tensor" sharded "nc -> n; linear 0"(x = %y)
        : (tensor<4x8xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$callee, DictionaryAttr:$args, OptionalAttr<StrAttr>:$schema, OptionalAttr<StrAttr>:$sharding,
                       Variadic<Aten_Tensor>:$inputs);
  let results = (outs Variadic<Aten_MaybeTensor>:$outputs);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The operand numbers in the order of the schema, as `sharding` counts tensors: none for an absent one.
    ::llvm::SmallVector<std::optional<unsigned>> getTensorOperands();
  }];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_CALL
