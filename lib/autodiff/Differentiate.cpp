//===- Differentiate.cpp - reverse-mode derivative of a program ---------------===//
//
// One sweep over the function from its end. Values used several times get their gradients in the
// order in which PyTorch's engine adds them: that of the uses, last one first.
//
//===----------------------------------------------------------------------===//

#include "lib/autodiff/Differentiate.h"
#include "dialects/aten/ops/View.h"
#include "dialects/derivative/DerivativeInterface.h"
#include "dialects/train/Program.h"
#include "lib/autodiff/Activity.h"
#include "lib/autodiff/DistBuilder.h"
#include "lib/typing/Inference.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::autodiff;
using train::RoleAttr;
using train::RoleKind;

namespace {
class Differentiator {
public:
  Differentiator(func::FuncOp function, func::FuncOp update, const DifferentiateOptions &options)
      : function(function), update(update), options(options) {}

  FailureOr<DifferentiateStatistics> run() {
    if (failed(checkForward()) || failed(findLoss()) || failed(findSources()))
      return failure();
    varied = findVaried(function, sources);
    if (!varied.contains(loss)) {
      if (auto cut = loss.getDefiningOp<aten::DetachOp>())
        return cut.emitOpError("is the loss of the function, so no parameter receives a gradient; "
                               "a program exported for evaluation must be exported with a loss and "
                               "without gradients (--no-gradients) to be differentiated");
      return function.emitError() << "has a loss that does not depend on any unfrozen parameter";
    }
    OpBuilder builder(function.front().getTerminator());
    dist::PlacementAttr frame = findFrame();
    FailureOr<Type> seedType = findSeedType(frame);
    if (failed(seedType))
      return failure();
    if (frame && failed(checkInputs(frame)))
      return failure();
    Backward backward(builder, varied, frame);
    addSeed(backward, *seedType);
    if (failed(sweep(backward)))
      return failure();
    addResults(backward, builder);
    eraseCuts();
    statistics.ops = llvm::count_if(
        function.front(), [](Operation &op) { return op.hasAttr(train::kBackwardAttrName); });
    return statistics;
  }

private:
  LogicalResult checkForward() {
    if (!llvm::hasSingleElement(function.getBody()))
      return function.emitError() << "expects a body of one block to differentiate";
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      RoleAttr role = train::getArgumentRole(function, i);
      if (role.getKind() == RoleKind::Seed || role.getKind() == RoleKind::Accumulator ||
          role.getKind() == RoleKind::Gradient)
        return function.emitError()
               << "has an argument with " << role << "; expected a function without gradients";
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (RoleAttr role = train::getResultRole(function, i); role.getKind() == RoleKind::Gradient)
        return function.emitError()
               << "has a result with " << role << "; expected a function without gradients";
    for (Operation &op : function.front())
      if (op.hasAttr(train::kBackwardAttrName))
        return op.emitOpError() << "is part of a backward; expected a function without gradients";
    return success();
  }

  LogicalResult findLoss() {
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (train::getResultRole(function, i).getKind() == RoleKind::Loss)
        loss = function.front().getTerminator()->getOperand(i);
    if (!loss)
      return function.emitError() << "has no result with #train.role<loss> to differentiate; "
                                     "export it with a loss";
    if (!isa<FloatType>(aten::dtypeOf(loss)))
      return function.emitError() << "expects a floating-point loss, found " << loss.getType();
    return success();
  }

  LogicalResult findSources() {
    SmallVector<StringRef> wanted(options.inputs.begin(), options.inputs.end());
    for (BlockArgument argument : function.getArguments()) {
      RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      bool isInput = role.getKind() == RoleKind::Input || role.getKind() == RoleKind::Target;
      auto asked = isInput ? llvm::find(wanted, role.getNameOrEmpty()) : wanted.end();
      if (asked != wanted.end()) {
        wanted.erase(asked);
        if (!isDifferentiable(argument.getType()))
          return function.emitError() << "cannot give a gradient of " << role << ", which has type "
                                      << argument.getType() << "; expected floating-point";
        sources.push_back(argument);
      }
      if (role.getKind() == RoleKind::Parameter && !role.getFrozen() &&
          isDifferentiable(argument.getType()))
        sources.push_back(argument);
    }
    if (!wanted.empty())
      return function.emitError() << "has no input named '" << wanted.front()
                                  << "', whose gradient is requested";
    return success();
  }

