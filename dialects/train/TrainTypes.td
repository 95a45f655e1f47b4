//===- TrainTypes.td - bucket values ----------------------------*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_TRAINTYPES
#define CLEAVE_DIALECTS_TRAIN_TRAINTYPES

include "dialects/train/TrainBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"

def Train_BucketType : TypeDef<Train_Dialect, "Bucket"> {
  let mnemonic = "bucket";
  let summary = "gradients of a step as they gather in one flat buffer";
  let description = [{
    The value of a `train.bucket`: its flat buffer, how many contributions are in, and the reduction
    that may be under way. It is linear: whoever takes a bucket gives a new one, and nobody else
    holds the old.

    ```mlir
    !train.bucket<@bucket0 : tensor<1040xf32>>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$symbol, "::mlir::RankedTensorType":$flat);
  let assemblyFormat = "`<` $symbol `:` $flat `>`";
  let genVerifyDecl = 1;
}

#endif // CLEAVE_DIALECTS_TRAIN_TRAINTYPES
