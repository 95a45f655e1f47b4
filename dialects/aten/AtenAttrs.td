//===- AtenAttrs.td - attributes of aten ops that no schema has -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_ATENATTRS
#define CLEAVE_DIALECTS_ATEN_ATENATTRS

include "dialects/aten/AtenBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Aten_OperandAttr : AttrDef<Aten_Dialect, "Operand"> {
  let mnemonic = "operand";
  let summary = "stands for an operand in the arguments of `aten.call`";
  let parameters = (ins "unsigned":$index);
  let assemblyFormat = "`<` $index `>`";
}

def Aten_ComplexAttr : AttrDef<Aten_Dialect, "Complex"> {
  let mnemonic = "complex";
  let summary = "a complex number as a `Scalar`";
  let description = [{
    ```mlir
    %0 = aten.mul_scalar(%z, other = #aten.complex<0.0, 1.0>) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    ```
  }];
  let parameters = (ins "::mlir::FloatAttr":$real, "::mlir::FloatAttr":$imag);
  let assemblyFormat = "`<` $real `,` $imag `>`";
  let genVerifyDecl = 1;
}

def Aten_Generator : I32EnumAttr<"Generator", "generator of random numbers, mt19937 or philox", [
  I32EnumAttrCase<"Mt19937", 0, "mt19937">,
  I32EnumAttrCase<"Philox", 1, "philox">]> {
  let cppNamespace = "::cleave::aten";
  let genSpecializedAttr = 0;
}
def Aten_GeneratorAttr : EnumAttr<Aten_Dialect, Aten_Generator, "generator"> {
  let assemblyFormat = "`<` $value `>`";
}

#endif // CLEAVE_DIALECTS_ATEN_ATENATTRS
