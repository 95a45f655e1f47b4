//===- Passes.td - pipeline passes --------------------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_PIPELINE_PASSES
#define CLEAVE_PASSES_PIPELINE_PASSES

include "mlir/Pass/PassBase.td"

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
    computations, the optimizer's step at the end. Without stages, `buckets`, `max-unsharded` and
    `steps` ask for them. Those of a file are taken as they are.

    `--build-schedule="schedule=1f1b ranks=2 microbatches=2"` makes
    ```mlir
    pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers implied {
      rank 0: F0.0 F0.1 B0.0 B0.1
      rank 1: F1.0 B1.0 F1.1 B1.1
    }
    ```
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"\"", "Name of a registered schedule">,
    Option<"ranks", "ranks", "int64_t", "0", "Pipeline ranks">,
    Option<"microbatches", "microbatches", "int64_t", "0", "Microbatches of a step">,
    Option<"chunks", "chunks", "int64_t", "0", "Stages per rank (0: what the module's stages ask for, else the schedule)">,
    Option<"topology", "topology", "std::string", "\"\"", "loop or v (empty: the schedule's own)">,
    Option<"forwardOnly", "forward-only", "bool", "false", "No backward, for evaluation">,
    Option<"mergeBackward", "merge-backward", "bool", "false", "Join an input gradient and the weight gradient right after it into one backward">,
    Option<"file", "file", "std::string", "\"\"", "Read the schedule from this file instead">,
    Option<"symbol", "symbol", "std::string", "\"schedule\"", "Symbol of the schedule in the module">,
    Option<"buckets", "buckets", "int64_t", "0", "Without stages: gradient buckets that each stage reduces">,
    Option<"steps", "steps", "bool", "false", "Without stages: add each stage's optimizer step">,
    Option<"maxUnsharded", "max-unsharded", "int64_t", "0", "Stages of a rank whose parameters are whole at a time (0: 3 where stages have an unshard function, else no unsharding)">
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
    (`late`). What cannot run is an error that names each rank's blocked action and what it waits for.

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
      rank 0: recvB0.0 F0.0 sendF0.0 F0.1 sendF0.1 B0.0 recvB0.1 B0.1
      rank 1: recvF1.0 recvF1.1 F1.0 B1.0 sendB1.0 F1.1 B1.1 sendB1.1
    }
    ```
  }];
  let options = [
    Option<"matching", "matching", "std::string", "\"nccl\"", "tag or nccl">,
    Option<"streams", "streams", "std::string", "\"direction\"", "Transfers that share a stream: those of the rank (world), with one peer (peer), one way (direction), of one kind (kind)">,
    Option<"receiveSlots", "receive-slots", "int64_t", "0", "Most receives of a rank that are started and not yet used (0: any number)">,
    Option<"sendSlots", "send-slots", "int64_t", "0", "Most sends of a rank that are incomplete (0: any number)">,
    Option<"receives", "receives", "std::string", "\"early\"", "Where receives start: early, at-send or late">,
    Option<"forwardCost", "forward-cost", "int64_t", "1", "Relative time of a forward, for the order of events">,
    Option<"backwardCost", "backward-cost", "int64_t", "2", "Relative time of a full backward">,
    Option<"inputCost", "input-cost", "int64_t", "1", "Relative time of a backward-input">,
    Option<"weightCost", "weight-cost", "int64_t", "1", "Relative time of a backward-weight">
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
    that the schedule runs on it, and that the optimizer's step of each update is taken.

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