  /// Some placement on the function's mesh and axes; null in a function without placements.
  dist::PlacementAttr findFrame() {
    for (Type type : function.getArgumentTypes())
      if (dist::PlacementAttr placement = dist::getPlacement(type))
        return placement;
    return dist::getPlacement(loss.getType());
  }

  /// Rule 7 of docs/types.md: the loss is one value (I) or terms of one (P), and then the seed is
  /// the same on all ranks.
  FailureOr<Type> findSeedType(dist::PlacementAttr frame) {
    dist::PlacementAttr placement = dist::getPlacement(loss.getType());
    if (bool(frame) != bool(placement))
      return function.emitError() << "has placements on some values, but its loss has type "
                                  << loss.getType();
    if (!placement)
      return loss.getType();
    for (const dist::AxisEntry &entry : placement.getEntries()) {
      dist::AxisPlacement along = entry.placement;
      if (along.isInvariant() || along.isPartialSum())
        continue;
      InFlightDiagnostic diagnostic =
          function.emitError() << "has a loss that is " << along << " along axis " << entry.axis
                               << "; expected one value (I) or terms of one (P(sum))";
      Operation *producer = loss.getDefiningOp();
      Diagnostic &note = diagnostic.attachNote(producer ? producer->getLoc() : loss.getLoc());
      note << "produced here, with type " << loss.getType() << "; ";
      if (along.isReplicate())
        note << "dist.convert takes it to I";
      else if (along.isPartial())
        note << "dist.all_reduce " << dist::stringifyReduction(along.reduction)
             << " takes it to I, and to have a gradient it has to be of V values";
      else
        note << "dist.all_reduce sum takes the ranks' losses to one (I), dist.reinterpret calls "
                "them "
                "terms of one (P)";
      return diagnostic;
    }
    return Type(gradientTypeOf(loss.getType()));
  }

  /// The type checker knows of parameters' gradients alone. Inputs that are to have one may not
  /// join what is I as they may without.
  LogicalResult checkInputs(dist::PlacementAttr frame) {
    if (options.inputs.empty())
      return success();
    placement::InferenceOptions inference;
    auto carries = [&](Value value) { return varied.contains(value); };
    inference.carriesGradient = carries;
    inference.like = frame;
    for (Operation &op : function.front().without_terminator())
      if (isa<aten::AtenOpInterface>(op) && llvm::any_of(op.getOperands(), carries) &&
          failed(placement::inferPlacements(&op, inference)))
        return failure();
    return success();
  }

  /// The seed comes after the data, before what random ops take.
  void addSeed(Backward &backward, Type type) {
    unsigned at = function.getNumArguments();
    auto isRandom = [&](unsigned i) {
      RoleKind kind = train::getArgumentRole(function, i).getKind();
      return kind == RoleKind::RngSeed || kind == RoleKind::RngOffset;
    };
    while (at > 0 && isRandom(at - 1))
      --at;
    backward.accumulate(loss, insertArgument(at, type, RoleKind::Seed, ""));
  }

  BlockArgument insertArgument(unsigned at, Type type, RoleKind kind, StringRef name) {
    Builder b(function.getContext());
    NamedAttribute role(train::kRoleAttrName, RoleAttr::get(b.getContext(), kind, name));
    // Succeeds for a function whose body is there.
    (void)function.insertArgument(at, type, b.getDictionaryAttr(role), loss.getLoc());
    return function.getArgument(at);
  }

  LogicalResult sweep(Backward &backward) {
    SmallVector<Operation *> forward;
    for (Operation &each : function.front().without_terminator())
      forward.push_back(&each);
    for (Operation *each : llvm::reverse(forward)) {
      bool reached = llvm::any_of(each->getResults(),
                                  [&](Value result) { return bool(backward.gradientOf(result)); });
      auto needs = [&](Value operand) { return varied.contains(operand); };
      bool needed = llvm::any_of(each->getOperands(), needs);
      if ((isa<dist::SendOp>(each) && needed) || (isa<dist::ReceiveOp>(each) && reached))
        return each->emitOpError() << "has no derivative: the order in which ranks would send "
                                      "gradients back is unknown; use dist.permute or dist.shift, "
                                      "or let a pipeline pass insert the sends";
      if (!reached || !needed)
        continue;
      auto derivative = dyn_cast<DerivativeInterface>(each);
      if (!derivative)
        return refuse(each);
      backward.enter(each);
      if (failed(derivative.differentiate(backward)) || backward.hasFailed())
        return failure();
    }
    return success();
  }

