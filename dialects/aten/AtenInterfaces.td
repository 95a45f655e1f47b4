//===- AtenInterfaces.td - what passes and the runtime may ask an aten op -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_ATENINTERFACES
#define CLEAVE_DIALECTS_ATEN_ATENINTERFACES

include "mlir/IR/OpBase.td"

def AtenOpInterface : OpInterface<"AtenOpInterface"> {
  let cppNamespace = "::cleave::aten";
  let description = [{
    An op that calls one operator of the dispatcher: `aten.call` and all typed ops. Users of
    this interface do not depend on the op.
  }];
  let methods = [
    InterfaceMethod<"The full name of the overload, `aten::add.Tensor`.",
      "::llvm::StringRef", "getSchemaName">,
    InterfaceMethod<"The arguments in the order of the schema, as the op's record lists them. Empty for `aten.call`.",
      "::llvm::ArrayRef<::cleave::aten::ArgumentSpec>", "getArgumentSpecs">,
    InterfaceMethod<[{
        The arguments that are present, in the order of the schema, with their values. What is
        absent takes the schema's default.
      }], "::llvm::SmallVector<::cleave::aten::Argument>", "getArguments", (ins), [{}], [{
        return ::cleave::aten::collectArguments($_op);
      }]>,
    InterfaceMethod<[{
        The operand whose memory result `index` shares when it is executed (a view), or a null value.
      }], "::mlir::Value", "getViewSource", (ins "unsigned":$index), [{}], [{
        return ::cleave::aten::viewSource($_op, index);
      }]>,
  ];
  let verify = [{ return ::cleave::aten::verifyAtenOp($_op); }];
}

/// Marks an op whose first result may share the memory of its first operand (a view, as ATen has it).
def ViewLike : NativeOpTrait<"ViewLike"> {
  let cppNamespace = "::cleave::aten";
}

#endif // CLEAVE_DIALECTS_ATEN_ATENINTERFACES
