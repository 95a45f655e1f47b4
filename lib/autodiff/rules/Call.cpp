//===- Call.cpp - derivatives of operators without a typed op -----------------===//
//
// By the operator's name. What in-place writes into views become in a trace is here: `copy`,
// `slice_scatter`, `select_scatter`.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Call.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Part.h"
#include "dialects/dist/Dist.h"
#include "lib/autodiff/Rules.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::aten;
using namespace cleave::autodiff;

namespace {
/// The arguments of a call by name.
struct Arguments {
  explicit Arguments(CallOp op) : all(op.getArguments()) {}
  const Argument *find(StringRef name) const {
    auto found = llvm::find_if(all, [&](const Argument &a) { return a.name == name; });
    return found == all.end() ? nullptr : &*found;
  }
  Value tensor(StringRef name) const {
    const Argument *argument = find(name);
    return argument && !argument->values.empty() ? argument->values[0] : Value();
  }
  int64_t integer(StringRef name, int64_t otherwise) const {
    const Argument *argument = find(name);
    return argument ? cast<IntegerAttr>(argument->attribute).getInt() : otherwise;
  }
  bool boolean(StringRef name) const {
    const Argument *argument = find(name);
    return argument && cast<BoolAttr>(argument->attribute).getValue();
  }
  Shape integers(StringRef name) const {
    const Argument *argument = find(name);
    return argument ? Shape(cast<DenseI64ArrayAttr>(argument->attribute).asArrayRef()) : Shape();
  }
  SmallVector<Argument> all;
};

using CallRule = LogicalResult (*)(CallOp op, const Arguments &arguments, Backward &b);
} // namespace

static LogicalResult differentiateLogSumExp(CallOp op, const Arguments &arguments, Backward &b) {
  Value self = arguments.tensor("self");
  b.to(self, [&] {
    Value g = b.gradient(), result = op.getResult(0);
    if (!arguments.boolean("keepdim")) {
      Shape dims = dimsOrAll(ArrayRef<int64_t>(arguments.integers("dim")), rankOf(self));
      g = b.unsqueeze(g, dims);
      result = b.unsqueeze(result, dims);
    }
    return b.mul(g, b.unary<ExpOp>(b.sub(self, result)));
  });
  return success();
}

/// `self` with all elements overwritten by `src`.
static LogicalResult differentiateCopy(CallOp, const Arguments &arguments, Backward &b) {
  b.to(arguments.tensor("self"), [&] { return b.zeroGradient(arguments.tensor("self")); });
  b.to(arguments.tensor("src"), b.gradient());
  return success();
}

/// The operator on the gradient, with zeros where `src` was written. It is opaque to the rules of
/// placements, which let no pending sum pass: the sum is made first, and taken apart again.
static Value writeZeros(CallOp op, Backward &b, Value src, ArrayRef<NamedAttribute> place) {
  Value g = b.gradient();
  SmallVector<Attribute> pending;
  dist::PlacementAttr placement = dist::getPlacement(g.getType()), whole = placement;
  for (const dist::AxisEntry &entry :
       placement ? placement.getEntries() : ArrayRef<dist::AxisEntry>())
    if (entry.placement.isPartialSum()) {
      pending.push_back(entry.axis);
      whole = whole.with(entry.axis, dist::AxisPlacement::replicate());
    }
  auto as = [&](dist::PlacementAttr wanted) {
    return dist::withPlacement(cast<RankedTensorType>(g.getType()), wanted);
  };
  MLIRContext *context = op.getContext();
  if (!pending.empty())
    g = b.create<dist::AllReduceOp>(
             as(whole), g,
             {b.named("reduction", dist::ReductionAttr::get(context, dist::Reduction::Sum)),
              b.named("mesh", placement.getMesh()),
              b.named("axes", ArrayAttr::get(context, pending))})
            ->getResult(0);
  g = b.call(op.getCallee(), shapeOf(g), dtypeOf(g),
             {{"self", g}, {"src", b.zeros(shapeOf(src), dtypeOf(src))}}, place);
  for (Attribute axis : pending) {
    whole = whole.with(cast<StringAttr>(axis), dist::AxisPlacement::partial());
    g = b.create<dist::ConvertOp>(as(whole), g)->getResult(0);
  }
  return g;
}

static LogicalResult differentiateSliceScatter(CallOp op, const Arguments &arguments, Backward &b) {
  Value g = b.gradient(), src = arguments.tensor("src");
  SmallVector<NamedAttribute> place;
  for (StringRef name : {"dim", "start", "end", "step"})
    if (const Argument *argument = arguments.find(name))
      place.push_back(b.named(name, argument->attribute));
  b.to(arguments.tensor("self"), [&] { return writeZeros(op, b, src, place); });
  b.to(src, [&] { return b.make<SliceOp>(shapeOf(src), dtypeOf(g), g, place); });
  return success();
}

static LogicalResult differentiateSelectScatter(CallOp op, const Arguments &arguments,
                                                Backward &b) {
  Value g = b.gradient(), src = arguments.tensor("src");
  NamedAttribute place[] = {b.integer("dim", arguments.integer("dim", 0)),
                            b.integer("index", arguments.integer("index", 0))};
  b.to(arguments.tensor("self"), [&] { return writeZeros(op, b, src, place); });
  b.to(src, [&] { return b.make<SelectOp>(shapeOf(src), dtypeOf(g), g, place); });
  return success();
}

static CallRule findCallRule(StringRef callee) {
  static const llvm::StringMap<CallRule> rules = {
      {"aten::logsumexp", differentiateLogSumExp},
      {"aten::copy", differentiateCopy},
      {"aten::slice_scatter", differentiateSliceScatter},
      {"aten::select_scatter", differentiateSelectScatter},
  };
  return rules.lookup(callee);
}

static LogicalResult differentiateCall(CallOp op, Backward &b) {
  if (CallRule rule = findCallRule(op.getCallee()))
    return rule(op, Arguments(op), b);
  return b.refuse("for the operator \"" + op.getCallee() +
                  "\", and a gradient must flow through it");
}

void cleave::autodiff::attachCallRules(MLIRContext &context) {
  attach<CallOp, differentiateCall>(context);
}
