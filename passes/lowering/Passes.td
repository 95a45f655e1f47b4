//===- Passes.td - kernels, memory and streams --------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_LOWERING_PASSES
#define CLEAVE_PASSES_LOWERING_PASSES

include "mlir/Pass/PassBase.td"

def FuseKernels : Pass<"fuse-kernels", "::mlir::ModuleOp"> {
  let summary = "fuse pointwise ops, broadcasts and reductions into kernels";
  let description = [{
    Fuses ops on the rows of one matrix (`lib/kernels/fusion/RowOp.h`) into an `exec.kernel` that reads
    each row once: normalizations, softmax, rotary embeddings, cross-entropy, activations and gates,
    residual connections, and their gradients. Views that permute or repeat rows are fused if that saves
    a copy. Contractions, attention, convolutions and ops that exchange rows and columns are not fused.
    Identical regions, such as those of a model's layers, share one kernel. `docs/fusion.md` has the
    fusion rules.

    Unless it is compiled, a kernel executes its ops one by one in their order, so the results are the
    same. Ops around kernels may be reordered; communication keeps its order.

    Before:
    ```mlir
    %0 = aten.add(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
    %1 = aten.gelu(%0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
    ```
    After:
    ```mlir
    exec.kernel @add_gelu(%x: tensor<8x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
      %0 = aten.add(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
      %1 = aten.gelu(%0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
      exec.return %1 : tensor<8x32xf32>
    }
    %1 = exec.launch @add_gelu(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
    ```
  }];
  let options = [
    Option<"minOps", "min-ops", "unsigned", "2", "minimum ops per kernel; a view counts as none, an op of several steps (softmax) as two">,
  ];
  let statistics = [
    Statistic<"numKernels", "kernels", "kernels created">,
    Statistic<"numLaunches", "launches", "launches of kernels">,
    Statistic<"numFused", "fused", "ops fused into kernels">,
  ];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
}

def CompileKernels : Pass<"compile-kernels", "::mlir::ModuleOp"> {
  let summary = "compile kernels to machine code embedded in the program";
  let description = [{
    Each `exec.kernel` gets a `code` attribute, and the module an `exec.binary` per target: a shared
    object for an x86-64 microarchitecture level, a cubin for a CUDA architecture. `cleave-run` selects the
    best one that its machine can execute, so a program may be compiled for several. docs/kernels.md
    describes code generation.

    Compiling for GPUs needs the CUDA toolkit's `ptxas` and `libdevice`, at `CUDA_HOME` or next to the
    `ptxas` on PATH, but no GPU. Functions that spill registers get a remark.

    A kernel with an op that the code generator does not support is not compiled, with a remark: its ops
    run one by one. Kernels that were compiled before are recompiled.

    Before:
    ```mlir
    exec.kernel @add_gelu(%x: tensor<8x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> { ... }
    ```
    After:
    ```mlir
    exec.binary @kernels_x86_64_v4 elf for "x86-64-v4" = dense_resource<...> : tensor<4136xi8>
    exec.kernel @add_gelu(%x: tensor<8x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32>
        attributes {code = [#exec.code<cpu, phases = [<"add_gelu", chunks = 1>]>]} { ... }
    ```
  }];
  let options = [
    ListOption<"cpu", "cpu", "std::string",
        "x86-64 levels: x86-64-v2, x86-64-v3, x86-64-v4 (default: all three), or none">,
    ListOption<"cuda", "cuda", "std::string", "CUDA architectures: sm_80, sm_90, sm_100 (default: none)">,
    Option<"printPrograms", "print-programs", "bool", "false", "print the row programs of kernels">,
    Option<"printResources", "print-resources", "bool", "false",
        "print the resources of each GPU function: registers, bytes spilled, shared memory">,
    Option<"printAssembly", "print-assembly", "bool", "false",
        "print the code for CPUs instead of embedding it">,
  ];
  let statistics = [
    Statistic<"numCompiled", "compiled", "kernels compiled">,
    Statistic<"numLeftOut", "left-out", "kernels not compiled">,
  ];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
}

def LowerToExec : Pass<"lower-to-exec", "::mlir::ModuleOp"> {
  let summary = "plan memory and streams";
  let description = [{
    Assigns memory to every result of a program's functions: in the rank's arena, in the frame of its
    microbatch (values saved between functions), in the memory of an operand (views, accumulators,
    optimizer state, pointwise ops at the last use of an operand), or on the heap. Communication runs on
    a stream of its own; events order the streams where they access the same bytes, and nowhere
    else. Functions keep their signatures and ops; gradient accumulations move to where the gradient is
    produced, and optimizer steps next to each other. `docs/executable.md` defines the attributes and
    events. The result is verified (`--verify-exec`).

    A function that was lowered before is planned again. Run passes that change ops before this one.

    Before:
    ```mlir
    %0 = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = aten.gelu(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    After:
    ```mlir
    %0 = aten.mm(%x, %w) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = aten.gelu(%0) {exec.memory = [#exec.same<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"", "target device: cpu or cuda">,
    Option<"chip", "chip", "std::string", "\"\"", "CUDA architecture, such as sm_90">,
    Option<"explain", "explain", "bool", "false", "print where the results of each function are placed">,
    Option<"plot", "plot", "std::string", "\"\"", "draw arenas and frames, address over time, to an SVG file">,
  ];
  let statistics = [
    Statistic<"inArena", "in-arena", "results in the arena">,
    Statistic<"inFrame", "in-frame", "results in the microbatch's frame">,
    Statistic<"inPlace", "in-place", "results that overwrite an operand at its last use">,
    Statistic<"sharing", "sharing", "results in the memory of an operand, including in-place">,
    Statistic<"apartOutliving", "apart-outliving", "results on the heap because they outlive the function">,
    Statistic<"apartOther", "apart-other", "results on the heap because the host reads them, or they are empty">,
    Statistic<"numEvents", "events", "events between the streams">,
  ];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
}

def VerifyExec : Pass<"verify-exec", "::mlir::ModuleOp"> {
  let summary = "verify memory, streams and events of lowered functions";
  let description = [{
    Works from the attributes and events alone, independently of the planner. For each function with
    `exec.lowered` it checks that

    1. all functions of the program are lowered for the same target;
    2. values that are live at the same time do not share bytes, unless one is a view of the other;
    3. an in-place op overwrites no value that is read later, and none that it does not own;
    4. no value in the arena outlives its function, and none in the frame its microbatch; live ranges in
       the frame extend over all functions of the microbatch;
    5. exactly the communication ops are on the communication stream, in order;
    6. events order any two ops on different streams that access the same bytes, one of them writing.
  }];
}

#endif // CLEAVE_PASSES_LOWERING_PASSES
