//===- Passes.td - passes towards the executable form --------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_LOWERING_PASSES
#define CLEAVE_PASSES_LOWERING_PASSES

include "mlir/Pass/PassBase.td"

def FuseKernels : Pass<"fuse-kernels", "::mlir::ModuleOp"> {
  let summary = "join pointwise ops, broadcasts and reductions to kernels";
  let description = [{
    Ops that work on the rows of one matrix (`lib/kernels/fusion/RowOp.h`) become an `exec.kernel`, so that a
    row is read once for all of them: normalizations, softmax, rotary embeddings, cross-entropy,
    activations and gates, residual connections, and their gradients. Views that exchange or repeat
    rows join where that saves a copy. Contractions, attention, convolutions and ops that exchange
    rows and columns stay what they are. Equal regions, as those of a model's layers, share one
    kernel. `docs/fusion.md` says what joins, and what does not.

    A kernel is executed like the ops it consists of, in their order, unless it is compiled: the
    program computes the same. Ops around kernels may change places; communication keeps its order.

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
    Option<"minOps", "min-ops", "unsigned", "2", "ops that a kernel has at least: a view counts for none, one of many steps (softmax) for two">,
  ];
  let statistics = [
    Statistic<"numKernels", "kernels", "kernels made">,
    Statistic<"numLaunches", "launches", "launches of kernels">,
    Statistic<"numFused", "fused", "ops that are part of a launch now">,
  ];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
}

def CompileKernels : Pass<"compile-kernels", "::mlir::ModuleOp"> {
  let summary = "compile kernels to machine code that the program carries";
  let description = [{
    Each `exec.kernel` gets a `code` attribute, and the module an `exec.binary` for each target: a shared
    object for levels of the x86-64 architecture. `cleave-run` takes the best one that its machine can
    execute, so that a program may be compiled for several. How code is made of a kernel is in
    docs/kernels.md.

    Code for GPUs needs the CUDA toolkit's `ptxas` and `libdevice`, at `CUDA_HOME` or around the `ptxas` on
    PATH, but no GPU. Functions that spill registers get a remark.

    A kernel with an op that the code generator does not know is left as it is, with a remark: its ops
    run one by one. What was compiled before is compiled anew.

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
        "levels of x86-64: x86-64-v2, x86-64-v3, x86-64-v4 (default: all three), or none">,
    ListOption<"cuda", "cuda", "std::string", "GPUs: sm_80, sm_90, sm_100 (default: none)">,
    Option<"printPrograms", "print-programs", "bool", "false", "print what kernels compute, in steps">,
    Option<"printResources", "print-resources", "bool", "false",
        "print what each function for GPUs takes: registers, bytes spilled, shared memory">,
    Option<"printAssembly", "print-assembly", "bool", "false",
        "print the code for CPUs, and embed none">,
  ];
  let statistics = [
    Statistic<"numCompiled", "compiled", "kernels compiled">,
    Statistic<"numLeftOut", "left-out", "kernels that were left as they are">,
  ];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
}

def LowerToExec : Pass<"lower-to-exec", "::mlir::ModuleOp"> {
  let summary = "decide what shares memory, and what runs beside what";
  let description = [{
    Every result of a program's functions gets a place: in the rank's arena, in the frame of its microbatch
    (what its functions save for each other), in the memory of an operand
    (views, accumulators, optimizer state, pointwise ops over the last use of an operand), or apart. Ops
    that communicate go to a stream of their own; events order the streams where they touch the
    same bytes, and nowhere else. Functions keep their signature and their ops; sums of gradients move to
    where the gradient is made, and optimizer steps next to each other. What attributes and events
    mean is in `docs/executable.md`. The result is verified (`--verify-exec`).

    A function that is lowered already is planned anew. Passes that change ops come before.

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
    Option<"target", "target", "std::string", "\"cpu\"", "what runs the program: cpu or cuda">,
    Option<"chip", "chip", "std::string", "\"\"", "of cuda: sm_90, ...">,
    Option<"explain", "explain", "bool", "false", "say for each function what became of its results">,
    Option<"plot", "plot", "std::string", "\"\"", "SVG file for a picture of arenas and frames: time by address">,
  ];
  let statistics = [
    Statistic<"inArena", "in-arena", "results in the arena">,
    Statistic<"inFrame", "in-frame", "results in the microbatch's frame">,
    Statistic<"inPlace", "in-place", "results over an operand's last use">,
    Statistic<"sharing", "sharing", "results in the memory of an operand, these included">,
    Statistic<"apartOutliving", "apart-outliving", "results apart because they outlive the function">,
    Statistic<"apartOther", "apart-other", "results apart because the host reads them, or they are empty">,
    Statistic<"numEvents", "events", "events between the streams">,
  ];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
}

def VerifyExec : Pass<"verify-exec", "::mlir::ModuleOp"> {
  let summary = "verify memory, streams and events of lowered functions";
  let description = [{
    An implementation of its own, which knows the attributes and events only. For each function with
    `exec.lowered`:

    1. all functions of the program are lowered for one target;
    2. values that are needed at one time do not share bytes, unless one is a view of the other;
    3. an op that works in place overwrites nothing that is still read, and nothing of others;
    4. what outlives the function is not in the arena, and what outlives its microbatch is not in the
       frame, in which this holds over all functions of the microbatch, one after the other;
    5. ops that communicate, and no others, are on the communication stream, and in their order;
    6. of two ops on different streams that touch the same bytes, one of them writing, the later one
       is after the earlier one by events.
  }];
}

#endif // CLEAVE_PASSES_LOWERING_PASSES
