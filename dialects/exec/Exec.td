//===- Exec.td - the executable form ------------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_EXEC_EXEC
#define CLEAVE_DIALECTS_EXEC_EXEC

include "mlir/IR/OpBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let summary = "what a rank executes: kernels and their launches";
  let description = [{
    The reasons for what is here: [dialects/exec/README.md](../../dialects/exec/README.md).
  }];
  let cppNamespace = "::cleave::exec";
}

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

def Exec_KernelOp : Exec_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove,
                                       HasParent<"::mlir::ModuleOp">]> {
  let summary = "ops that run as one kernel";
  let description = [{
    A function of pure compute ops that is executed as one piece of code. The ops say what it
    computes; whoever has no compiled code for it runs them one by one. Kernels know nothing of
    placements: they compute on what one rank holds.

    Constraints:
    1. The body is one block of ops without regions and effects, none of which communicates, ended
       by `exec.return`.
    2. Arguments and results are statically shaped tensors without placement.
    3. The kernel has a result.

    ```mlir
    exec.kernel @gelu_bias(%x: tensor<8x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
      %0 = aten.add(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
      %1 = aten.gelu(%0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
      exec.return %1 : tensor<8x32xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<StrAttr>:$sym_visibility, OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// Constraints 2 and 3.
    ::llvm::LogicalResult verifyType();
    /// Constraint 1.
    ::llvm::LogicalResult verifyBody();
  }];
}

def Exec_ReturnOp : Exec_Op<"return", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "the results of a kernel";
  let description = [{
    Constraints:
    1. The operands have the types of the kernel's results.
  }];
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

def Exec_LaunchOp : Exec_Op<"launch", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel";
  let description = [{
    Constraints:
    1. `kernel` is an `exec.kernel` of the module.
    2. Operands and results have the types of its arguments and results, but for placements.

    ```mlir
    %y = exec.launch @gelu_bias(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyType>:$operands);
  let results = (outs Variadic<AnyType>);
  let assemblyFormat = "$kernel `(` $operands `)` attr-dict `:` functional-type(operands, results)";
}

#endif // CLEAVE_DIALECTS_EXEC_EXEC
