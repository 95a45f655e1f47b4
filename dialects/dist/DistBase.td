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
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

#endif // CLEAVE_DIALECTS_DIST_DISTBASE
