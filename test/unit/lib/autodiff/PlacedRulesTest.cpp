//===- PlacedRulesTest.cpp - what has a type forward has one backward --------===//
//
// For every op of the aten dialect's test programs that has a derivative, and every placement of
// its operands that the type checker accepts: the derivative can be built, gives each operand a
// gradient of the dual type, and type-checks.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "dialects/derivative/DerivativeInterface.h"
#include "dialects/train/Program.h"
#include "lib/autodiff/Activity.h"
#include "lib/autodiff/Backward.h"
#include "lib/autodiff/Register.h"
#include "lib/typing/Check.h"
#include "lib/typing/Inference.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"

#include <set>

using namespace cleave;
using namespace mlir;
using autodiff::DerivativeInterface;
using dist::AxisPlacement;
using dist::PlacementAttr;

namespace {

/// How an operand is placed, and whether a gradient flows to it.
struct OperandCase {
  AxisPlacement placement;
  bool carriesGradient = false;
};
using Case = SmallVector<OperandCase>;

class PlacedRules : public testing::Test {
protected:
  PlacedRules() {
    DialectRegistry registry;
    registerDialects(registry);
    autodiff::registerAllModels(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  template <typename Check> void forEachOp(Check check) {
    std::error_code error;
    std::string root = (Twine(CLEAVE_SOURCE_DIR) + "/test/dialects/aten").str();
    std::set<std::string> files;
    for (llvm::sys::fs::directory_iterator it(root, error), end; it != end && !error;
         it.increment(error))
      files.insert(it->path());
    for (StringRef file : files) {
      if (!file.ends_with(".mlir") || file.contains("invalid"))
        continue;
      OwningOpRef<ModuleOp> module;
      {
        ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
        module = parseSourceFile<ModuleOp>(file, &context);
      }
      if (module)
        module->walk([&](DerivativeInterface op) { check(op.getOperation()); });
    }
  }

  PlacementAttr place(AxisPlacement placement) {
    auto axis = StringAttr::get(&context, "tp");
    return PlacementAttr::get(FlatSymbolRefAttr::get(&context, "mesh"),
                              dist::AxisEntry{axis, placement});
  }

  /// A module with a function that does what `op` does, on operands with these placements.
  OwningOpRef<ModuleOp> makeProgram(Operation *op, const Case *placements) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
        "module { dist.mesh @mesh [\"tp\" = 2]\n func.func @f() { return } }", &context);
    auto function = *module->getOps<func::FuncOp>().begin();
    SmallVector<Type> types;
    for (auto [i, type] : llvm::enumerate(op->getOperandTypes())) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      types.push_back(tensor && placements
                          ? dist::withPlacement(tensor, place((*placements)[i].placement))
                          : type);
      function.front().addArgument(types.back(), op->getLoc());
    }
    function.setFunctionType(FunctionType::get(&context, types, {}));
    OpBuilder builder(function.front().getTerminator());
    Operation *copy = builder.clone(*op);
    copy->setOperands(function.getArguments());
    return module;
  }

  /// Whether the derivative of the op in `module` is right; seeds the results below `seeded`.
  LogicalResult differentiate(ModuleOp module, const Case &operands, unsigned seeded,
                              std::string &error);

  /// Whether it has a derivative at all, with respect to these operands.
  bool hasDerivative(Operation *op, Case operands, unsigned seeded) {
    OwningOpRef<ModuleOp> module = makeProgram(op, nullptr);
    std::string error;
    return succeeded(differentiate(*module, operands, seeded, error));
  }

  void check(Operation *op, const Case &operands, unsigned seeded);

  MLIRContext context;
  unsigned accepted = 0, refused = 0;
  std::map<std::string, std::string> wrong;
  std::set<std::string> refusedBackward;
};

/// R, I, P, V, and S of each dimension.
std::vector<AxisPlacement> placementsOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return {AxisPlacement::replicate()};
  std::vector<AxisPlacement> all = {AxisPlacement::replicate(), AxisPlacement::invariant(),
                                    AxisPlacement::varying()};
  if (dist::isReducible(dist::Reduction::Sum, tensor.getElementType()))
    all.push_back(AxisPlacement::partial());
  for (int64_t dim = 0; dim < tensor.getRank(); ++dim)
    all.push_back(AxisPlacement::shard(dim));
  return all;
}

} // namespace

LogicalResult PlacedRules::differentiate(ModuleOp module, const Case &operands, unsigned seeded,
                                         std::string &error) {
  ScopedDiagnosticHandler collect(&context, [&](Diagnostic &diagnostic) {
    if (error.empty())
      error = diagnostic.str();
    return success();
  });
  auto function = *module.getOps<func::FuncOp>().begin();
  Operation *op = &function.front().front();
  llvm::DenseSet<Value> varied;
  for (auto [argument, operand] : llvm::zip_equal(function.getArguments(), operands))
    if (operand.carriesGradient)
      varied.insert(argument);
  auto derivative = cast<DerivativeInterface>(op);
  SmallVector<Value> seeds;
  PlacementAttr frame;
  for (Value operand : op->getOperands())
    frame = frame ? frame : dist::getPlacement(operand.getType());
  OpBuilder builder(function.front().getTerminator());
  autodiff::Backward backward(builder, varied, frame);
  SmallVector<Type> types(function.getArgumentTypes());
  bool isReached = false;
  for (OpResult result : op->getResults().take_front(seeded)) {
    if (!autodiff::isDifferentiable(result.getType()) ||
        !derivative.carriesGradient(result.getResultNumber()))
      continue;
    varied.insert(result);
    Type type = aten::gradientTypeOf(result.getType());
    types.push_back(type);
    backward.accumulate(result, function.front().addArgument(type, op->getLoc()));
    isReached = true;
  }
  function.setFunctionType(FunctionType::get(&context, types, {}));
  if (!isReached)
    return success();
  backward.enter(op);
  if (failed(derivative.differentiate(backward)) || backward.hasFailed())
    return failure();
  // The rest is judged as what it is: a function that holds gradients.
  op->setAttr(train::kBackwardAttrName, builder.getUnitAttr());
  for (Value operand : op->getOperands())
    if (Value gradient = backward.gradientOf(operand))
      if (gradient.getType() != aten::gradientTypeOf(operand.getType())) {
        llvm::raw_string_ostream(error) << "gives a gradient of type " << gradient.getType();
        return failure();
      }
  return success(succeeded(verify(module)) && succeeded(placement::checkSpmdTypes(module)));
}

