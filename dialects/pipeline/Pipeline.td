//===- Pipeline.td - ops of the pipeline dialect -----------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_PIPELINE_PIPELINE
#define CLEAVE_DIALECTS_PIPELINE_PIPELINE

include "dialects/pipeline/PipelineAttrs.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"

class Pipeline_Op<string mnemonic, list<Trait> traits = []>
    : Op<Pipeline_Dialect, mnemonic, [HasParent<"::mlir::ModuleOp">] # traits>;

def Pipeline_ScheduleOp : Pipeline_Op<"schedule", [Symbol]> {
  let summary = "the ordered list of actions of each rank in one step";
  let description = [{
    The quoted name identifies the schedule ("1f1b"). `topology` maps stages to ranks: `loop` (stage
    s is on rank s mod ranks), `v` (down the ranks, then up, and so on), or the rank of every stage
    in brackets. `forward_only` means that there is no backward.
    `over "pp"` names the mesh axis of the pipeline ranks; the default is `"pp"`, or a new outermost
    axis if the mesh has no axis of this name. With `transfers implied` lists contain computations
    only; with `transfers explicit` also sends and receives.

    Header and lists are in the schedule library's text form (`docs/schedules.md`), with `//` for
    comments: `F2.0` is the forward of stage 2 for microbatch 0, `{F2.0 B5.1}` a group of overlapped
    actions. The op stores each list as one string, with single spaces. It checks the syntax of
    actions; `--verify-schedule` checks their meaning.

    Constraints:
    1. Microbatches are at least 1 and at most 2^24, stages at most 2^16.
    2. The topology refers to existing ranks, and every rank has a stage.
    3. Each rank has a list.
    4. A list consists of the library's actions, for existing stages and microbatches, in groups that do
       not nest. Names of functions and collectives are printable ASCII without quotes and backslashes.
    5. With `transfers implied` there are no sends and receives.

    ```mlir
    pipeline.schedule @step "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers explicit {
      rank 0: recvB0.0 F0.0 sendF0.0 F0.1 sendF0.1 B0.0 recvB0.1 B0.1
      rank 1: recvF1.0 recvF1.1 F1.0 B1.0 sendB1.0 F1.1 B1.1 sendB1.1
    }
    pipeline.schedule @wide "gpipe" ranks 1 stages 1 microbatches 1 topology loop over "stages" transfers implied {
      rank 0: F0.0 B0.0
    }
    pipeline.schedule @serve "mine" ranks 1 stages 2 microbatches 1 topology [0 0] forward_only transfers implied {
      rank 0: F0.0 F1.0 call "log"(1.0)
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$name, DenseI32ArrayAttr:$stage_ranks,
                       I64Attr:$microbatches, UnitAttr:$forward_only,
                       Pipeline_TransfersAttr:$transfers, StrArrayAttr:$lists,
                       OptionalAttr<StrAttr>:$axis);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$symbol,
                                "const ::cleave::schedule::Schedule &":$program,
                                "::cleave::pipeline::Transfers":$transfers)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumRanks() { return getLists().size(); }
    unsigned getNumStages() { return getStageRanks().size(); }
    bool hasTransfers() { return getTransfers() == Transfers::Explicit; }
    /// The actions of a rank, separated by single spaces.
    ::llvm::StringRef getList(unsigned rank) {
      return ::llvm::cast<::mlir::StringAttr>(getLists()[rank]).getValue();
    }
    /// The schedule as the schedule library represents it. Performs the verifier's checks and emits an error if
    /// one fails.
    ::mlir::FailureOr<::cleave::schedule::Schedule> read();
  }];
}

#endif // CLEAVE_DIALECTS_PIPELINE_PIPELINE
