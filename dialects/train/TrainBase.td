//===- TrainBase.td - the train dialect ------------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_TRAINBASE
#define CLEAVE_DIALECTS_TRAIN_TRAINBASE

include "mlir/IR/OpBase.td"

def Train_Dialect : Dialect {
  let name = "train";
  let cppNamespace = "::cleave::train";
  let summary = "what makes a graph a training step";
  let description = [{
    Roles of arguments and results, phases of a step, accumulation of gradients over microbatches,
    optimizer and learning-rate steps. A program's form is described in `docs/ir.md`, the rationale
    is in `dialects/train/README.md`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // CLEAVE_DIALECTS_TRAIN_TRAINBASE