/// Placements that an op's forward takes and its backward does not; docs/autodiff.md lists them.
static bool isRefusedBackward(Operation *op, const Case &operands) {
  StringRef name = op->getName().getStringRef();
  auto any = [&](auto is) {
    return llvm::any_of(operands, [&](const OperandCase &o) { return is(o.placement); });
  };
  auto varies = [](AxisPlacement along) { return along.isVarying(); };
  if (name == "aten.binary_cross_entropy_with_logits")
    return any(varies) && any([](AxisPlacement along) { return along.isShard(); });
  if (name == "aten.select_scatter" || name == "aten.slice_scatter") {
    AxisPlacement self = operands[0].placement;
    return (self.isInvariant() || self.isVarying()) && operands[1].placement.isReplicate();
  }
  return name == "aten.xlogy" && operands[0].placement.isPartial();
}

void PlacedRules::check(Operation *op, const Case &operands, unsigned seeded) {
  OwningOpRef<ModuleOp> module = makeProgram(op, &operands);
  auto function = *module->getOps<func::FuncOp>().begin();
  Operation *placed = &function.front().front();
  auto carries = [&](Value value) {
    return operands[cast<BlockArgument>(value).getArgNumber()].carriesGradient;
  };
  auto inferred = placement::inferPlacements(placed, {.carriesGradient = carries, .quiet = true});
  if (failed(inferred)) {
    ++refused;
    return;
  }
  for (auto [result, placement] : llvm::zip_equal(placed->getResults(), *inferred)) {
    auto tensor = dyn_cast<RankedTensorType>(result.getType());
    if (!tensor || !placement)
      continue;
    AxisPlacement along = placement.getEntries().front().placement;
    // No gradient passes an average or a maximum that is pending (docs/autodiff.md), and a boolean
    // is not a term of a sum.
    if (along.isPartial() &&
        (!along.isPartialSum() || !dist::isReducible(along.reduction, tensor.getElementType())))
      return;
    result.setType(dist::withPlacement(tensor, placement));
  }
  ++accepted;
  std::string text, error;
  llvm::raw_string_ostream os(text);
  placed->print(os, OpPrintingFlags().skipRegions());
  if (succeeded(differentiate(*module, operands, seeded, error)))
    return;
  if (isRefusedBackward(op, operands)) {
    refusedBackward.insert(op->getName().getStringRef().str());
    return;
  }
  std::string key = op->getName().getStringRef().str() + ": " + error.substr(0, 60);
  for (const OperandCase &operand : operands)
    os << " " << operand.placement << (operand.carriesGradient ? "'" : "");
  wrong.try_emplace(key, text + "\n  " + error);
}

/// Infinity times a sum is not the sum of infinities, so its gradient is none of a sum's either.
static bool hasInfinity(Operation *op) {
  auto other = op->getAttrOfType<FloatAttr>("other");
  return other && !other.getValue().isFinite();
}

TEST_F(PlacedRules, WhatIsAcceptedForwardIsAcceptedBackward) {
  std::set<std::string> names;
  forEachOp([&](Operation *op) {
    if (hasInfinity(op))
      return;
    unsigned number = op->getNumOperands();
    std::vector<std::vector<AxisPlacement>> choices;
    size_t combinations = 1;
    for (Type type : op->getOperandTypes()) {
      choices.push_back(placementsOf(type));
      combinations *= choices.back().size();
    }
    // Gradients for all operands, or for one.
    std::vector<SmallVector<bool>> tracked;
    auto isFloat = [&](unsigned i) {
      return autodiff::isDifferentiable(op->getOperand(i).getType());
    };
    for (unsigned only = 0; only <= number; ++only) {
      if (only < number && (!isFloat(only) || number == 1))
        continue;
      SmallVector<bool> mask;
      for (unsigned i = 0; i < number; ++i)
        mask.push_back(isFloat(i) && (only == number || only == i));
      if (llvm::is_contained(mask, true))
        tracked.push_back(mask);
    }
    for (const SmallVector<bool> &mask : tracked)
      for (unsigned seeded : {1u, op->getNumResults()}) {
        Case operands(number);
        for (unsigned i = 0; i < number; ++i)
          operands[i].carriesGradient = mask[i];
        if (!hasDerivative(op, operands, seeded))
          continue;
        names.insert(op->getName().getStringRef().str());
        for (size_t at = 0; at < combinations; ++at) {
          size_t rest = at;
          for (unsigned i = 0; i < number; ++i) {
            operands[i].placement = choices[i][rest % choices[i].size()];
            rest /= choices[i].size();
          }
          check(op, operands, seeded);
        }
        if (op->getNumResults() == 1)
          break;
      }
  });
  for (auto &[what, text] : wrong)
    ADD_FAILURE() << text;
  // All categories have been seen, and both sides.
  EXPECT_EQ(refusedBackward.size(), 4u);
  EXPECT_GT(names.size(), 90u);
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(refused, 1000u);
  RecordProperty("accepted", accepted);
}
