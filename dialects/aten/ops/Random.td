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

def Aten_RngExponentialOp : Aten_DrawOp<"rng_exponential", "lambd = 1.0",
    "`like` has a floating-point dtype, and `lambd` is above 0."> {
  let summary = "exponentially distributed numbers with rate `lambd`";
  let arguments = (ins Aten_Tensor:$like, Aten_Tensor:$seed, Aten_Tensor:$offset, Aten_ReqFloat:$lambd,
                       Aten_ReqInt:$position, Aten_GeneratorAttr:$generator);
  let sharding = Aten_DrawLikeSharding;
}

def Aten_RngRandintOp : Aten_DrawOp<"rng_randint", "low = 0, high = 10",
    "`low` is below `high`."> {
  let summary = "integers in [`low`, `high`)";
  let arguments = (ins Aten_Tensor:$like, Aten_Tensor:$seed, Aten_Tensor:$offset, Aten_ReqInt:$low,
                       Aten_ReqInt:$high, Aten_ReqInt:$position, Aten_GeneratorAttr:$generator);
  let sharding = Aten_DrawLikeSharding;
}

def Aten_RngRandpermOp : Aten_RandomOp<"rng_randperm"> {
  let summary = "the integers below the size of `like` in random order";
  let description = [{
    `like` gives the shape and the dtype. `position` is the number of draws by earlier random ops of the
    function.

    Constraints:
    1. `seed` and `offset` are 0-d, of dtype `i64`.
    2. `position` is at least 0.
    3. `like` has one dimension.
    4. The result has the type of `like`.

    ```mlir
    %0 = aten.rng_randperm(%x, %seed, %offset, position = 64, generator = #aten.generator<mt19937>)
        : (tensor<8xi64>, tensor<i64>, tensor<i64>) -> tensor<8xi64>
    ```
  }];
  let arguments = (ins Aten_Tensor:$like, Aten_Tensor:$seed, Aten_Tensor:$offset, Aten_ReqInt:$position,
                       Aten_GeneratorAttr:$generator);
  let results = (outs Aten_Tensor:$result);
  let sharding = Aten_Sharding<"rule.closeWhole(\"each number of a permutation depends on the others\");"
      # " rule.kind(::cleave::sharding::OpKind::Random); rule.shapeOnly(0);">;
}

def Aten_RngMultinomialOp : Aten_RandomOp<"rng_multinomial"> {
  let summary = "indices drawn from each row with its probabilities";
  let description = [{
    The rows of `probabilities` are weights; they need not add up to 1. `position` is the number of draws by
    earlier random ops of the function.

    Constraints:
    1. `seed` and `offset` are 0-d, of dtype `i64`.
    2. `position` is at least 0.
    3. `probabilities` has a floating-point dtype and one or two dimensions.
    4. `num_samples` is above 0, and without `replacement` at most the number of weights in a row.
    5. The result has the shape of `probabilities` with size `num_samples` in the last dimension, and dtype
       `i64`.

    ```mlir
    %0 = aten.rng_multinomial(%p, %seed, %offset, num_samples = 2, replacement = true, position = 64,
                              generator = #aten.generator<mt19937>)
        : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x2xi64>
    ```
  }];
  let arguments = (ins Aten_Tensor:$probabilities, Aten_Tensor:$seed, Aten_Tensor:$offset,
                       Aten_ReqInt:$num_samples, Aten_ReqBool:$replacement, Aten_ReqInt:$position,
                       Aten_GeneratorAttr:$generator);
  let results = (outs Aten_Tensor:$result);
  let sharding = Aten_CustomSharding;
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
