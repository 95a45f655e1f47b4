//===- TrainInterfaces.td - what passes may ask an op of the update -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_TRAININTERFACES
#define CLEAVE_DIALECTS_TRAIN_TRAININTERFACES

include "mlir/IR/OpBase.td"

def OptimizerStepOpInterface : OpInterface<"OptimizerStepOpInterface"> {
  let cppNamespace = "::cleave::train";
  let description = [{
    One optimizer step of one parameter. Operands are the parameter, its gradient, the optimizer's
    states, the step, the learning rate, and the momentum or first beta where it changes from step to
    step; results are the new parameter and the new states.
  }];
  let methods = [
    InterfaceMethod<"The gradient.", "::mlir::OpOperand &", "getGradientMutable">,
    InterfaceMethod<"The learning rate.", "::mlir::Value", "getLr">,
    InterfaceMethod<"The step.", "::mlir::Value", "getStep">,
    InterfaceMethod<"The momentum or first beta where it changes from step to step; else null.",
      "::mlir::Value", "getScheduledNumber">,
    InterfaceMethod<"The operand whose new value result `index` is, and in whose memory it is computed.",
      "unsigned", "getTiedOperand", (ins "unsigned":$index), [{}], [{ return index == 0 ? 0 : index + 1; }]>,
  ];
}

#endif // CLEAVE_DIALECTS_TRAIN_TRAININTERFACES
