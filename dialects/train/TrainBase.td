//===- TrainBase.td - the train dialect ------------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_TRAINBASE
#define CLEAVE_DIALECTS_TRAIN_TRAINBASE

include "mlir/IR/OpBase.td"

def Train_Dialect : Dialect {
  let name = "train";
  let cppNamespace = "::cleave::train";
  let summary = "structure of a training step";
  let description = [{
    Roles of arguments and results, phases of a step, accumulation of gradients over microbatches,
    optimizer and learning-rate steps. `docs/ir.md` describes the form of a program,
    `dialects/train/README.md` the rationale.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // CLEAVE_DIALECTS_TRAIN_TRAINBASE
