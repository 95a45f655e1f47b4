//===- Dist.td - ops of the dist dialect ----------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DIST
#define CLEAVE_DIALECTS_DIST_DIST

include "dialects/dist/DistAttrs.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "a named mesh of devices";
  let description = [{
    Ranks are numbered in row-major order: the last axis varies fastest.

    Constraints:
    1. There is at least one axis, and names are unique and not empty.
    2. Sizes are positive; at most one axis has the size `?`, which it gets when the program starts.
    3. All sizes together are less than 2^31 ranks.

    ```mlir
    dist.mesh @mesh ["pp" = 2, "dp" = ?]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$axes);
  let assemblyFormat = "$sym_name custom<Axes>($axes) attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The axis of that name, or null.
    ::cleave::dist::AxisAttr findAxis(::llvm::StringRef name);
  }];
}

def Dist_AllReduceOp : Dist_Op<"all_reduce", [
    Pure, SameOperandsAndResultType, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "reduction of a value over all ranks along mesh axes, given to each of them";
  let description = [{
    Constraints:
    1. `mesh` names a `dist.mesh`, `axes` are some of its axes, each once, at least one.
    2. The element type is a number.

    ```mlir
    %1 = dist.all_reduce sum(%0) over @mesh ["dp"] : tensor<8xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dist_ReductionAttr:$reduction,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "custom<Reduction>($reduction) `(` $input `)` `over` $mesh $axes attr-dict `:` type($input)";
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_DIST_DIST
