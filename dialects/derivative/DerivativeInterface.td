//===- DerivativeInterface.td - how an op is differentiated -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DERIVATIVE_DERIVATIVEINTERFACE
#define CLEAVE_DIALECTS_DERIVATIVE_DERIVATIVEINTERFACE

include "mlir/IR/OpBase.td"

def DerivativeInterface : OpInterface<"DerivativeInterface"> {
  let cppNamespace = "::cleave::autodiff";
  let description = [{
    Reverse-mode derivative of one op. Dialects promise it for their ops (`dialects/*/Derivatives.cpp`);
    the external models, which build IR, are in `lib/autodiff` and attached by `registerAllModels`. An
    op without the interface has no derivative: `--autodiff` reports an error if a gradient must flow
    through it.
  }];
  let methods = [
    InterfaceMethod<[{
        Adds the gradients of the operands that need one, given those of the results
        (`lib/autodiff/Backward.h`). Called only if some result has a gradient and some operand needs
        one. Emits an error at the op if the derivative is not defined.
      }], "::llvm::LogicalResult", "differentiate", (ins "::cleave::autodiff::Backward &":$backward)>,
    InterfaceMethod<[{
        Whether result `index`, if it is floating-point, is a differentiable function of the operands.
        False stops the gradient, as `detach` does.
      }], "bool", "carriesGradient", (ins "unsigned":$index), [{}], [{ return true; }]>,
  ];
}

#endif // CLEAVE_DIALECTS_DERIVATIVE_DERIVATIVEINTERFACE
