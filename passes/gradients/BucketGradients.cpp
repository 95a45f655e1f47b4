//===- BucketGradients.cpp - one reduction for many gradients ----------------===//
//
// The update's reductions say what each gradient needs; the functions that make gradients say when
// each is ready. Both together give the buckets.
//
//===----------------------------------------------------------------------===//

#include "passes/gradients/BucketPlan.h"
#include "passes/gradients/Passes.h"

#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/View.h"
#include "dialects/train/Program.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace cleave::gradients {
#define GEN_PASS_DEF_BUCKETGRADIENTS
#include "passes/gradients/Passes.h.inc"
} // namespace cleave::gradients

using namespace mlir;
using namespace cleave;

namespace {
/// A parameter's gradient: where it is made, and what happens to it in the update.
struct Gradient {
  StringAttr name;
  RankedTensorType type;

  func::FuncOp maker;
  unsigned result = 0;            ///< of `maker`
  Value value;                    ///< what a microbatch contributes
  train::AccumulateOp accumulate; ///< null where the program runs one microbatch a step
  size_t position = 0;            ///< of the op that makes it; 0 for an argument

  unsigned argument = 0;                     ///< of the update
  SmallVector<dist::AllReduceOp> reductions; ///< in order; empty: nothing to reduce
  Value reduced;                             ///< what the optimizer takes

  unsigned group = 0;
};

struct BucketGradients : gradients::impl::BucketGradientsBase<BucketGradients> {
  using BucketGradientsBase::BucketGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (bucketSizeMb <= 0 || firstBucketMb <= 0 || requireAccumulations < 0) {
      module.emitError()
          << "expects positive bucket sizes and no negative number of accumulations, "
             "found bucket-size-mb="
          << bucketSizeMb << " first-bucket-mb=" << firstBucketMb
          << " require-accumulations=" << int64_t(requireAccumulations);
      return signalPassFailure();
    }
    FailureOr<train::Program> program = train::getProgram(module);
    if (failed(program))
      return signalPassFailure();
    if (!program->update) {
      module.emitError() << "has no update function, so there are no accumulated gradients to put "
                            "into buckets; export it with an optimizer";
      return signalPassFailure();
    }
    update = program->update;
    if (failed(findGradients(module)))
      return signalPassFailure();
    groupGradients();
    // By function, since a bucket is threaded through one.
    llvm::stable_sort(gradients, [](const Gradient &a, const Gradient &b) {
      if (a.maker != b.maker)
        return a.maker->isBeforeInBlock(b.maker);
      return a.position < b.position;
    });
    std::vector<gradients::BucketCandidate> candidates;
    for (const Gradient &gradient : gradients)
      candidates.push_back(
          {gradient.group,
           gradient.type.getNumElements() * bufferElement(gradient).getIntOrFloatBitWidth() / 8});
    constexpr double mb = 1024 * 1024;
    auto plan = gradients::planBuckets(candidates, {static_cast<int64_t>(bucketSizeMb * mb),
                                                    static_cast<int64_t>(firstBucketMb * mb)});
    SymbolTable symbols(module);
    for (auto [index, members] : llvm::enumerate(plan))
      makeBucket(symbols, index, members);
    eraseSignature();
  }

  //===--------------------------------------------------------------------===//
  // Analysis
  //===--------------------------------------------------------------------===//

