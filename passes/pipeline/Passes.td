//===- Passes.td - pipeline passes --------------------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_PIPELINE_PASSES
#define CLEAVE_PASSES_PIPELINE_PASSES

include "mlir/Pass/PassBase.td"

def OutlineStages : Pass<"outline-stages", "::mlir::ModuleOp"> {
  let summary = "cut a program into pipeline stages, each with its own functions";
  let description = [{
    Replaces the microbatch by a forward and a backward of each stage, and the update by one of each
    stage that has parameters to update (`docs/ir.md`, "Stages"). Functions carry `train.stage`. The
    staged program computes what the whole one did, bit for bit.

    The forward is cut in one of three ways:
    - `count=N balance=cost`: into N contiguous parts whose dearest is at most `slack` dearer than the
      best possible, with the fewest bytes crossing. Costs are bytes moved and, for contractions and
      attention, floating-point operations, from shapes. In a typed program a cut through values that
      are `P`, or `R`, whose gradients are `P`, is only made where there is no other: a pending sum
      may cross, from each rank to the one like it, but all of its terms travel;
    - `at="h.2,h.4"`: a stage begins with the first op of each of these modules, by the module paths
      in locations;
    - neither: by `train.stage` on ops, as `torch.fx.traceback.annotate({"stage": K})` marks them. Ops
      without a mark follow their operands.

    The backward follows by data flow: an op of it runs in the last stage, of those that gradients
    have reached, that has its operands. A value for a later stage than the next is handed on by those
    between. Values that are computed from parameters alone, or from inputs, buffers and constants
    alone, do not cross: each stage computes them. A parameter that several stages use belongs to the
    first: the others' gradients cross to it, are added and accumulated there as they were, and only
    its update changes it.

    Each stage is then parted into forward and backward as `--partition-joint` does it, by the same
    `policy` and `recompute`.

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

    A program that is in parts already is refused, and one whose update joins gradients of several
    stages, such as by clipping.
  }];
  let options = [
    Option<"count", "count", "int64_t", "-1", "Number of stages, with balance=cost (-1: not by count)">,
    Option<"balance", "balance", "std::string", "\"\"", "By what 'count' stages are made even: cost">,
    Option<"slack", "slack", "double", "0.05", "How much dearer than possible the dearest stage may be, so that less crosses">,
    ListOption<"at", "at", "std::string", "Modules that stages after the first begin with">,
    Option<"policy", "policy", "::cleave::backward::PartitionPolicy",
           "::cleave::backward::PartitionPolicy::MinCut", "What a forward saves for its backward",
           [{::llvm::cl::values(
              clEnumValN(::cleave::backward::PartitionPolicy::MinCut, "min-cut", "As few bytes as recomputation allows"),
              clEnumValN(::cleave::backward::PartitionPolicy::SaveAll, "save-all", "All that the backward uses"))}]>,
    Option<"recompute", "recompute", "::cleave::backward::RecomputeLevel",
           "::cleave::backward::RecomputeLevel::Cheap", "What min-cut may compute again",
           [{::llvm::cl::values(
              clEnumValN(::cleave::backward::RecomputeLevel::Views, "views", "Views and constants"),
              clEnumValN(::cleave::backward::RecomputeLevel::Cheap, "cheap", "Also pointwise ops, conversions and copies"),
              clEnumValN(::cleave::backward::RecomputeLevel::All, "all", "Everything"))}]>,
    Option<"explain", "explain", "bool", "false", "Print the stages, their costs and what crosses">
  ];
  let statistics = [
    Statistic<"numStages", "stages", "Stages made">,
    Statistic<"numCrossing", "crossing values", "Values and gradients that cross, once for each boundary">
  ];
  let dependentDialects = ["::cleave::train::TrainDialect"];
}

