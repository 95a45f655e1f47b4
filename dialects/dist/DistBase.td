//===- DistBase.td - the dist dialect ------------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DISTBASE
#define CLEAVE_DIALECTS_DIST_DISTBASE

include "mlir/IR/OpBase.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::cleave::dist";
  let summary = "device meshes, collectives, and how values lie on a mesh";
  let description = [{
    A mesh is a named, ordered list of axes; a collective runs along one or more of them. A tensor's
    encoding, `#dist.on`, says how the value varies along each axis. The contract is
    `docs/types.md`, the rationale `dialects/dist/README.md`.

    A program for one device says in attributes where its tensors are to live (`docs/placements.md`).
    These are all that the dialect has; others named `dist.` are errors:
    1. `dist.placement` is a `#dist.on`, on an argument or result of a function that is a tensor.
    2. `dist.operands` and `dist.results` are lists on ops, with a `#dist.on` or `unit` (left open) for
       each operand and each result.
    3. `dist.whole_shape` is a list of sizes (`docs/random.md`).
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // CLEAVE_DIALECTS_DIST_DISTBASE
