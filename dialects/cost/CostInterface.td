//===- CostInterface.td - what an op computes and reads -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_COST_COSTINTERFACE
#define CLEAVE_DIALECTS_COST_COSTINTERFACE

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::cleave::cost";
  let description = [{
    An op whose cost does not follow from the sizes of its operands and results alone. All other ops
    are bound by memory: they read each operand and write each result once. Communication has an
    interface of its own in `dist`.
  }];
  let methods = [
    InterfaceMethod<[{
        Floating-point operations, a multiplication and an addition counted as two; 0 where they do
        not matter beside the bytes.
      }], "int64_t", "countFlops", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<[{
        The operand of which only those elements are read that the results contain, such as a table
        of embeddings; null where all operands are read whole.
      }], "::mlir::Value", "getTable", (ins), [{}], [{ return {}; }]>,
  ];
}

#endif // CLEAVE_DIALECTS_COST_COSTINTERFACE
