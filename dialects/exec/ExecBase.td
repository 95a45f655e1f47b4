//===- ExecBase.td - the exec dialect -----------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_EXEC_EXECBASE
#define CLEAVE_DIALECTS_EXEC_EXECBASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let summary = "kernels, compiled code, and planned memory and streams";
  let description = [{
    Design rationale: [dialects/exec/README.md](../../dialects/exec/README.md).
  }];
  let cppNamespace = "::cleave::exec";
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

#endif // CLEAVE_DIALECTS_EXEC_EXECBASE
