//===- Exec.td - ops of the exec dialect ------------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_EXEC_EXEC
#define CLEAVE_DIALECTS_EXEC_EXEC

include "dialects/exec/CodeAttrs.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

def Exec_BinaryOp : Exec_Op<"binary", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "compiled code of the module's kernels for one target";
  let description = [{
    `elf` is a shared object for an x86-64 level, `cubin` a module for a CUDA architecture. A binary
    contains the code of all kernels compiled for its target; the kernel's `code` names its functions.
    The runtime selects the best binary that its machine can execute.

    The code is a resource: raw bytes in bytecode, hexadecimal digits in text.

    Constraints:
    1. The target of `elf` is "x86-64-v2", "x86-64-v3" or "x86-64-v4"; that of `cubin` is "sm_" and a
       number, optionally followed by the letter a or f.
    2. The code is a `tensor<Nxi8>` of N bytes and begins with an ELF header (cubins are ELF files too).
    3. No other binary of the module is for this target.

    ```mlir
    exec.binary @kernels_v3 elf for "x86-64-v3" = dense_resource<kernels_v3> : tensor<8216xi8>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Exec_BinaryFormatAttr:$format, StrAttr:$target,
                       Builtin_DenseResourceElementsAttr:$code);
  let assemblyFormat = "$sym_name `` $format `for` $target `=` $code attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    Family getFamily() { return getFormat() == BinaryFormat::Elf ? Family::Cpu : Family::Cuda; }
    /// The code; empty if the file that the op was read from does not contain it.
    ::llvm::ArrayRef<char> getBytes();
  }];
}

def Exec_KernelOp : Exec_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove,
                                       HasParent<"::mlir::ModuleOp">,
                                       DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a group of ops that runs as one kernel";
  let description = [{
    A function of pure compute ops that is executed as a unit. The ops define what it computes; without
    compiled code they run one by one. Kernels have no placements: they compute on one rank's data.
    `code` says how each target kind runs the compiled kernel.

    Constraints:
    1. The body is one block, terminated by `exec.return`, of ops without regions or side effects, none
       of which communicates.
    2. Arguments and results are statically shaped tensors without placement.
    3. The kernel has at least one result.
    4. `code` has at most one entry per target kind, for which the module has an `exec.binary`.

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
                       OptionalAttr<DictArrayAttr>:$res_attrs, OptionalAttr<Exec_CodeArrayAttr>:$code);
  let regions = (region AnyRegion:$body);
  /// Without compiled code.
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type,
                                 CArg<"::mlir::StringAttr", "{}">:$visibility,
                                 CArg<"::mlir::ArrayAttr", "{}">:$argAttrs,
                                 CArg<"::mlir::ArrayAttr", "{}">:$resAttrs)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// How to run it on targets of `family`; null if it has no compiled code for them.
    CodeAttr getCodeFor(Family family);
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
  let summary = "run a kernel";
  let description = [{
    Constraints:
    1. `kernel` is an `exec.kernel` of the module.
    2. Operands and results have the types of its arguments and results, apart from placements.

    ```mlir
    %y = exec.launch @gelu_bias(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyType>:$operands);
  let results = (outs Variadic<AnyType>);
  let assemblyFormat = "$kernel `(` $operands `)` attr-dict `:` functional-type(operands, results)";
}

include "dialects/exec/LoweredOps.td"

#endif // CLEAVE_DIALECTS_EXEC_EXEC
