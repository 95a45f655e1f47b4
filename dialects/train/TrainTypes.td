//===- TrainTypes.td - bucket values ----------------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_TRAINTYPES
#define CLEAVE_DIALECTS_TRAIN_TRAINTYPES

include "dialects/train/TrainBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"

def Train_BucketType : TypeDef<Train_Dialect, "Bucket"> {
  let mnemonic = "bucket";
  let summary = "a flat buffer that accumulates the gradients of a step";
  let description = [{
    The state of a `train.bucket`: its flat buffer, the number of contributions, and the reduction that
    may be in flight. It is linear: an op that consumes a bucket value returns a new one, and each value
    has a single user.

    ```mlir
    !train.bucket<@bucket0 : tensor<1040xf32>>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$symbol, "::mlir::RankedTensorType":$flat);
  let assemblyFormat = "`<` $symbol `:` $flat `>`";
  let genVerifyDecl = 1;
}

#endif // CLEAVE_DIALECTS_TRAIN_TRAINTYPES
