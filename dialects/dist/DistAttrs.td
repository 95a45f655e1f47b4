//===- DistAttrs.td - mesh axes and reductions ----------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DISTATTRS
#define CLEAVE_DIALECTS_DIST_DISTATTRS

include "dialects/dist/DistBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Dist_Reduction : I32EnumAttr<"Reduction", "how values of several ranks become one", [
    I32EnumAttrCase<"Sum", 0, "sum">]> {
  let cppNamespace = "::cleave::dist";
  let genSpecializedAttr = 0;
}
def Dist_ReductionAttr : EnumAttr<Dist_Dialect, Dist_Reduction, "reduction"> {
  let assemblyFormat = "`<` $value `>`";
}

def Dist_AxisAttr : AttrDef<Dist_Dialect, "Axis"> {
  let mnemonic = "axis";
  let summary = "one axis of a mesh: its name and how many ranks lie along it";
  let description = [{
    A size of 0 is printed `?`: the axis takes the ranks that the other axes leave when the
    program is started.
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$size);
  let hasCustomAssemblyFormat = 1;
}

#endif // CLEAVE_DIALECTS_DIST_DISTATTRS