  LogicalResult refuse(Operation *op) {
    InFlightDiagnostic diagnostic = op->emitOpError()
                                    << "has no derivative, and a gradient must flow through it";
    for (Value operand : op->getOperands())
      if (varied.contains(operand)) {
        if (BlockArgument source = findSource(operand, varied))
          diagnostic.attachNote(source.getLoc())
              << "to " << train::getArgumentRole(function, source.getArgNumber());
        break;
      }
    return diagnostic;
  }

  void addResults(Backward &backward, OpBuilder &builder) {
    unsigned accumulatorAt = 0;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      RoleKind kind = train::getArgumentRole(function, i).getKind();
      if (kind == RoleKind::Parameter || kind == RoleKind::Buffer || kind == RoleKind::Constant)
        accumulatorAt = i + 1;
    }
    // Arguments and results come all at once: each change of the signature renumbers the rest.
    auto makeRole = [&](RoleKind kind, StringRef name) {
      return builder.getDictionaryAttr(builder.getNamedAttr(
          train::kRoleAttrName, RoleAttr::get(function.getContext(), kind, name)));
    };
    SmallVector<Value> gradients;
    SmallVector<unsigned> accumulated; // of `gradients`
    SmallVector<Type> accumulatorTypes;
    SmallVector<DictionaryAttr> accumulatorRoles, gradientRoles;
    for (BlockArgument source : sources) {
      Value gradient = backward.gradientOf(source);
      if (!gradient)
        continue;
      RoleAttr of = train::getArgumentRole(function, source.getArgNumber());
      if (update && of.getKind() == RoleKind::Parameter) {
        accumulated.push_back(gradients.size());
        accumulatorTypes.push_back(getAccumulatorType(gradient, of));
        accumulatorRoles.push_back(makeRole(RoleKind::Accumulator, of.getNameOrEmpty()));
      }
      gradients.push_back(gradient);
      gradientRoles.push_back(makeRole(RoleKind::Gradient, of.getNameOrEmpty()));
    }
    statistics.gradients += gradients.size();
    // Both succeed for a function whose body is there.
    (void)function.insertArguments(SmallVector<unsigned>(accumulated.size(), accumulatorAt),
                                   accumulatorTypes, accumulatorRoles,
                                   SmallVector<Location>(accumulated.size(), loss.getLoc()));
    for (auto [number, place] : llvm::enumerate(accumulated)) {
      Value &gradient = gradients[place];
      // As soon as it is there: so it can be freed, and its reduction can begin.
      OpBuilder::InsertionGuard guard(builder);
      if (Operation *made = gradient.getDefiningOp();
          made && made->hasAttr(train::kBackwardAttrName))
        builder.setInsertionPointAfter(made);
      gradient =
          train::AccumulateOp::create(builder, gradient.getLoc(), accumulatorTypes[number],
                                      gradient, function.getArgument(accumulatorAt + number));
    }
    SmallVector<Type> gradientTypes =
        llvm::map_to_vector(gradients, [](Value gradient) { return gradient.getType(); });
    (void)function.insertResults(SmallVector<unsigned>(gradients.size(), function.getNumResults()),
                                 gradientTypes, gradientRoles);
    Operation *end = function.front().getTerminator();
    end->insertOperands(end->getNumOperands(), gradients);
  }

  /// Gradients are added up in the element type in which the update takes them.
  Type getAccumulatorType(Value gradient, RoleAttr of) {
    auto type = cast<RankedTensorType>(gradient.getType());
    for (BlockArgument argument : update.getArguments())
      if (RoleAttr role = train::getArgumentRole(update, argument.getArgNumber());
          role.getKind() == RoleKind::Gradient && role.getName() == of.getName())
        return type.clone(cast<RankedTensorType>(argument.getType()).getElementType());
    return type;
  }

  /// `detach` has done what it is for: to a function that holds its gradients it means nothing.
  void eraseCuts() {
    for (auto detach : llvm::make_early_inc_range(function.front().getOps<aten::DetachOp>()))
      if (detach.getResult().getType() == detach.getSelf().getType()) {
        detach.getResult().replaceAllUsesWith(detach.getSelf());
        detach.erase();
      }
  }

  func::FuncOp function, update;
  const DifferentiateOptions &options;
  Value loss;
  SmallVector<BlockArgument> sources;
  llvm::DenseSet<Value> varied;
  DifferentiateStatistics statistics;
};
} // namespace

FailureOr<DifferentiateStatistics> autodiff::differentiate(func::FuncOp microbatch,
                                                           func::FuncOp update,
                                                           const DifferentiateOptions &options) {
  return Differentiator(microbatch, update, options).run();
}
