//===- Dist.td - the mesh, and all ops of the dist dialect ----*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DIST
#define CLEAVE_DIALECTS_DIST_DIST

include "dialects/dist/Async.td"
include "dialects/dist/Collectives.td"
include "dialects/dist/Conversions.td"
include "dialects/dist/Fakes.td"
include "dialects/dist/PointToPoint.td"
include "dialects/dist/Rooted.td"

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
    /// How many ranks lie along the axes together; nothing where one is left open (`?`) or missing.
    std::optional<int64_t> countRanks(::mlir::ArrayAttr axes);
  }];
}

#endif // CLEAVE_DIALECTS_DIST_DIST
