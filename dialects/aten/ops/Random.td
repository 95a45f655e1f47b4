//===- Random.td - random numbers, and the gradient of dropout -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_RANDOM
#define CLEAVE_DIALECTS_ATEN_OPS_RANDOM

include "dialects/aten/AtenAttrs.td"

//===----------------------------------------------------------------------===//
// Draws. docs/random.md describes what each op takes from the generator.
//===----------------------------------------------------------------------===//

// Seed and offset are 0-d. What an element draws depends on its position in the global tensor.
def Aten_RandomSharding
    : Aten_Sharding<"rule.pointwise(); rule.kind(::cleave::sharding::OpKind::Random);">;
// With "mt19937" a number depends only on the shape that one rank draws; with "philox" on its position in
// the global tensor, given by the placement of `like`.
def Aten_DrawLikeSharding : Aten_Sharding<Aten_RandomSharding.statements
    # " if (getGenerator() != Generator::Philox) rule.shapeOnly(0);">;

/// An op of Cleave's own: no operator of the dispatcher takes its position in the stream of random numbers as
/// an argument.
class Aten_RandomOp<string mnemonic> : AtenOp<mnemonic, "cleave::" # mnemonic, [RandomOpInterface]> {
  let hasVerifier = 1;
  let sharding = Aten_RandomSharding;
}

def Aten_RngNativeDropoutOp : Aten_RandomOp<"rng_native_dropout"> {
  let summary = "dropout: elements zeroed with probability `p`, the others scaled by `1 / (1 - p)`";
  let description = [{
    The results are the scaled elements and the mask of those kept. `position` is the number of draws by
    earlier random ops of the function.

    Constraints:
    1. `seed` and `offset` are 0-d, of dtype `i64`.
    2. `position` is at least 0.
    3. `input` has a floating-point dtype, and `p` lies in [0, 1].
    4. The first result has the type of `input`, `mask` its shape and dtype `i1`.

    ```mlir
    %0:2 = aten.rng_native_dropout(%x, %seed, %offset, p = 0.1, train = true, position = 0,
                                   generator = #aten.generator<mt19937>)
        : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$input, Aten_Tensor:$seed, Aten_Tensor:$offset, Aten_ReqFloat:$p,
                       Aten_Bool:$train, Aten_ReqInt:$position, Aten_GeneratorAttr:$generator);
  let results = (outs Aten_Tensor:$result, Aten_Tensor:$mask);
  let linear = ["input -> 0"];
}

class Aten_DrawOp<string mnemonic, string example, string constraint> : Aten_RandomOp<mnemonic> {
  let description = [{
    `like` gives the shape, the dtype and the strides. `position` is the number of draws by earlier
    random ops of the function.

    Constraints:
    1. `seed` and `offset` are 0-d, of dtype `i64`.
    2. `position` is at least 0.
    3. }] # constraint # [{
    4. The result has the type of `like`.

    ```mlir
    %0 = aten.}] # mnemonic # "(%x, %seed, %offset, " # example # [{, position = 64, generator = #aten.generator<mt19937>)
        : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
    ```
  }];
  let results = (outs Aten_Tensor:$result);
}

def Aten_RngBernoulliOp : Aten_DrawOp<"rng_bernoulli", "p = 0.3",
    "`p`, if given, lies in [0, 1]; otherwise `like` has a floating-point dtype."> {
  let summary = "1 with probability `p` (default: the element of `like`), else 0";
  let arguments = (ins Aten_Tensor:$like, Aten_Tensor:$seed, Aten_Tensor:$offset, Aten_Float:$p,
                       Aten_ReqInt:$position, Aten_GeneratorAttr:$generator);
  // Without `p`, the elements of `like` are the probabilities.
  let sharding = Aten_Sharding<Aten_RandomSharding.statements
      # " if (getP() && getGenerator() != Generator::Philox) rule.shapeOnly(0);">;
}

def Aten_RngUniformOp : Aten_DrawOp<"rng_uniform", "from = 0.0, to = 1.0",
    "`like` has a floating-point dtype, and `from` is not above `to`."> {
  let summary = "uniform numbers in [`from`, `to`)";
  let arguments = (ins Aten_Tensor:$like, Aten_Tensor:$seed, Aten_Tensor:$offset,
                       Aten_ReqFloat:$from, Aten_ReqFloat:$to, Aten_ReqInt:$position,
                       Aten_GeneratorAttr:$generator);
  let sharding = Aten_DrawLikeSharding;
}

def Aten_RngNormalOp : Aten_DrawOp<"rng_normal", "mean = 0.0, std = 1.0",
    "`like` has a floating-point dtype, and `std` is not negative."> {
  let summary = "normally distributed numbers";
  let arguments = (ins Aten_Tensor:$like, Aten_Tensor:$seed, Aten_Tensor:$offset,
                       Aten_ReqFloat:$mean, Aten_ReqFloat:$std, Aten_ReqInt:$position,
                       Aten_GeneratorAttr:$generator);
  let sharding = Aten_DrawLikeSharding;
}

//===----------------------------------------------------------------------===//
// Gradient
//===----------------------------------------------------------------------===//

def Aten_NativeDropoutBackwardOp : AtenOp<"native_dropout_backward", "aten::native_dropout_backward"> {
  let summary = "`grad_output * mask * scale`: the gradient of dropout";
  let description = [{
    Constraints:
    1. `mask` has the shape of `grad_output` and dtype `i1`.
    2. The result has the type of `grad_output`.

    ```mlir
    %0 = aten.native_dropout_backward(%g, %mask, scale = 1.25)
        : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$mask, Aten_ReqFloat:$scale);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_PointwiseSharding;
  let linear = ["grad_output"];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_RANDOM