  LogicalResult findGradients(ModuleOp module) {
    llvm::DenseMap<StringAttr, std::pair<func::FuncOp, unsigned>> makers;
    DenseMap<Operation *, size_t> positions;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!function->hasAttr(train::kPhaseAttrName) || function == update)
        continue;
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (train::RoleAttr role = train::getResultRole(function, i);
            role.getKind() == train::RoleKind::Gradient)
          makers[role.getName()] = {function, i};
      for (auto [index, op] : llvm::enumerate(function.front()))
        positions[&op] = index + 1;
    }
    for (BlockArgument argument : update.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(update, argument.getArgNumber());
      if (role.getKind() != train::RoleKind::Gradient)
        continue;
      Gradient gradient;
      gradient.name = role.getName();
      gradient.argument = argument.getArgNumber();
      if (isa<train::BucketType>(argument.getType()))
        return update.emitError() << "has the bucket " << role.getName()
                                  << " already; gradients are put into buckets once";
      gradient.type = cast<RankedTensorType>(argument.getType());
      if (!isa<FloatType>(gradient.type.getElementType()))
        return update.emitError()
               << "takes " << role << " of type " << gradient.type
               << ", which no bucket can take: it is not of a floating-point type";
      // getProgram has seen to it that some function makes it.
      std::tie(gradient.maker, gradient.result) = makers.lookup(role.getName());
      if (failed(findContribution(gradient, role)) ||
          failed(findReductions(gradient, argument, role)))
        return failure();
      if (Operation *op = gradient.value.getDefiningOp())
        gradient.position = positions.lookup(gradient.accumulate ? gradient.accumulate : op);
      gradients.push_back(std::move(gradient));
    }
    if (gradients.empty())
      return update.emitError() << "takes no gradients to put into buckets";
    return success();
  }

  /// What a microbatch adds: the operand of the accumulation, whose only purpose is this result.
  LogicalResult findContribution(Gradient &gradient, train::RoleAttr role) {
    auto terminator = gradient.maker.front().getTerminator();
    Value result = terminator->getOperand(gradient.result);
    gradient.value = result;
    for (BlockArgument argument : gradient.maker.getArguments()) {
      train::RoleAttr tied = train::getArgumentRole(gradient.maker, argument.getArgNumber());
      if (!tied.isTiedTo(role))
        continue;
      auto accumulate = result.getDefiningOp<train::AccumulateOp>();
      bool isPlain = accumulate && accumulate.getAccumulator() == argument &&
                     argument.hasOneUse() && result.hasOneUse();
      if (!isPlain) {
        InFlightDiagnostic diagnostic =
            gradient.maker.emitError()
            << "makes " << role
            << ", which no bucket can take: it is not just `train.accumulate` of its accumulator";
        diagnostic.attachNote(result.getLoc()) << "made here";
        for (Operation *user : argument.getUsers())
          if (user != accumulate)
            diagnostic.attachNote(user->getLoc()) << "the accumulator is used here";
        for (Operation *user : result.getUsers())
          if (user != terminator)
            diagnostic.attachNote(user->getLoc()) << "the sum is used here";
        return diagnostic;
      }
      gradient.accumulate = accumulate;
      gradient.value = accumulate.getGradient();
    }
    return success();
  }

  /// The chain of sums that begins at the update's argument.
  LogicalResult findReductions(Gradient &gradient, Value value, train::RoleAttr role) {
    llvm::SmallSetVector<Attribute, 4> axes;
    while (value.hasOneUse()) {
      auto reduction = dyn_cast<dist::AllReduceOp>(*value.getUsers().begin());
      if (!reduction || reduction.getInputs().size() != 1 || reduction.isStarted() ||
          reduction.getReduction().getKind() != dist::Reduction::Sum)
        break;
      for (Attribute axis : reduction.getAxes())
        if (!axes.insert(axis)) {
          InFlightDiagnostic diagnostic = reduction.emitError()
                                          << "reduces " << role << " over " << axis << " again";
          diagnostic.attachNote(gradient.reductions.front().getLoc()) << "reduced here before";
          return diagnostic;
        }
      gradient.reductions.push_back(reduction);
      value = reduction.getResult(0);
    }
    for (Operation *user : value.getUsers())
      if (isa<dist::AllReduceOp>(user)) {
        InFlightDiagnostic diagnostic =
            update.emitError() << "takes " << role
                               << ", which no bucket can take: its reduction is not a sum, or not "
                                  "all that is done with it";
        diagnostic.attachNote(user->getLoc()) << "reduced here";
        return diagnostic;
      }
    gradient.reduced = value;
    return success();
  }

  Type bufferElement(const Gradient &gradient) {
    Type element = gradient.type.getElementType();
    if (reduceInFp32 && !gradient.reductions.empty() && element.getIntOrFloatBitWidth() < 32)
      return Float32Type::get(&getContext());
    return element;
  }

  /// Parameter group (the optimizer op that takes the gradient: its kind, hyper-parameters and
  /// learning rate), element types, mesh, axes, and the function that makes it. Where a program
  /// runs there is one device.
  void groupGradients() {
    using Key = std::tuple<Operation *, Attribute, const void *, Type, Type, Attribute, Attribute>;
    llvm::MapVector<Key, unsigned> groups;
    for (Gradient &gradient : gradients) {
      SmallVector<Attribute> axes;
      Attribute mesh;
      for (dist::AllReduceOp reduction : gradient.reductions) {
        llvm::append_range(axes, reduction.getAxes());
        mesh = reduction.getMeshAttr();
      }
      Attribute properties;
      const void *rate = nullptr;
      if (gradient.reduced.hasOneUse()) {
        Operation *optimizer = *gradient.reduced.getUsers().begin();
        if (isa<train::AdamWOp, train::SGDOp>(optimizer)) {
          properties = ArrayAttr::get(
              &getContext(), {StringAttr::get(&getContext(), optimizer->getName().getStringRef()),
                              optimizer->getPropertiesAsAttribute()});
          rate = optimizer->getOperand(optimizer->getNumOperands() - 1).getAsOpaquePointer();
        }
      }
      Key key{gradient.maker,
              properties,
              rate,
              gradient.type.getElementType(),
              bufferElement(gradient),
              mesh,
              ArrayAttr::get(&getContext(), axes)};
      gradient.group = groups.try_emplace(key, groups.size()).first->second;
    }
  }

  //===--------------------------------------------------------------------===//
  // Rewriting
  //===--------------------------------------------------------------------===//

  void makeBucket(SymbolTable &symbols, size_t index, ArrayRef<unsigned> members) {
    MLIRContext *context = &getContext();
    Gradient &first = gradients[members.front()];
    SmallVector<Attribute> names, types, axes;
    FlatSymbolRefAttr mesh;
    for (unsigned member : members) {
      names.push_back(gradients[member].name);
      types.push_back(TypeAttr::get(gradients[member].type));
    }
    for (dist::AllReduceOp reduction : first.reductions) {
      llvm::append_range(axes, reduction.getAxes());
      mesh = reduction.getMeshAttr();
    }
    OpBuilder b(first.maker);
    int64_t accumulations = requireAccumulations;
    auto bucket =
        train::BucketOp::create(b, first.maker.getLoc(), "bucket" + std::to_string(index),
                                bufferElement(first), b.getArrayAttr(names), b.getArrayAttr(types),
                                mesh, mesh ? b.getArrayAttr(axes) : ArrayAttr(),
                                accumulations ? b.getI64IntegerAttr(accumulations) : IntegerAttr());
    symbols.insert(bucket, first.maker->getIterator());
    train::BucketType type = bucket.getBucketType();
    StringRef name = bucket.getSymName();

    auto dictionary = [&](train::RoleKind kind) {
      return b.getDictionaryAttr(
          b.getNamedAttr(train::kRoleAttrName, train::RoleAttr::get(context, kind, name)));
    };
    func::FuncOp maker = first.maker;
    unsigned argument = maker.getNumArguments();
    (void)maker.insertArgument(argument, type, dictionary(train::RoleKind::Accumulator),
                               bucket.getLoc());
    Value value = maker.getArgument(argument);
    auto &block = maker.front();
    for (unsigned member : members) {
      Gradient &gradient = gradients[member];
      if (gradient.accumulate)
        b.setInsertionPoint(gradient.accumulate);
      else if (Operation *op = gradient.value.getDefiningOp())
        b.setInsertionPointAfter(op);
      else
        b.setInsertionPointToStart(&block);
      // Gradients that are ready at one place contribute in their order.
      if (Operation *last = value.getDefiningOp(); last && b.getInsertionPoint() != block.end() &&
                                                   !last->isBeforeInBlock(&*b.getInsertionPoint()))
        b.setInsertionPointAfter(last);
      value = contribute(b, gradient, value);
      ++numMembers;
    }
    value = train::ReduceBucketOp::create(b, value.getLoc(), value);
    (void)maker.insertResult(maker.getNumResults(), type, dictionary(train::RoleKind::Gradient));
    Operation *terminator = block.getTerminator();
    terminator->insertOperands(terminator->getNumOperands(), value);

    unsigned taken = update.getNumArguments();
    (void)update.insertArgument(taken, type, dictionary(train::RoleKind::Gradient),
                                bucket.getLoc());
    Operation *firstUser = nullptr;
    for (unsigned member : members)
      for (Operation *user : gradients[member].reduced.getUsers())
        if (!firstUser || user->isBeforeInBlock(firstUser))
          firstUser = user;
    if (firstUser)
      b.setInsertionPoint(firstUser);
    else
      b.setInsertionPoint(update.front().getTerminator());
    SmallVector<Type> resultTypes;
    for (unsigned member : members)
      resultTypes.push_back(gradients[member].reduced.getType());
    auto wait = train::WaitBucketOp::create(b, update.getArgument(taken).getLoc(), resultTypes,
                                            update.getArgument(taken));
    for (auto [result, member] : llvm::zip_equal(wait.getGradients(), members))
      gradients[member].reduced.replaceAllUsesWith(result);
    ++numBuckets;
    if (mesh)
      ++numReductions;
    if (explain)
      remark(bucket, members);
  }

  void remark(train::BucketOp bucket, ArrayRef<unsigned> members) {
    InFlightDiagnostic diagnostic = bucket.emitRemark()
                                    << "bucket '" << bucket.getSymName() << "': ";
    int64_t bytes = bucket.getBucketType().getFlat().getNumElements() *
                    bucket.getElement().getIntOrFloatBitWidth() / 8;
    diagnostic << members.size() << " gradients, " << bytes << " bytes of " << bucket.getElement();
    if (bucket.getAxes())
      diagnostic << ", summed over " << *bucket.getAxes();
    else
      diagnostic << ", nothing to reduce";
    for (unsigned member : members)
      diagnostic.attachNote(gradients[member].value.getLoc())
          << "'" << gradients[member].name.getValue() << "' of type " << gradients[member].type
          << " is made here";
  }

  /// Adds `gradient` to the bucket in front of `b`.
  Value contribute(OpBuilder &b, const Gradient &gradient, Value bucket) {
    Location location = gradient.value.getLoc();
    bool transposed = false;
    if (fuseAccumulate && bufferElement(gradient) == gradient.type.getElementType())
      if (aten::MmOp product = findProduct(gradient.value, transposed)) {
        ++numFused;
        return train::ContributeMmOp::create(b, product.getLoc(), bucket.getType(),
                                             product.getSelf(), product.getMat2(), transposed,
                                             gradient.name.getValue(), bucket);
      }
    return train::ContributeOp::create(b, location, gradient.value, gradient.name.getValue(),
                                       bucket);
  }

  /// The product that `gradient` is, but for transposes, if nothing else needs it.
  static aten::MmOp findProduct(Value gradient, bool &transposed) {
    transposed = false;
    while (gradient.hasOneUse()) {
      Operation *op = gradient.getDefiningOp();
      if (auto product = dyn_cast_or_null<aten::MmOp>(op))
        return product;
      auto permute = dyn_cast_or_null<aten::PermuteOp>(op);
      bool isTranspose = isa_and_nonnull<aten::TOp>(op) ||
                         (permute && permute.getDims() == ArrayRef<int64_t>{1, 0});
      if (!isTranspose)
        return {};
      transposed = !transposed;
      gradient = op->getOperand(0);
    }
    return {};
  }

  /// Takes single gradients out of the functions, all at once: each erasure renumbers the rest.
  void eraseSignature() {
    llvm::MapVector<func::FuncOp, std::pair<BitVector, BitVector>> gone;
    BitVector goneFromUpdate(update.getNumArguments());
    for (Gradient &gradient : gradients) {
      auto &[arguments, results] = gone[gradient.maker];
      arguments.resize(gradient.maker.getNumArguments());
      results.resize(gradient.maker.getNumResults());
      results.set(gradient.result);
      if (gradient.accumulate)
        arguments.set(cast<BlockArgument>(gradient.accumulate.getAccumulator()).getArgNumber());
      goneFromUpdate.set(gradient.argument);
      for (dist::AllReduceOp reduction : llvm::reverse(gradient.reductions))
        reduction.erase();
    }
    for (auto &[maker, parts] : gone) {
      maker.front().getTerminator()->eraseOperands(parts.second);
      for (Gradient &gradient : gradients)
        if (gradient.maker == maker) {
          if (gradient.accumulate)
            gradient.accumulate.erase();
          eraseDead(gradient.value);
        }
      (void)maker.eraseResults(parts.second);
      (void)maker.eraseArguments(parts.first);
    }
    (void)update.eraseArguments(goneFromUpdate);
  }

  /// Erases a product that now writes into its bucket, and the transposes behind it.
  static void eraseDead(Value value) {
    while (value.use_empty()) {
      Operation *op = value.getDefiningOp();
      if (!isa_and_nonnull<aten::MmOp, aten::TOp, aten::PermuteOp>(op))
        return;
      value = op->getOperand(0);
      op->erase();
    }
  }

  func::FuncOp update;
  std::vector<Gradient> gradients;
};
} // namespace
