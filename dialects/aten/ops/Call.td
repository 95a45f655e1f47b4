//===- Call.td - operators without a typed op, and numbers -*- tablegen -*-===//

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

    6. Operands for `Tensor` arguments are tensors, those for `Scalar` arguments numbers.

    A `Scalar` argument may be a number computed at run time: an f64, or an i1 for a boolean.

    Operators that draw random numbers from the global generator are rejected: use `aten.rng_*`.
    Attention draws only if `dropout_p` is not 0.

    ```mlir
    %0 = aten.call "aten::roll"(self = %x, shifts = [1], dims = [0])
        : (tensor<4xf32>) -> tensor<4xf32>
    %1 = aten.call "mine::cube" "(Tensor x) -> Tensor"(x = %x) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = aten.call "mine::total" "(Tensor x) -> Tensor" sharded "nc -> n; linear 0"(x = %y)
        : (tensor<4x8xf32>) -> tensor<4xf32>
    %3 = aten.call "aten::add.Tensor" sharded "a, a -> a"(self = %x, other = %x, alpha = %rate)
        : (tensor<4xf32>, tensor<4xf32>, f64) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$callee, DictionaryAttr:$args, OptionalAttr<StrAttr>:$schema, OptionalAttr<StrAttr>:$sharding,
                       Variadic<AnyTypeOf<[Aten_Tensor, F64, I1]>>:$inputs);
  let results = (outs Variadic<Aten_MaybeTensor>:$outputs);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The operand numbers in the order of the schema, as `sharding` counts tensors: none for an absent one.
    ::llvm::SmallVector<std::optional<unsigned>> getTensorOperands();
  }];
}

def Aten_ItemOp : Op<Aten_Dialect, "item", [
    Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["getShardingRule"]>]> {
  let summary = "the number in a 0-d tensor";
  let description = [{
    What `tensor.item()` is in Python: an f64 for the ops of the `arith` and `math` dialects, and for `Scalar` arguments
    of `aten.call`. Numbers are on the host, are computed as Python computes its floats, and are the same on all ranks:
    they have no placement.

    Constraints:
    1. The operand is a 0-d tensor of f16, bf16, f32 or f64, the result an f64.

    ```mlir
    %rate = aten.item(%lr) : (tensor<f64>) -> f64
    ```
  }];
  let arguments = (ins TensorRankOf<[F16, BF16, F32, F64], [0]>:$input);
  let results = (outs F64:$result);
  let assemblyFormat = "`(` $input `)` attr-dict `:` functional-type($input, $result)";
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_CALL
