//===- Buckets.td - gradients reduced together ------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_BUCKETS
#define CLEAVE_DIALECTS_TRAIN_BUCKETS

include "dialects/cost/CostInterface.td"
include "dialects/train/TrainAttrs.td"
include "dialects/train/TrainTypes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Train_GradientTensor : StaticShapeTensorOf<[F16, BF16, F32, F64, Complex<F32>, Complex<F64>]>;

def Train_BucketOp : Op<Train_Dialect, "bucket", [
    Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a flat buffer of several parameters' gradients, reduced together";
  let description = [{
    Members are contiguous and in the given order; their gradients are views of the buffer. The
    reduction uses the buffer's element type; members of another type are converted when contributed and
    when read. Without `over` the bucket is local: it is not reduced.

    With `scatter` each rank along those axes gets its shard of every member along one dimension (a
    reduce-scatter), which is then summed over the axes of `over`, if any. The dimension is the first,
    or the member's entry in `dims`. The buffer then holds the first rank's shards of all members, then
    the second rank's, and so on.

    `accumulations` is the required number of microbatches per step (default: any).

    Constraints:
    1. There is at least one member; names are unique and not empty.
    2. Members are statically shaped tensors of floating-point or complex numbers; the element type is
       floating-point, or complex if all members are.
    3. `over` and `scatter` name a `dist.mesh` of the module and one or more distinct axes of it.
    4. The sizes of the axes of `scatter` are known, and their product divides the scattered dimension
       of each member. `dims` has one entry per member.
    5. Members with placements are pending sums on the axes of `over` and `scatter`.
    6. `accumulations` is positive.

    ```mlir
    train.bucket @bucket0 of f32 ["a.weight" : tensor<8x8xf32>, "a.bias" : tensor<8xf32>]
        over @mesh ["dp"] accumulations 4
    train.bucket @bucket1 of f32 ["b.weight" : tensor<8x8xf32>]
    train.bucket @bucket2 of f32 ["c.weight" : tensor<8x8xf32>] over @mesh ["dp"] scatter ["fsdp"]
    train.bucket @bucket3 of f32 ["d.weight" : tensor<3x8xf32>, "d.bias" : tensor<8xf32>]
        over @mesh [] scatter ["fsdp"] dims [1, 0]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$element, StrArrayAttr:$names,
                       TypeArrayAttr:$types, OptionalAttr<FlatSymbolRefAttr>:$mesh,
                       OptionalAttr<StrArrayAttr>:$axes, OptionalAttr<StrArrayAttr>:$scatter,
                       OptionalAttr<I64Attr>:$accumulations, OptionalAttr<DenseI64ArrayAttr>:$dims);
  let assemblyFormat = [{
    $sym_name `of` $element custom<Members>($names, $types) (`over` $mesh^ $axes (`scatter` $scatter^)? (`dims` $dims^)?)?
    (`accumulations` $accumulations^)? attr-dict
  }];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
  let extraClassDeclaration = [{
    /// The type of this bucket's values.
    ::cleave::train::BucketType getBucketType();
    /// Position of a member, or nothing.
    std::optional<unsigned> findMember(::llvm::StringRef name);
    ::mlir::RankedTensorType getMemberType(unsigned member);
    /// The number of parts into which members are scattered; 1 without `scatter`.
    int64_t countParts();
    /// The scattered dimension of a member.
    int64_t getScatteredDim(unsigned member);
    /// The type of a member's reduced gradient: this rank's part.
    ::mlir::RankedTensorType getReducedType(unsigned member);
  }];
}

def Train_BucketResource : Resource<"::cleave::train::BucketResource">;
defvar Train_UsedBucket = Arg<Train_BucketType, "the bucket, whose state changes",
                              [MemRead<Train_BucketResource>, MemWrite<Train_BucketResource>]>;

class Train_BucketUserOp<string mnemonic, list<Trait> traits = []> : Op<Train_Dialect, mnemonic, [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>] # traits>;

def Train_ContributeOp : Train_BucketUserOp<"contribute", [AllTypesMatch<["bucket", "result"]>]> {
  let summary = "accumulate a gradient into its bucket";
  let description = [{
    The first contribution to a member in a step overwrites its buffer, bit for bit; later ones are
    added. The result is tied to `bucket`.

    Constraints:
    1. `bucket` is a value of a `train.bucket` that has the member, with the gradient's type and placement.
    2. A bucket value has exactly one user.

    ```mlir
    %1 = train.contribute %g to "a.weight" in %0 : tensor<8x8xf32>, !train.bucket<@bucket0 : tensor<72xf32>>
    ```
  }];
  let arguments = (ins Train_GradientTensor:$gradient, StrAttr:$member, Train_UsedBucket:$bucket);
  let results = (outs Train_BucketType:$result);
  let assemblyFormat = "$gradient `to` $member `in` $bucket attr-dict `:` type($gradient) `,` qualified(type($bucket))";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$gradient, "::llvm::StringRef":$member,
                                 "::mlir::Value":$bucket)>];
  let extraClassDefinition = [{
    void $cppClass::build(::mlir::OpBuilder &b, ::mlir::OperationState &state,
                          ::mlir::Value gradient, ::llvm::StringRef member, ::mlir::Value bucket) {
      build(b, state, bucket.getType(), gradient, b.getStringAttr(member), bucket);
    }
  }];
}

def Train_ContributeMmOp : Train_BucketUserOp<"contribute_mm", [
    AllTypesMatch<["bucket", "result"]>, DeclareOpInterfaceMethods<CostOpInterface, ["countFlops"]>]> {
  let summary = "accumulate a matrix product into its bucket";
  let description = [{
    `train.contribute` of `aten.mm(self, mat2)`, by one accumulating kernel that writes into the
    bucket, so that the gradient is never materialized. With `transposed` the transpose of the product is
    accumulated. Rounding differs from a product followed by an addition: not bitwise.

    Constraints:
    1. `self` is M x K, `mat2` is K x N, both with the buffer's element type.
    2. `bucket` is a value of a `train.bucket` that has the member, as M x N (transposed: N x M).
    3. A bucket value has exactly one user.

    ```mlir
    %1 = train.contribute_mm(%a, %b) to "w" in %0
        : (tensor<4x8xf32>, tensor<8x2xf32>), !train.bucket<@bucket0 : tensor<8xf32>>
    %2 = train.contribute_mm(%a, %b) transposed to "v" in %1
        : (tensor<4x8xf32>, tensor<8x2xf32>), !train.bucket<@bucket0 : tensor<8xf32>>
    ```
  }];
  let arguments = (ins Train_GradientTensor:$self, Train_GradientTensor:$mat2, UnitAttr:$transposed,
                       StrAttr:$member, Train_UsedBucket:$bucket);
  let results = (outs Train_BucketType:$result);
  let assemblyFormat = [{
    `(` $self `,` $mat2 `)` (`transposed` $transposed^)? `to` $member `in` $bucket attr-dict `:`
    `(` type($self) `,` type($mat2) `)` `,` qualified(type($bucket))
  }];
  let hasVerifier = 1;
}

def Train_ReduceBucketOp : Train_BucketUserOp<"reduce_bucket", [AllTypesMatch<["bucket", "result"]>]> {
  let summary = "start a bucket's reduction after the step's last contribution";
  let description = [{
    Follows a function's last contribution to the bucket. In the last microbatch of a step it starts the
    sum over the bucket's mesh axes on the communication stream and returns immediately; in earlier ones
    it does nothing. The result is tied to `bucket`.

    Constraints:
    1. `bucket` is a value of a `train.bucket`.
    2. A bucket value has exactly one user.

    ```mlir
    %2 = train.reduce_bucket %1 : !train.bucket<@bucket0 : tensor<72xf32>>
    ```
  }];
  let arguments = (ins Train_UsedBucket:$bucket);
  let results = (outs Train_BucketType:$result);
  let assemblyFormat = "$bucket attr-dict `:` qualified(type($bucket))";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$bucket), [{
    build($_builder, $_state, bucket.getType(), bucket);
  }]>];
}

def Train_WaitBucketOp : Train_BucketUserOp<"wait_bucket"> {
  let summary = "wait for a bucket's reduction and return its gradients";
  let description = [{
    One result per member, in order: a view of the buffer, converted if the types differ. A missing
    contribution is a runtime error.

    Constraints:
    1. `bucket` is a value of a `train.bucket`; results have the shapes and element types of its
       members, or of this rank's parts of them if the bucket is scattered. Placements become `R` or `I`
       on the axes of `over`, `S(0)` on those of `scatter`, and are unchanged on other axes.
    2. A bucket value has exactly one user.

    ```mlir
    %a, %b = train.wait_bucket %0 : !train.bucket<@bucket0 : tensor<72xf32>> -> tensor<8x8xf32>, tensor<8xf32>
    ```
  }];
  let arguments = (ins Train_UsedBucket:$bucket);
  let results = (outs Variadic<Train_GradientTensor>:$gradients);
  let assemblyFormat = "$bucket attr-dict `:` qualified(type($bucket)) `->` type($gradients)";
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_TRAIN_BUCKETS
