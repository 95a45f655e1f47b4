//===- Derivatives.cpp - which aten ops have a derivative ---------------------===//
//
// In the order of the category files of `lib/autodiff/rules`, which hold the rules.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/Derivatives.h"
#include "dialects/aten/ops/Activation.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Attention.h"
#include "dialects/aten/ops/Call.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Complex.h"
#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Convolution.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Cumulative.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Loss.h"
#include "dialects/aten/ops/Normalization.h"
#include "dialects/aten/ops/Ordering.h"
#include "dialects/aten/ops/Part.h"
#include "dialects/aten/ops/Pooling.h"
#include "dialects/aten/ops/Random.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/Softmax.h"
#include "dialects/aten/ops/Upsampling.h"
#include "dialects/aten/ops/View.h"
#include "dialects/derivative/DerivativeInterface.h"

using namespace cleave::aten;

template <typename... Ops> static void claim(AtenDialect &dialect) {
  dialect.declarePromisedInterfaces<cleave::autodiff::DerivativeInterface, Ops...>();
}

void cleave::aten::claimDerivatives(AtenDialect &dialect) {
  // Pointwise
  claim<AddOp, AddScalarOp, SubOp, SubScalarOp, RsubScalarOp, MulOp, MulScalarOp, DivOp,
        DivScalarOp, AddcmulOp, PowOp, PowTensorScalarOp, SqrtOp, RsqrtOp, ReciprocalOp, NegOp,
        AbsOp, SgnOp, SignOp, ExpOp, LogOp, Log1pOp, SinOp, CosOp, ErfOp>(dialect);
  claim<Log2Op, TanOp, AsinOp, AcosOp, AtanOp>(dialect);
  claim<PowScalarOp, Expm1Op, XlogyOp, FloorOp, CeilOp, RoundOp, TruncOp>(dialect);
  claim<RemainderOp, RemainderScalarOp>(dialect);
  claim<ReluOp, SiluOp, SigmoidOp, TanhOp, GeluOp>(dialect);
  claim<SoftplusOp, LeakyReluOp, EluOp, CeluOp, HardshrinkOp, SoftshrinkOp, HardtanhOp, ThresholdOp,
        HardswishOp, HardsigmoidOp, MishOp, LogSigmoidForwardOp, PreluKernelOp, GluOp>(dialect);
  claim<WhereOp, MaskedFillScalarOp, MaskedFillOp, ClampOp, ClampMinOp, ClampMaxOp, MaximumOp,
        MinimumOp>(dialect);
  claim<ViewAsComplexOp, ViewAsRealOp, ComplexOp, PolarOp, ConjPhysicalOp, FftC2cOp, FftR2cOp,
        FftC2rOp>(dialect);
  // Contraction
  claim<MmOp, BmmOp, AddmmOp, BaddbmmOp, MvOp, DotOp, GroupedMmOp>(dialect);
  // Reduction
  claim<SumOp, SumDimIntListOp, MeanOp, MeanDimOp, CumsumOp, VarCorrectionOp, LinalgVectorNormOp,
        LogsumexpOp, AmaxOp, AminOp>(dialect);
  claim<TopkOp, SortOp, SortStableOp, MaxDimOp>(dialect);
  claim<SoftmaxOp, LogSoftmaxOp, SafeSoftmaxOp>(dialect);
  // View
  claim<AliasOp, DetachOp, ViewOp, ExpandOp, TOp, TransposeOp, PermuteOp, UnsqueezeOp, SqueezeOp,
        SqueezeDimOp, SqueezeDimsOp, SliceOp, SelectOp, SplitOp, SplitWithSizesOp, UnbindOp>(
      dialect);
  // Copy
  claim<CloneOp, LiftFreshCopyOp, ToCopyOp, UnsafeViewOp, CatOp, StackOp, RepeatOp, FlipOp, RollOp,
        TrilOp, TriuOp>(dialect);
  claim<CopyOp, FillTensorOp, SliceScatterOp, SelectScatterOp, ConstantPadNdOp>(dialect);
  claim<ZerosLikeOp, OnesLikeOp, EmptyLikeOp, FullLikeOp, ZeroOp, FillScalarOp, NewEmptyStridedOp,
        NewZerosOp, NewOnesOp, NewFullOp>(dialect);
  // Normalization
  claim<NativeLayerNormOp, NativeGroupNormOp, NativeBatchNormLegitFunctionalOp,
        NativeBatchNormLegitNoTrainingOp>(dialect);
  // Attention
  claim<FlashAttentionForCpuOp>(dialect);
  // Indexing
  claim<EmbeddingOp, IndexOp, UnsafeIndexOp, IndexPutOp, IndexSelectOp, IndexAddOp, GatherOp,
        ScatterSrcOp, ScatterAddOp, ScatterValueOp>(dialect);
  // Loss
  claim<NllLossForwardOp, NllLoss2dForwardOp, MultiMarginLossOp, MseLossOp, HuberLossOp,
        SmoothL1LossOp, SoftMarginLossOp, BinaryCrossEntropyOp, BinaryCrossEntropyWithLogitsOp>(
      dialect);
  // Random
  claim<RngNativeDropoutOp, RngBernoulliOp, RngUniformOp, RngNormalOp, RngExponentialOp,
        RngRandintOp, RngRandpermOp, RngMultinomialOp>(dialect);
  // Cumulative
  claim<CumprodOp>(dialect);
  // Pooling and convolution
  claim<ConvolutionOp, MaxPool2dWithIndicesOp, AvgPool2dOp, AdaptiveAvgPool2dOp, Im2colOp,
        Col2imOp>(dialect);
  claim<UpsampleNearest1dOp, UpsampleNearest2dOp, UpsampleNearest3dOp, UpsampleNearestExact1dOp,
        UpsampleNearestExact2dOp, UpsampleNearestExact3dOp, UpsampleLinear1dOp,
        UpsampleBilinear2dOp, UpsampleTrilinear3dOp, UpsampleBicubic2dOp, UpsampleBilinear2dAaOp,
        UpsampleBicubic2dAaOp>(dialect);
  // Calls of other operators, by name
  claim<CallOp>(dialect);
}
