//===- CostInterface.td - the cost of an op -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_COST_COSTINTERFACE
#define CLEAVE_DIALECTS_COST_COSTINTERFACE

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::cleave::cost";
  let description = [{
    An op whose cost does not follow from the sizes of its operands and results alone. All other ops are
    memory-bound: they read each operand and write each result once. Communication has its own interface
    in `dist`.
  }];
  let methods = [
    InterfaceMethod<[{
        Floating-point operations; a multiply-add counts as two. 0 if they are negligible compared to
        the bytes.
      }], "int64_t", "countFlops", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<[{
        The operand of which only the elements in the results are read, such as an embedding table; null
        if all operands are read in full.
      }], "::mlir::Value", "getTable", (ins), [{}], [{ return {}; }]>,
  ];
}

#endif // CLEAVE_DIALECTS_COST_COSTINTERFACE
