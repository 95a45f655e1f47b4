//===- Conversions.cpp - pairs of conversions on one axis --------------------===//
//
// A convert keeps the meaning and a reinterpret the bits, so two of a kind are one of the kind from
// the first type to the last, where there is such a one.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Transitions.h"
#include "passes/placement/communication/Patterns.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using dist::PlacementAttr;

StringAttr cleave::placement::getOnlyAxis(dist::CommunicationOpInterface op) {
  return op.getAxesAttr().size() == 1 ? cast<StringAttr>(op.getAxesAttr()[0]) : StringAttr();
}

bool cleave::placement::makesOneTransition(Type from, Type to, ArrayRef<Attribute> axes) {
  PlacementAttr a = dist::getPlacement(from), b = dist::getPlacement(to);
  if (!a || !b)
    return true;
  auto getKinds = [&](Attribute axis) {
    std::optional<AxisPlacement> source = a.get(cast<StringAttr>(axis)),
                                 destination = b.get(cast<StringAttr>(axis));
    return source && destination ? std::optional(std::pair(source->kind, destination->kind))
                                 : std::nullopt;
  };
  return llvm::all_equal(llvm::map_range(axes, getKinds));
}

/// The placements on the one axis on which two types differ; nothing if it is not one.
static std::optional<std::pair<AxisPlacement, AxisPlacement>> findDifference(Type from, Type to) {
  PlacementAttr a = dist::getPlacement(from), b = dist::getPlacement(to);
  if (!a || !b || a.getMesh() != b.getMesh() || a.getEntries().size() != b.getEntries().size())
    return std::nullopt;
  SmallVector<StringAttr> axes = a.getDifferingAxes(b);
  if (axes.size() != 1)
    return std::nullopt;
  return std::pair(*a.get(axes[0]), *b.get(axes[0]));
}

Value cleave::placement::convertTo(RewriterBase &rewriter, Location location, Value value,
                                   Type type, std::optional<int64_t> dim) {
  if (value.getType() == type)
    return value;
  auto difference = findDifference(value.getType(), type);
  if (!difference)
    return {};
  auto [source, destination] = *difference;
  const dist::Transition *row = dist::findTransition("convert", source.kind, destination.kind);
  if (!row || !dist::takesReduction(*row, source, destination, std::nullopt))
    return {};
  bool needsDim = source.isVarying() || destination.isVarying();
  if (needsDim && !dim)
    return {};
  return dist::ConvertOp::create(rewriter, location, type, value,
                                 needsDim ? rewriter.getI64IntegerAttr(*dim) : IntegerAttr());
}

namespace {

struct ConvertPair : OpRewritePattern<dist::ConvertOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::ConvertOp outer, PatternRewriter &rewriter) const override {
    auto inner = outer.getInput().getDefiningOp<dist::ConvertOp>();
    if (!inner || inner.getAxis() != outer.getAxis())
      return failure();
    // A slice along one dimension, padded along another, is not part of the value.
    std::optional<int64_t> innerDim = inner.getSlicedDim(), outerDim = outer.getSlicedDim();
    if (innerDim && outerDim && *innerDim != *outerDim)
      return failure();
    Value value = convertTo(rewriter, outer.getLoc(), inner.getInput(), outer.getType(),
                            outerDim ? outerDim : innerDim);
    if (!value)
      return failure();
    rewriter.replaceOp(outer, value);
    return success();
  }
};

struct ReinterpretPair : OpRewritePattern<dist::ReinterpretOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dist::ReinterpretOp outer,
                                PatternRewriter &rewriter) const override {
    auto inner = outer.getInput().getDefiningOp<dist::ReinterpretOp>();
    if (!inner || inner.getAxis() != outer.getAxis())
      return failure();
    Value value = inner.getInput();
    if (value.getType() != outer.getType()) {
      AxisPlacement source = inner.getSource(), destination = outer.getDestination();
      const dist::Transition *row =
          dist::findTransition("reinterpret", source.kind, destination.kind);
      if (!row || !dist::takesReduction(*row, source, destination, std::nullopt))
        return failure();
      value = dist::ReinterpretOp::create(rewriter, outer.getLoc(), outer.getType(), value);
    }
    rewriter.replaceOp(outer, value);
    return success();
  }
};

} // namespace

void cleave::placement::addConversionPatterns(RewritePatternSet &patterns) {
  patterns.addWithLabel<ConvertPair, ReinterpretPair>({kConversionsFolded}, patterns.getContext());
}
