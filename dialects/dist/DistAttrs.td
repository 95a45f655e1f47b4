//===- DistAttrs.td - mesh axes, reductions, placements -------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DISTATTRS
#define CLEAVE_DIALECTS_DIST_DISTATTRS

include "dialects/dist/DistBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

def Dist_Reduction : I32EnumAttr<"Reduction", "how the values of several ranks are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Avg", 1, "avg">,
    I32EnumAttrCase<"PremulSum", 2, "premul_sum">,
    I32EnumAttrCase<"Max", 3, "max">,
    I32EnumAttrCase<"Min", 4, "min">,
    I32EnumAttrCase<"Product", 5, "product">,
    I32EnumAttrCase<"BitAnd", 6, "band">,
    I32EnumAttrCase<"BitOr", 7, "bor">,
    I32EnumAttrCase<"BitXor", 8, "bxor">]> {
  let cppNamespace = "::cleave::dist";
  let genSpecializedAttr = 0;
}

def Dist_ReductionAttr : AttrDef<Dist_Dialect, "Reduction"> {
  let mnemonic = "reduction";
  let summary = "a reduction, with the factor of a premul_sum";
  let description = [{
    `sum`, `avg`, `premul_sum<0.5>`, `max`, `min`, `product`, `band`, `bor`, `bxor`. An average is
    the sum divided by the number of ranks; a premul_sum multiplies each rank's value by
    its factor before they are summed.

    Constraints:
    1. `premul_sum`, and no other, has a factor: a finite f64.
  }];
  let parameters = (ins EnumParameter<Dist_Reduction>:$kind, OptionalParameter<"::mlir::FloatAttr">:$factor);
  let builders = [AttrBuilder<(ins "::cleave::dist::Reduction":$kind), [{
    return $_get($_ctxt, kind, ::mlir::FloatAttr());
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// As printed in an op: `sum`, `premul_sum<0.5>`, ...
    static ::mlir::FailureOr<::cleave::dist::ReductionAttr> parseBare(::mlir::AsmParser &parser);
    void printBare(::mlir::AsmPrinter &printer) const;
  }];
}

def Dist_AxisAttr : AttrDef<Dist_Dialect, "Axis"> {
  let mnemonic = "axis";
  let summary = "a mesh axis: its name and size";
  let description = [{
    A size of 0 is printed as `?`: when the program starts, it becomes the number of ranks divided by
    the sizes of the other axes.
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$size);
  let hasCustomAssemblyFormat = 1;
}

def Dist_PlacementAttr : AttrDef<Dist_Dialect, "Placement", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "on";
  let summary = "placement of a tensor on a mesh: one entry per axis";
  let description = [{
    The encoding of a distributed tensor's type; the shape is that of one rank's part. Entries are
    sorted by axis name, so equal placements are the same attribute.

    Constraints:
    1. Each axis is named once.
    2. In `S(d)`, d is a dimension of the tensor; the orders of the axes that shard one dimension are a
       permutation of 0, 1, ...
    3. Pending reductions of several axes are equal, or `sum` and `avg`: others do not commute.
    4. A pending reduction is `sum`, `avg`, `max`, `min` or `product`, and the element type supports it
       (see `dist.all_reduce`).

    ```mlir
    tensor<4x8xf32, #dist.on<@mesh, dp = S(0), tp = R>>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$mesh,
                        ArrayRefParameter<"::cleave::dist::AxisEntry">:$entries);
  let skipDefaultBuilders = 1;
  let builders = [AttrBuilderWithInferredContext<
      (ins "::mlir::FlatSymbolRefAttr":$mesh, "::llvm::ArrayRef<::cleave::dist::AxisEntry>":$entries), [{
    ::llvm::SmallVector<::cleave::dist::AxisEntry> sorted = ::cleave::dist::sortedByAxis(entries);
    return $_get(mesh.getContext(), mesh, ::llvm::ArrayRef<::cleave::dist::AxisEntry>(sorted));
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The placement on an axis; nothing if the type does not list it (its size is 1).
    std::optional<::cleave::dist::AxisPlacement> get(::llvm::StringRef axis) const;
    /// The same attribute with another placement on `axis`, which may be new. Orders of the other axes are
    /// unchanged: if `axis` stops sharding a dimension that others shard, update theirs too.
    ::cleave::dist::PlacementAttr with(::llvm::StringRef axis, ::cleave::dist::AxisPlacement placement) const;
    /// The placement of the cotangent (gradient) of a value with this placement. Fails, without a message,
    /// for a pending reduction other than a sum: no gradient flows through it.
    ::llvm::FailureOr<::cleave::dist::PlacementAttr> dual() const;
    /// The axes that shard dimension `dim`, major first.
    ::llvm::SmallVector<::mlir::StringAttr> getShardingAxes(int64_t dim) const;
    /// The axes on which this and `other`, of the same axes, differ.
    ::llvm::SmallVector<::mlir::StringAttr> getDifferingAxes(::cleave::dist::PlacementAttr other) const;
  }];
}

#endif // CLEAVE_DIALECTS_DIST_DISTATTRS
