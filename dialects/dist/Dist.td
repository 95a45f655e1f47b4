//===- Dist.td - the mesh, and all ops of the dist dialect ----*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DIST
#define CLEAVE_DIALECTS_DIST_DIST

include "dialects/dist/Async.td"
include "dialects/dist/Collectives.td"
include "dialects/dist/Conversions.td"
include "dialects/dist/Fakes.td"
include "dialects/dist/Host.td"
include "dialects/dist/PointToPoint.td"
include "dialects/dist/Rooted.td"

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "a named mesh of devices";
  let description = [{
    Ranks are numbered in row-major order: the last axis varies fastest.

    Constraints:
    1. There is at least one axis; names are unique and not empty.
    2. Sizes are positive; at most one axis has size `?`, which is determined when the program starts.
    3. The number of ranks, the product of the sizes, is less than 2^31.

    ```mlir
    dist.mesh @mesh ["pp" = 2, "dp" = ?]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$axes);
  let assemblyFormat = "$sym_name custom<Axes>($axes) attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The axis with this name, or null.
    ::cleave::dist::AxisAttr findAxis(::llvm::StringRef name);
    /// The number of ranks along all the axes; nothing if the size of one is open (`?`) or unknown.
    std::optional<int64_t> countRanks(::mlir::ArrayAttr axes);
  }];
}

#endif // CLEAVE_DIALECTS_DIST_DIST
