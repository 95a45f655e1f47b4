//===- PipelineAttrs.td - what schedules say of transfers -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_PIPELINE_PIPELINEATTRS
#define CLEAVE_DIALECTS_PIPELINE_PIPELINEATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Pipeline_Dialect : Dialect {
  let name = "pipeline";
  let cppNamespace = "::cleave::pipeline";
  let summary = "schedules that say when each rank of a pipeline runs what";
  let description = [{
    A schedule is one op with one list of words a rank, never an op per action: 1,024 ranks with
    4,096 microbatches take some 29 million actions. What the words mean, and the proof that a
    schedule is right, is the schedule library's (`docs/schedules.md`). The stages are the program's functions
    with a `train.stage`; the rationale is in `dialects/pipeline/README.md`.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Pipeline_Transfers : I32EnumAttr<"Transfers", "whether a schedule says when values are sent", [
  I32EnumAttrCase<"Implied", 0, "implied">,
  I32EnumAttrCase<"Explicit", 1, "explicit">]> {
  let cppNamespace = "::cleave::pipeline";
  let genSpecializedAttr = 0;
}
def Pipeline_TransfersAttr : EnumAttr<Pipeline_Dialect, Pipeline_Transfers, "transfers"> {
  let assemblyFormat = "`<` $value `>`";
}

#endif // CLEAVE_DIALECTS_PIPELINE_PIPELINEATTRS