def BuildSchedule : Pass<"build-schedule", "::mlir::ModuleOp"> {
  let summary = "make the schedule of a pipeline, by name or from a file";
  let description = [{
    Puts a `pipeline.schedule` into the module: one of the registered schedules (`schedule`), for
    `ranks` pipeline ranks and `microbatches` a step, or one that a file holds in the text form, or,
    where its name ends in `.csv`, in PyTorch's CSV form. `docs/schedules.md` has the schedules and
    what each needs; what does not hold is an error.

    In a module with pipeline stages the schedule must fit them: as many stages, and a function for
    everything that it runs. Actions that run once a step are added where stages have functions for
    them: the reduction of gradients behind a stage's last weight gradient, unsharding around its
    computations, sums over stages, the optimizer's step at the end. A file may have some of them;
    only those that it lacks are added. From PyTorch's CSV, which is not written for one program,
    unshards and reductions of stages that have none are left out, and a stage's `REDUCE_GRAD` is the
    reduction of all its buckets. Without stages, `buckets`, `max-unsharded` and `steps` ask for such
    actions.

    A forward-only schedule (`forward-only`, or a file without backward), where it is the module's
    only one, makes the program forward-only: backwards, reductions and updates go, and with them
    what forwards keep and hand on for them.

    `schedule=auto` searches for an order of forward, input-gradient and weight-gradient passes, as
    `cleave-sim --schedule=auto` does (`docs/simulation.md`), with costs of the program's stages: on a
    machine that `device` describes, as `profile` has them measured, or else estimated from shapes.
    Without `--split-backward` it takes the best of the schedules with whole backwards.

    `--build-schedule="schedule=1f1b ranks=2 microbatches=2"` makes
    ```mlir
    pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers implied {
      rank 0: F0.0 F0.1 B0.0 B0.1
      rank 1: F1.0 B1.0 F1.1 B1.1
    }
    ```
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"\"", "Name of a registered schedule, or auto">,
    Option<"ranks", "ranks", "int64_t", "0", "Pipeline ranks">,
    Option<"microbatches", "microbatches", "int64_t", "0", "Microbatches of a step">,
    Option<"chunks", "chunks", "int64_t", "0", "Stages per rank (0: what the module's stages ask for, else the schedule)">,
    Option<"topology", "topology", "std::string", "\"\"", "loop or v (empty: the schedule's own)">,
    Option<"forwardOnly", "forward-only", "bool", "false", "No backward, for evaluation">,
    Option<"mergeBackward", "merge-backward", "bool", "false", "Join an input gradient and the weight gradient right after it into one backward">,
    Option<"file", "file", "std::string", "\"\"", "Read the schedule from this file instead">,
    Option<"symbol", "symbol", "std::string", "\"schedule\"", "Symbol of the schedule in the module">,
    Option<"axis", "axis", "std::string", "\"\"", "Axis of the module's mesh along which the ranks are (empty: pp, or an axis of its own before the mesh's)">,
    Option<"buckets", "buckets", "int64_t", "0", "Without stages: gradient buckets that each stage reduces">,
    Option<"steps", "steps", "bool", "false", "Without stages: add each stage's optimizer step">,
    Option<"maxUnsharded", "max-unsharded", "int64_t", "0", "Stages of a rank whose parameters are whole at a time (0: 3 where stages have an unshard function, else no unsharding)">,
    Option<"device", "device", "std::string", "\"\"", "Of auto: a described machine, whose costs it searches with">,
    Option<"profile", "profile", "std::string", "\"\"", "Of auto: a cost table, such as cleave-run --profile writes">,
    Option<"memoryLimit", "memory-limit", "double", "0", "Of auto: bytes of activations on a rank (0: any number)">,
    Option<"effort", "effort", "double", "1", "Of auto: work to spend (1: some seconds)">,
    Option<"seed", "seed", "int64_t", "1", "Of auto: random seed of the search">
  ];
  let statistics = [
    Statistic<"numActions", "actions", "Actions of all ranks, a group counting as one">
  ];
  let dependentDialects = ["::cleave::pipeline::PipelineDialect"];
}

def InsertP2P : Pass<"insert-p2p", "::mlir::ModuleOp"> {
  let summary = "add sends and receives to the module's schedules";
  let description = [{
    Simulates each schedule with implied transfers and puts a send behind every computation whose
    result another rank needs, and the receive into that rank's list. Between stages of one rank
    values are handed over without either. Receives start as early as slots and the order of
    matching allow (`receives=early`), where the data is made (`at-send`), or just before use
    (`late`). By default there are slots for as many receives as are under way on any rank when each
    starts with its send: fewer could make a send wait, more only take memory. What cannot run is an error that names each rank's blocked action and what it waits for.

    `matching` is how the backend matches a send and its receive: by `tag` (Gloo), or in their order
    (`nccl`); transfers that share a stream (`streams`) then wait for each other. The default's order
    serves both.

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
    Option<"matching", "matching", "std::string", "\"nccl\"", "tag or nccl">,
    Option<"streams", "streams", "std::string", "\"direction\"", "Transfers that share a stream: those of the rank (world), with one peer (peer), one way (direction), of one kind (kind)">,
    Option<"receiveSlots", "receive-slots", "int64_t", "0", "Most receives of a rank that are started and not yet used (0: as many as any rank needs so that none delays its send)">,
    Option<"sendSlots", "send-slots", "int64_t", "0", "Most sends of a rank that are incomplete (0: any number)">,
    Option<"receives", "receives", "std::string", "\"early\"", "Where receives start: early, at-send or late">,
    Option<"forwardCost", "forward-cost", "int64_t", "1", "Relative time of a forward, for the order of events">,
    Option<"backwardCost", "backward-cost", "int64_t", "2", "Relative time of a full backward">,
    Option<"inputCost", "input-cost", "int64_t", "1", "Relative time of a backward-input">,
    Option<"weightCost", "weight-cost", "int64_t", "1", "Relative time of a backward-weight">,
    Option<"transferCost", "transfer-cost", "double", "0.1", "Relative time of a transfer">
  ];
  let statistics = [
    Statistic<"numTransfers", "transfers", "Pairs of a send and a receive">
  ];
  let dependentDialects = ["::cleave::pipeline::PipelineDialect"];
}

def VerifySchedule : Pass<"verify-schedule", "::mlir::ModuleOp"> {
  let summary = "prove that the module's schedules compute what they should and cannot hang";
  let description = [{
    Checks of each schedule that every stage and microbatch takes each step once, that every input
    exists and comes first, that each send has its receive, that gradients are reduced once, and,
    where transfers are explicit, that all ranks run to their end under each kind of matching asked
    for. A deadlock is reported as the cycle of actions that wait for each other, with ranks and
    positions (from 0). `docs/schedules.md` has the model behind this.

    In a module with pipeline stages it also checks that each stage has a function for everything
    that the schedule runs on it, that the optimizer's step of each update is taken, and that what a
    stage hands on is what its neighbour takes, with the same type.

    The module is left as it is.
  }];
  let options = [
    ListOption<"matching", "matching", "std::string", "Backends' matching: tag, nccl (empty: both)">,
    Option<"streams", "streams", "std::string", "\"direction\"", "Transfers that share a stream under nccl: world, peer, direction or kind">,
    Option<"receiveSlots", "receive-slots", "int64_t", "0", "Receive slots of a rank (0: any number)">,
    Option<"sendSlots", "send-slots", "int64_t", "0", "Send slots of a rank (0: any number)">,
    Option<"maxProblems", "max-problems", "int64_t", "20", "Most problems to report">
  ];
}

def ExportSchedule : Pass<"export-schedule", "::mlir::ModuleOp"> {
  let summary = "write the module's schedule to a file";
  let description = [{
    Writes the text form, which `cleave-sim --schedule=FILE` and `--build-schedule=file=FILE` read,
    or, where the file's name ends in `.csv`, PyTorch's CSV. The module is left as it is.
  }];
  let options = [
    Option<"output", "output", "std::string", "\"\"", "File to write (-: standard output)">,
    Option<"symbol", "symbol", "std::string", "\"\"", "Symbol of the schedule, where the module has several">
  ];
}

#endif // CLEAVE_PASSES_PIPELINE_PASSES
