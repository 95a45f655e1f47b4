//===- Upsampling.td - images in another resolution -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_UPSAMPLING
#define CLEAVE_DIALECTS_ATEN_OPS_UPSAMPLING

include "dialects/aten/AtenBase.td"

/// Images of `count` dimensions, with the scales that the schemas of their ops take. `small` and `large` are
/// the shapes of the examples, `smallList` and `largeList` the same as lists.
class Aten_Image<int count, dag scaleArgs, string small_, string smallList_, string large_, string largeList_> {
  int dims = count;
  dag scales = scaleArgs;
  string small = small_;
  string smallList = smallList_;
  string large = large_;
  string largeList = largeList_;
}
def Aten_Image1d : Aten_Image<1, (ins Aten_Float:$scales), "4", "4", "6", "6">;
def Aten_Image2d
    : Aten_Image<2, (ins Aten_Float:$scales_h, Aten_Float:$scales_w), "4x3", "4, 3", "8x5", "8, 5">;
def Aten_Image3d
    : Aten_Image<3, (ins Aten_Float:$scales_d, Aten_Float:$scales_h, Aten_Float:$scales_w), "2x4x3", "2, 4, 3",
                 "3x8x5", "3, 8, 5">;

/// An op and its gradient. `takesCorners`: whether there is a choice of what corners mean.
multiclass Aten_Upsampling<string mnemonic, Aten_Image image, bit takesCorners, bit moves_, string meaning> {
  defvar corners = !if(takesCorners, (ins Aten_ReqBool:$align_corners), (ins));
  defvar cornersExample = !if(takesCorners, ", align_corners = false", "");
  def Op : AtenOp<mnemonic, "aten::" # mnemonic> {
    let summary = meaning;
    let description = [{
      Scales, where given, say which place of `self` an element of the result shows; otherwise the ratio of the
      sizes does.

      Constraints:
      1. `self` is N x C followed by }] # image.dims # [{ sizes of at least 1.
      2. `output_size` has }] # image.dims # [{ elements of at least 1.
      3. The result has the shape of `self` with `output_size` as last sizes, and its dtype.

      ```mlir
      %0 = aten.}] # mnemonic # "(%x, output_size = [" # image.largeList # "]" # cornersExample # [{)
          : (tensor<2x3x}] # image.small # "xf32>) -> tensor<2x3x" # image.large # [{xf32>
      ```
    }];
    let arguments = !con((ins Aten_Tensor:$self, Aten_ReqInts:$output_size), corners, image.scales);
    let results = (outs Aten_Tensor:$result);
    let hasVerifier = 1;
    let sharding = Aten_Sharding<"imagesSharding(rule);">;
    let linear = !if(moves_, []<string>, ["self"]);
    let moves = !if(moves_, ["self"], []<string>);
    let extraDefinitions = "::llvm::LogicalResult $cppClass::verify() { return verifyUpsampling(*this, getSelf(), "
        # "getOutputSize(), " # image.dims # "); }\n";
  }
  def BackwardOp : AtenOp<mnemonic # "_backward", "aten::" # mnemonic # "_backward"> {
    let summary = "gradient of `" # mnemonic # "`";
    let description = [{
      Constraints:
      1. `output_size` has }] # image.dims # [{ elements and `input_size` two more, all of at least 1 but for the
         first two.
      2. `grad_output` has the first two sizes of `input_size`, followed by `output_size`.
      3. The result has shape `input_size` and the dtype of `grad_output`.

      ```mlir
      %0 = aten.}] # mnemonic # "_backward(%g, output_size = [" # image.largeList # "], input_size = [2, 3, "
          # image.smallList # "]" # cornersExample # [{)
          : (tensor<2x3x}] # image.large # "xf32>) -> tensor<2x3x" # image.small # [{xf32>
      ```
    }];
    let arguments = !con((ins Aten_Tensor:$grad_output, Aten_ReqInts:$output_size, Aten_ReqInts:$input_size),
                         corners, image.scales);
    let results = (outs Aten_Tensor:$result);
    let hasVerifier = 1;
    let sharding = Aten_Sharding<"imagesSharding(rule);">;
    let linear = ["grad_output"];
    let resultSizes = ["input_size"];
    let extraDefinitions = "::llvm::LogicalResult $cppClass::verify() { return verifyUpsamplingBackward(*this, "
        # "getGradOutput(), getOutputSize(), getInputSize(), " # image.dims # "); }\n";
  }
}

multiclass Aten_Nearest<string mnemonic, Aten_Image image>
    : Aten_Upsampling<mnemonic, image, 0, 1, "the nearest element of a coarser image, by PyTorch's first rule">;
defm Aten_UpsampleNearest1d : Aten_Nearest<"upsample_nearest1d", Aten_Image1d>;
defm Aten_UpsampleNearest2d : Aten_Nearest<"upsample_nearest2d", Aten_Image2d>;
defm Aten_UpsampleNearest3d : Aten_Nearest<"upsample_nearest3d", Aten_Image3d>;

multiclass Aten_NearestExact<string mnemonic, Aten_Image image>
    : Aten_Upsampling<mnemonic, image, 0, 1, "the element of a coarser image whose centre is nearest">;
defm Aten_UpsampleNearestExact1d : Aten_NearestExact<"_upsample_nearest_exact1d", Aten_Image1d>;
defm Aten_UpsampleNearestExact2d : Aten_NearestExact<"_upsample_nearest_exact2d", Aten_Image2d>;
defm Aten_UpsampleNearestExact3d : Aten_NearestExact<"_upsample_nearest_exact3d", Aten_Image3d>;

multiclass Aten_Interpolation<string mnemonic, Aten_Image image, string how>
    : Aten_Upsampling<mnemonic, image, 1, 0, how # " interpolation between elements of an image">;
defm Aten_UpsampleLinear1d : Aten_Interpolation<"upsample_linear1d", Aten_Image1d, "linear">;
defm Aten_UpsampleBilinear2d : Aten_Interpolation<"upsample_bilinear2d", Aten_Image2d, "linear">;
defm Aten_UpsampleTrilinear3d : Aten_Interpolation<"upsample_trilinear3d", Aten_Image3d, "linear">;
defm Aten_UpsampleBicubic2d : Aten_Interpolation<"upsample_bicubic2d", Aten_Image2d, "cubic">;
defm Aten_UpsampleBilinear2dAa : Aten_Interpolation<"_upsample_bilinear2d_aa", Aten_Image2d, "linear, antialiased">;
defm Aten_UpsampleBicubic2dAa : Aten_Interpolation<"_upsample_bicubic2d_aa", Aten_Image2d, "cubic, antialiased">;

#endif // CLEAVE_DIALECTS_ATEN_OPS_UPSAMPLING
