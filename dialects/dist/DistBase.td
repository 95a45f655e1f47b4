//===- DistBase.td - the dist dialect ------------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DISTBASE
#define CLEAVE_DIALECTS_DIST_DISTBASE

include "mlir/IR/OpBase.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::cleave::dist";
  let summary = "device meshes, collectives and placements";
  let description = [{
    A mesh is a named, ordered list of axes; a collective runs along one or more of them. A tensor's
    encoding, `#dist.on`, states how the value varies along each axis. `docs/types.md` defines the
    types; the rationale is in `dialects/dist/README.md`.

    In a program for one device, attributes annotate the placement of its tensors
    (`docs/placements.md`). The dialect has the following; any other attribute named `dist.` is an
    error:
    1. `dist.placement` is a `#dist.on`, on a tensor argument or result of a function.
    2. `dist.operands` and `dist.results` are lists on ops, with a `#dist.on` or `unit` (open) for each
       operand or result.
    3. `dist.whole_shape` is a list of sizes (`docs/random.md`).
    4. `dist.parts` is a number of parts, on `aten.index_put`, `aten.index` and `aten._grouped_mm` whose rows
       lie in as many equal parts, one for each rank that holds experts (`docs/placements.md`, Experts).
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // CLEAVE_DIALECTS_DIST_DISTBASE
