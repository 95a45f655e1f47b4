//===- DistTypes.td - futures, and type constraints ------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DISTTYPES
#define CLEAVE_DIALECTS_DIST_DISTTYPES

include "dialects/dist/DistAttrs.td"

def Dist_FutureType : TypeDef<Dist_Dialect, "Future"> {
  let mnemonic = "future";
  let summary = "the result of an asynchronous communication";
  let description = [{
    `dist.wait` returns the value. `!dist.future<none>` is the completion of a communication without a
    value, such as a send or a barrier.

    Constraints:
    1. The value is a statically shaped tensor, or `none`.
  }];
  let parameters = (ins "::mlir::Type":$valueType);
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$valueType), [{
    return $_get(valueType.getContext(), valueType);
  }]>];
  let assemblyFormat = "`<` $valueType `>`";
  let genVerifyDecl = 1;
}

def Dist_HostType : TypeDef<Dist_Dialect, "Host"> {
  let mnemonic = "host";
  let summary = "a copy of a value in host memory";
  let description = [{
    `dist.offload` makes it, `dist.reload` copies it back. It takes no memory of the device.

    Constraints:
    1. The value is a statically shaped tensor.

    ```mlir
    !dist.host<tensor<8xf32>>
    ```
  }];
  let parameters = (ins "::mlir::RankedTensorType":$valueType);
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::RankedTensorType":$valueType), [{
    return $_get(valueType.getContext(), valueType);
  }]>];
  let assemblyFormat = "`<` $valueType `>`";
  let genVerifyDecl = 1;
}

// A statically shaped tensor of numbers, with or without a placement.
def Dist_Tensor : Type<CPred<"::cleave::dist::isTensor($_self)">, "statically shaped tensor of numbers or booleans",
                       "::mlir::RankedTensorType">;
// The result of a communication, or its future.
def Dist_Result : Type<CPred<"::cleave::dist::isTensor(::cleave::dist::valueTypeOf($_self)) && !::llvm::isa<::cleave::dist::HostType>($_self)">,
                       "statically shaped tensor of numbers or booleans, or a future of one">;
// The completion of a communication without a value.
def Dist_Completion : Type<CPred<"$_self == ::cleave::dist::FutureType::get(::mlir::NoneType::get($_self.getContext()))">,
                           "future of none", "::cleave::dist::FutureType">;

#endif // CLEAVE_DIALECTS_DIST_DISTTYPES
