//===- CodeAttrs.td - attributes of compiled kernels ----------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_EXEC_CODEATTRS
#define CLEAVE_DIALECTS_EXEC_CODEATTRS

include "dialects/exec/ExecBase.td"

class Exec_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::cleave::exec";
  let genSpecializedAttr = 0;
}

def Exec_Family : Exec_Enum<"Family", "target kind", [
  I32EnumAttrCase<"Cpu", 0, "cpu">,
  I32EnumAttrCase<"Cuda", 1, "cuda">]>;

def Exec_BinaryFormat : Exec_Enum<"BinaryFormat", "format of compiled code", [
  I32EnumAttrCase<"Elf", 0, "elf">,
  I32EnumAttrCase<"Cubin", 1, "cubin">]>;
def Exec_BinaryFormatAttr : EnumAttr<Exec_Dialect, Exec_BinaryFormat, "format"> {
  let assemblyFormat = "$value";
}

def Exec_KernelPhaseAttr : AttrDef<Exec_Dialect, "KernelPhase"> {
  let mnemonic = "kernel_phase";
  let summary = "a compiled function that computes a kernel, or one phase of it";
  let description = [{
    It is called once for each of `chunks` independent chunks of the work. On a CUDA device a chunk is
    a block of `threads` threads.

    Constraints:
    1. The entry, the name of a function in the binary, is not empty.
    2. `chunks` is from 1 to 2^31 - 1.
    3. `threads` is from 0 to 1024; 0, the default, is for CPUs, where a chunk runs on one thread.

    ```mlir
    #exec.kernel_phase<"layer_norm", chunks = 32>
    #exec.kernel_phase<"layer_norm", chunks = 264, threads = 256>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$entry, "int64_t":$chunks,
                        DefaultValuedParameter<"int64_t", "0">:$threads);
  let assemblyFormat = "`<` $entry `,` struct($chunks, $threads) `>`";
  let genVerifyDecl = 1;
}

def Exec_CodeAttr : AttrDef<Exec_Dialect, "Code"> {
  let mnemonic = "code";
  let summary = "how to run a compiled kernel";
  let description = [{
    Phases run one after another, the chunks of a phase concurrently and in any order. The division into
    chunks is fixed at compile time, so results do not depend on the number of threads.

    - `scratch`: bytes private to a worker while it runs a chunk, aligned to 64;
    - `partials`: bytes shared by all chunks of all phases of a launch, aligned to 64: partial results of
      chunks (sums down the columns), which a later phase combines in a fixed order.

    The signature of a phase's function depends on the target kind:
    - `cpu`: `void entry(void *const *tensors, int64_t chunk, void *scratch, void *partials)`, where
      `tensors` are the kernel's arguments, then its results;
    - `cuda`: `__global__ void entry(T *argument0, ..., T *result0, ..., char *partials)`, on a grid
      of `chunks` blocks of `threads`.

    All tensors are contiguous and aligned to their elements; a boolean is a byte. Arguments may share
    memory. Results do not overlap anything, with one exception: the single result of a kernel of
    pointwise ops may share the memory of an argument of the same type, so the code reads each element
    before it writes it.

    Constraints:
    1. There is at least one phase.
    2. Phases have `threads` if and only if the target kind is `cuda`.
    3. `scratch` and `partials` are not negative; `cuda` has no scratch.

    ```mlir
    #exec.code<cpu, phases = [<"layer_norm", chunks = 32>, <"layer_norm_finish", chunks = 4>], scratch = 8192, partials = 131072>
    #exec.code<cuda, phases = [<"layer_norm", chunks = 264, threads = 256>]>
    ```
  }];
  let parameters = (ins EnumParameter<Exec_Family>:$family,
                        ArrayRefParameter<"KernelPhaseAttr">:$phases,
                        DefaultValuedParameter<"int64_t", "0">:$scratch,
                        DefaultValuedParameter<"int64_t", "0">:$partials);
  let assemblyFormat = [{
    `<` $family `,` `phases` `=` `[` $phases `]` (`,` struct($scratch, $partials)^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Exec_CodeArrayAttr : TypedArrayAttrBase<Exec_CodeAttr, "how each target kind runs the kernel">;

#endif // CLEAVE_DIALECTS_EXEC_CODEATTRS
