//===- AtenInterfaces.td - interfaces of aten ops -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_ATENINTERFACES
#define CLEAVE_DIALECTS_ATEN_ATENINTERFACES

include "mlir/IR/OpBase.td"

def AtenOpInterface : OpInterface<"AtenOpInterface"> {
  let cppNamespace = "::cleave::aten";
  let description = [{
    An op that calls one operator of the dispatcher: `aten.call` and all typed ops.
  }];
  let methods = [
    InterfaceMethod<"The full name of the overload, `aten::add.Tensor`.",
      "::llvm::StringRef", "getSchemaName">,
    InterfaceMethod<"The arguments in the order of the schema, as the op's record lists them. Empty for `aten.call`.",
      "::llvm::ArrayRef<::cleave::aten::ArgumentSpec>", "getArgumentSpecs">,
    InterfaceMethod<[{
        The arguments that are present, in the order of the schema, with their values. Absent ones have
        the schema's default.
      }], "::llvm::SmallVector<::cleave::aten::Argument>", "getArguments", (ins), [{}], [{
        return ::cleave::aten::collectArguments($_op);
      }]>,
    InterfaceMethod<[{
        The operand whose memory result `index` shares at run time, or a null value. A typed op that
        shares memory is a view of one operand and implements `ViewLikeOpInterface`.
      }], "::mlir::Value", "getViewedOperand", (ins "unsigned":$index), [{}], [{
        auto view = ::llvm::dyn_cast<::mlir::ViewLikeOpInterface>($_op.getOperation());
        return view ? view.getViewSource() : ::mlir::Value();
      }]>,
    InterfaceMethod<[{
        Whether it makes elements of others by products, by index, or one from those before it, rather
        than moving, converting, adding or combining what is in one place. Typed ops have it in their
        record; of an operator without one, nothing else is known.
      }], "bool", "mixesElements", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"What it looks up by indices that the program gets as input; nothing for most ops.",
      "std::optional<::cleave::aten::LookUp>", "getLookUp", (ins), [{}], [{ return std::nullopt; }]>,
  ];
  let verify = [{ return ::cleave::aten::verifyAtenOp($_op); }];
}

def RandomOpInterface : OpInterface<"RandomOpInterface"> {
  let cppNamespace = "::cleave::aten";
  let description = [{
    An op that draws random numbers, from the place in the stream that its seed, offset and position say.
  }];
  let methods = [
    InterfaceMethod<"The generator of its numbers.", "::cleave::aten::Generator", "getGenerator">,
  ];
}

def RowOpInterface : OpInterface<"RowOpInterface"> {
  let cppNamespace = "::cleave::aten";
  let description = [{
    An op that a compiled kernel may contain, given a formula for it. A kernel iterates over the rows of
    a matrix; the interface describes how the op accesses them.
  }];
  let methods = [
    StaticInterfaceMethod<"The part of the matrix that an element of the results depends on.",
      "::cleave::aten::RowKind", "getRowKind">,
    StaticInterfaceMethod<[{
        Its cost in pointwise ops, roughly: 0 for views, which cost nothing outside a kernel.
      }], "unsigned", "getRowWeight">,
  ];
}

/// ATen computes the op by one pointwise kernel (`TensorIterator`): each element of the result depends on the
/// corresponding elements of the (broadcast) operands, whose strides determine those of the result.
def Pointwise : NativeOpTrait<"Pointwise"> {
  let cppNamespace = "::cleave::aten";
}

/// The result is the first operand: the same elements, converted to its dtype, in memory of its own.
/// Its shape may differ.
def CopyLike : NativeOpTrait<"CopyLike"> {
  let cppNamespace = "::cleave::aten";
}

/// The `out` overload of a pointwise op runs that kernel too, so the result may overwrite an operand.
/// Other overloads compute elsewhere and copy, which gains nothing.
def PointwiseOut : NativeOpTrait<"PointwiseOut"> {
  let cppNamespace = "::cleave::aten";
}

#endif // CLEAVE_DIALECTS_ATEN_ATENINTERFACES
