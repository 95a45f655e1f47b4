//===- Passes.td - pipeline passes --------------------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_PIPELINE_PASSES
#define CLEAVE_PASSES_PIPELINE_PASSES

include "mlir/Pass/PassBase.td"

def OutlineStages : Pass<"outline-stages", "::mlir::ModuleOp"> {
  let summary = "cut a program into pipeline stages, each with its own functions";
  let description = [{
    Replaces the microbatch by a forward and a backward per stage, and the update by one for each
    stage that has parameters to update (`docs/ir.md`, "Stages"). Functions carry `train.stage`. The
    staged program computes what the original did, bit for bit.

    The forward is cut in one of three ways:
    - `count=N balance=cost`: into N contiguous parts. The most expensive one costs at most a fraction `slack`
      more than the optimum; within that, the fewest bytes cross. Costs are bytes moved and, for
      contractions and attention, floating-point operations, computed from shapes. In a typed program
      values that are `P`, or `R` with `P` gradients, are cut only where there is no alternative:
      a pending sum may cross between corresponding ranks, but all of its terms are sent;
    - `at="h.2,h.4"`: a stage begins with the first op of each of these modules, by the module paths
      in locations;
    - neither: by `train.stage` on ops, as `torch.fx.traceback.annotate({"stage": K})` sets it. Ops
      without it follow their operands.

    The backward follows by data flow: each of its ops runs in the last stage reached by gradients
    that has the op's operands. A value for a stage beyond the next is forwarded by those
    between. Values computed from parameters alone, or from inputs, buffers and constants
    alone, do not cross: each stage computes them. A parameter used by several stages belongs to the
    first: the others' gradients cross to it and are added and accumulated there in the original
    order, and only its update changes it.

    Each stage is then split into forward and backward as by `--partition-joint`, with the same
    `policy` and `recompute`. With `policy=budget` each rank of a schedule (`schedule`, `ranks`,
    `microbatches`, `topology`, as for `--build-schedule`) recomputes as little as keeps its step
    within `memory`: how many microbatches it has in flight depends on its place. What halves of backwards
    hold counts as `--split-backward`, which then follows without options, makes them.

    With `mark-only` nothing is outlined: the forward's ops get the `train.stage` by which another run of the pass,
    without `count` and `at`, cuts them alike. `cleave.compile_step` cuts a program for another batch size by the marks
    of the first one.

    Before:
    ```mlir
    func.func @microbatch(%x, %v, %w, %s) -> (loss, gradient "v", gradient "w") {
      %h = aten.mm(%x, %v) {train.stage = 0 : i64} ...
      %y = aten.mm(%h, %w) {train.stage = 1 : i64} ...
    ```
    After:
    ```mlir
    func.func @forward_0(%x, %v) -> (crossing "mm") attributes {train.stage = 0 : i64, ...}
    func.func @forward_1(%w, %h: crossing "mm") -> (loss, saved "mm") attributes {train.stage = 1 : i64, ...}
    func.func @backward_1(%w, %s, %h: saved "mm") -> (gradient "w", crossing_gradient "mm.1") ...
    func.func @backward_0(%x, %g: crossing_gradient "mm.1") -> (gradient "v") ...
    ```

    A program already split into parts is rejected, and so is one whose update combines gradients of
    several stages, for example by clipping.
  }];
  let options = [
    Option<"count", "count", "int64_t", "-1", "number of stages, with balance=cost (-1: not by count)">,
    Option<"balance", "balance", "std::string", "\"\"", "what to balance among 'count' stages: cost">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "description of the cluster whose seconds count balances and policy=budget compares (empty: costs by shape on a nominal device)">,
    Option<"slack", "slack", "double", "0.05", "allowed load imbalance, to reduce inter-stage traffic">,
    ListOption<"at", "at", "std::string", "modules with which the second and later stages begin">,
    Option<"policy", "policy", "::cleave::backward::PartitionPolicy",
           "::cleave::backward::PartitionPolicy::MinCut", "what a forward saves for its backward",
           [{::llvm::cl::values(
              clEnumValN(::cleave::backward::PartitionPolicy::MinCut, "min-cut", "as few bytes as recomputation allows"),
              clEnumValN(::cleave::backward::PartitionPolicy::SaveAll, "save-all", "everything that the backward uses"),
              clEnumValN(::cleave::backward::PartitionPolicy::Budget, "budget", "as much as 'memory' allows on each rank"))}]>,
    Option<"memory", "memory", "std::string", "\"\"",
           "with policy=budget: that of a rank for a whole step, such as 80GiB">,
    Option<"offloads", "offload", "bool", "false", "with policy=budget: saved values may wait in host memory">,
    Option<"lowered", "lowered", "bool", "false", "with policy=budget: the stages will be lowered by --lower-to-exec">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"",
           "with policy=budget: the schedule whose ranks have the memory; --split-backward follows if it runs halves of backwards">,
    Option<"ranks", "ranks", "int64_t", "0", "with policy=budget: ranks of the schedule (0: as many as stages)">,
    Option<"microbatches", "microbatches", "int64_t", "1", "with policy=budget: microbatches of a step">,
    Option<"topology", "topology", "std::string", "\"\"", "with policy=budget: loop or v (empty: the schedule's own)">,
    Option<"splitsFsdp", "split-fsdp-collectives", "bool", "false",
           "do what --split-fsdp-collectives does before stages are divided, so that a budget counts what is there through the step">,
    Option<"recompute", "recompute", "::cleave::backward::RecomputeLevel",
           "::cleave::backward::RecomputeLevel::Cheap",
           "what min-cut, or with its own default 'all' a budget, may recompute",
           [{::llvm::cl::values(
              clEnumValN(::cleave::backward::RecomputeLevel::Views, "views", "views and constants"),
              clEnumValN(::cleave::backward::RecomputeLevel::Cheap, "cheap", "also pointwise ops, conversions and copies"),
              clEnumValN(::cleave::backward::RecomputeLevel::Gathers, "gathers", "also all_gathers: shards are saved"),
              clEnumValN(::cleave::backward::RecomputeLevel::All, "all", "everything"))}]>,
    Option<"markOnly", "mark-only", "bool", "false", "only put 'train.stage' on the forward's ops, as they would be cut">,
    Option<"explain", "explain", "bool", "false", "print the stages, their costs and the values that cross">
  ];
  let statistics = [
    Statistic<"numStages", "stages", "stages created">,
    Statistic<"numCrossing", "crossing values", "values and gradients that cross, counted once per boundary">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

def BuildSchedule : Pass<"build-schedule", "::mlir::ModuleOp"> {
  let summary = "build a pipeline schedule, by name or from a file";
  let description = [{
    Adds a `pipeline.schedule` to the module: a registered schedule (`schedule`) for `ranks` pipeline
    ranks and `microbatches` per step, or one read from a file in text form or, if its name ends in
    `.csv`, in PyTorch's CSV form. `docs/schedules.md` lists the schedules and their requirements; a
    violated requirement is an error.

    In a module with pipeline stages the schedule must match them: the same number of stages, and a
    function for every action. Actions that run once per step are added for stages that have functions
    for them: gradient reductions after a stage's last weight gradient, unsharding around its
    computations, sums over stages, optimizer steps at the end. For a schedule from a file, only missing
    actions are added. PyTorch's CSV is not specific to a program: its unshards and reductions of stages
    that have none are dropped, and a stage's `REDUCE_GRAD` reduces all of its buckets. Without stages,
    `buckets`, `max-unsharded` and `steps` request such actions.

    A forward-only schedule (`forward-only`, or a file without backward), if it is the module's only
    one, makes the program forward-only: backwards, reductions and updates are erased, and with them
    what forwards save or forward for them.

    `schedule=auto` searches for an order of forward, input-gradient and weight-gradient passes, as
    `cleave-sim --schedule=auto` does (`docs/simulation.md`). The costs of the program's stages come
    from the description of a `cluster`, from measurements in `profile`, or else from shapes.
    Without `--split-backward` it selects the best schedule with full backwards.

    `--build-schedule="schedule=1f1b ranks=2 microbatches=2"` builds
    ```mlir
    pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers implied {
      rank 0: F0.0 F0.1 B0.0 B0.1
      rank 1: F1.0 B1.0 F1.1 B1.1
    }
    ```
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"\"", "name of a registered schedule, or auto">,
    Option<"ranks", "ranks", "int64_t", "0", "number of pipeline ranks">,
    Option<"microbatches", "microbatches", "int64_t", "0", "microbatches per step">,
    Option<"chunks", "chunks", "int64_t", "0", "stages per rank (0: from the module's stages, else the schedule's default)">,
    Option<"topology", "topology", "std::string", "\"\"", "loop or v (empty: the schedule's default)">,
    Option<"forwardOnly", "forward-only", "bool", "false", "build a schedule without backward, for evaluation">,
    Option<"mergeBackward", "merge-backward", "bool", "false", "merge an input gradient and the weight gradient right after it into one backward">,
    Option<"file", "file", "std::string", "\"\"", "read the schedule from this file">,
    Option<"symbol", "symbol", "std::string", "\"schedule\"", "symbol name of the schedule">,
    Option<"axis", "axis", "std::string", "\"\"", "mesh axis of the pipeline ranks (empty: pp, or a new outermost axis)">,
    Option<"buckets", "buckets", "int64_t", "0", "gradient buckets per stage, for a module without stages">,
    Option<"steps", "steps", "bool", "false", "add each stage's optimizer step, for a module without stages">,
    Option<"maxUnsharded", "max-unsharded", "int64_t", "0", "maximum stages per rank with unsharded parameters at a time (0: 3 if stages have an unshard function, else no unsharding)">,
    Option<"cluster", "cluster", "std::string", "\"\"", "description of a cluster that auto takes costs from">,
    Option<"profile", "profile", "std::string", "\"\"", "cost table that auto takes costs from, as written by cleave-run --profile">,
    Option<"memoryLimit", "memory-limit", "double", "0", "activation memory limit per rank for auto, in bytes (0: none)">,
    Option<"effort", "effort", "double", "1", "search effort of auto (1: a few seconds)">,
    Option<"seed", "seed", "int64_t", "1", "random seed of auto">
  ];
  let statistics = [
    Statistic<"numActions", "actions", "actions of all ranks; a group counts as one">
  ];
  let dependentDialects = ["::cleave::pipeline::PipelineDialect"];
}

def InsertP2P : Pass<"insert-p2p", "::mlir::ModuleOp"> {
  let summary = "add sends and receives to the module's schedules";
  let description = [{
    Simulates each schedule with implied transfers, and inserts a send after every computation whose
    result another rank needs and the matching receive into that rank's list. Values between stages of
    one rank need neither. Receives start as early as slots and matching order allow
    (`receives=early`), when the data is produced (`at-send`), or just before use (`late`). The
    default number of receive slots is the largest number of receives in flight on any rank if each
    starts with its send: fewer could delay a send, more only cost memory. A schedule that cannot
    make progress is an error that names each rank's blocked action and what it waits for.

    `matching` is how the backend matches a send to its receive: by `tag` (Gloo), or in issue order
    (`nccl`); transfers that share a stream (`streams`) then wait for each other. The default produces
    an order valid for both.

    Before:
    ```mlir
    pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers implied {
      rank 0: F0.0 F0.1 B0.0 B0.1
      rank 1: F1.0 B1.0 F1.1 B1.1
    }
    ```
    After:
    ```mlir
    pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers explicit {
      rank 0: recvB0.0 recvB0.1 F0.0 sendF0.0 F0.1 sendF0.1 B0.0 B0.1
      rank 1: recvF1.0 recvF1.1 F1.0 B1.0 sendB1.0 F1.1 B1.1 sendB1.1
    }
    ```
  }];
  let options = [
    Option<"matching", "matching", "::cleave::schedule::Matching",
           "::cleave::schedule::Matching::Fifo", "how the backend matches a send and its receive",
           [{::llvm::cl::values(
              clEnumValN(::cleave::schedule::Matching::Tag, "tag", "by tag, as Gloo does"),
              clEnumValN(::cleave::schedule::Matching::Fifo, "nccl", "in order, as NCCL does"))}]>,
    Option<"streams", "streams", "::cleave::schedule::StreamSharing",
           "::cleave::schedule::StreamSharing::Direction", "transfers that share a stream under nccl",
           [{::llvm::cl::values(
              clEnumValN(::cleave::schedule::StreamSharing::World, "world", "all of a rank"),
              clEnumValN(::cleave::schedule::StreamSharing::Peer, "peer", "all with the same peer"),
              clEnumValN(::cleave::schedule::StreamSharing::Direction, "direction", "all with the same peer in the same direction"),
              clEnumValN(::cleave::schedule::StreamSharing::Kind, "kind", "all with the same peer in the same direction and of the same kind"))}]>,
    Option<"receiveSlots", "receive-slots", "int64_t", "0", "maximum receives per rank started and not yet consumed (0: the fewest that delay no send)">,
    Option<"sendSlots", "send-slots", "int64_t", "0", "maximum incomplete sends per rank (0: unlimited)">,
    Option<"receives", "receives", "::cleave::schedule::RecvStart",
           "::cleave::schedule::RecvStart::Early", "when receives start",
           [{::llvm::cl::values(
              clEnumValN(::cleave::schedule::RecvStart::Early, "early", "as early as slots and matching allow"),
              clEnumValN(::cleave::schedule::RecvStart::AtSend, "at-send", "where the data is computed"),
              clEnumValN(::cleave::schedule::RecvStart::Late, "late", "just before use"))}]>,
    Option<"forwardCost", "forward-cost", "int64_t", "1", "relative duration of a forward, for the order of events">,
    Option<"backwardCost", "backward-cost", "int64_t", "2", "relative duration of a full backward">,
    Option<"inputCost", "input-cost", "int64_t", "1", "relative duration of a backward-input">,
    Option<"weightCost", "weight-cost", "int64_t", "1", "relative duration of a backward-weight">,
    Option<"transferCost", "transfer-cost", "double", "0.1", "relative duration of a transfer">
  ];
  let statistics = [
    Statistic<"numTransfers", "transfers", "send/receive pairs">
  ];
  let dependentDialects = ["::cleave::pipeline::PipelineDialect"];
}

def VerifySchedule : Pass<"verify-schedule", "::mlir::ModuleOp"> {
  let summary = "prove that the module's schedules are correct and free of deadlock";
  let description = [{
    Checks that each schedule runs every computation exactly once per stage and microbatch, after its
    inputs; that each send has its receive; that gradients are reduced once; and, if transfers
    are explicit, that all ranks finish under each requested kind of matching. A deadlock is reported
    as the cycle of actions that wait for each other, with ranks and positions (from 0).
    `docs/schedules.md` describes the model.

    In a module with pipeline stages it also checks that each stage has a function for every action,
    that the schedule runs each update, and that the values a stage sends are those that its neighbour
    receives, with the same types.

    Does not change the module.
  }];
  let options = [
    // MLIR parses elements of lists without their values: no enum.
    ListOption<"matching", "matching", "std::string", "matching to verify: tag, nccl (empty: both)">,
    Option<"streams", "streams", "::cleave::schedule::StreamSharing",
           "::cleave::schedule::StreamSharing::Direction", "transfers that share a stream under nccl",
           [{::llvm::cl::values(
              clEnumValN(::cleave::schedule::StreamSharing::World, "world", "all of a rank"),
              clEnumValN(::cleave::schedule::StreamSharing::Peer, "peer", "all with the same peer"),
              clEnumValN(::cleave::schedule::StreamSharing::Direction, "direction", "all with the same peer in the same direction"),
              clEnumValN(::cleave::schedule::StreamSharing::Kind, "kind", "all with the same peer in the same direction and of the same kind"))}]>,
    Option<"receiveSlots", "receive-slots", "int64_t", "0", "receive slots per rank (0: unlimited)">,
    Option<"sendSlots", "send-slots", "int64_t", "0", "send slots per rank (0: unlimited)">,
    Option<"maxProblems", "max-problems", "int64_t", "20", "maximum number of problems to report">
  ];
}

def ExportSchedule : Pass<"export-schedule", "::mlir::ModuleOp"> {
  let summary = "write the module's schedule to a file";
  let description = [{
    Writes the text form, which `cleave-sim --schedule=FILE` and `--build-schedule=file=FILE` read,
    or, if the file's name ends in `.csv`, PyTorch's CSV. Does not change the module.
  }];
  let options = [
    Option<"output", "output", "std::string", "\"\"", "output file (-: standard output)">,
    Option<"symbol", "symbol", "std::string", "\"\"", "symbol name of the schedule, if the module has several">
  ];
}

#endif // CLEAVE_PASSES_PIPELINE_PASSES
