//===- PipelineAttrs.td - attributes of the pipeline dialect -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_PIPELINE_PIPELINEATTRS
#define CLEAVE_DIALECTS_PIPELINE_PIPELINEATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Pipeline_Dialect : Dialect {
  let name = "pipeline";
  let cppNamespace = "::cleave::pipeline";
  let summary = "pipeline schedules";
  let description = [{
    A schedule is one op with one list of actions per rank, not an op per action: 1,024 ranks with 4,096
    microbatches have about 29 million actions. The schedule library defines and verifies actions
    (`docs/schedules.md`). Stages are the program's functions with `train.stage`;
    `dialects/pipeline/README.md` has the rationale.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Pipeline_Transfers : I32EnumAttr<"Transfers", "whether sends and receives are implied or explicit", [
  I32EnumAttrCase<"Implied", 0, "implied">,
  I32EnumAttrCase<"Explicit", 1, "explicit">]> {
  let cppNamespace = "::cleave::pipeline";
  let genSpecializedAttr = 0;
}
def Pipeline_TransfersAttr : EnumAttr<Pipeline_Dialect, Pipeline_Transfers, "transfers"> {
  let assemblyFormat = "`<` $value `>`";
}

#endif // CLEAVE_DIALECTS_PIPELINE_PIPELINEATTRS
