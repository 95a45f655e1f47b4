//===- BucketGradients.cpp - one reduction for many gradients ----------------===//
//
// The update's reductions say what each gradient needs; the functions that make gradients say when
// each is ready. Both together give the buckets.
//
//===----------------------------------------------------------------------===//

#include "passes/gradients/BucketPlan.h"
#include "passes/gradients/GradientPaths.h"
#include "passes/gradients/Passes.h"

#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/View.h"
#include "dialects/train/Program.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"

namespace cleave::gradients {
#define GEN_PASS_DEF_BUCKETGRADIENTS
#include "passes/gradients/Passes.h.inc"
} // namespace cleave::gradients

using namespace mlir;
using namespace cleave;

namespace {
using gradients::GradientPath;

struct BucketGradients : gradients::impl::BucketGradientsBase<BucketGradients> {
  using BucketGradientsBase::BucketGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto isSize = [](double mb) { return mb > 0 && mb < 1e9; };
    if (!isSize(bucketSizeMb) || !isSize(firstBucketMb) || requireAccumulations < 0) {
      module.emitError()
          << "expects positive bucket sizes and no negative number of accumulations, "
             "found bucket-size-mb="
          << bucketSizeMb << " first-bucket-mb=" << firstBucketMb
          << " require-accumulations=" << int64_t(requireAccumulations);
      return signalPassFailure();
    }
    FailureOr<train::Program> program = train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program))
      return signalPassFailure();
    if (!program->hasUpdate()) {
      module.emitError() << "has no update function, so there are no accumulated gradients to put "
                            "into buckets; export it with an optimizer";
      return signalPassFailure();
    }
    SymbolTable symbols(module);
    for (auto [number, part] : llvm::enumerate(program->getParts()))
      if (part.update &&
          failed(
              makeBuckets(symbols, *program, part,
                          program->isStaged() ? ("bucket" + Twine(number) + "_").str() : "bucket")))
        return signalPassFailure();
  }

  /// Puts the gradients of `part`, the program or one of its stages, into buckets called `prefix`
  /// and a number.
  LogicalResult makeBuckets(SymbolTable &symbols, const train::Program &program,
                            const train::Program &part, StringRef prefix) {
    update = part.update;
    reduce = part.reduce;
    FailureOr<std::vector<GradientPath>> paths = gradients::findGradientPaths(program, part);
    if (failed(paths))
      return failure();
    if (paths->empty())
      return update.emitError() << "takes no gradients to put into buckets";
    gradients = std::move(*paths);
    // By function, since a bucket is threaded through one.
    llvm::stable_sort(gradients, [](const GradientPath &a, const GradientPath &b) {
      func::FuncOp first = a.maker, second = b.maker;
      if (first != second)
        return first->isBeforeInBlock(second);
      return a.position < b.position;
    });
    std::vector<unsigned> groups = groupGradients();
    std::vector<gradients::BucketCandidate> candidates;
    for (auto [gradient, group] : llvm::zip_equal(gradients, groups))
      candidates.push_back({group, gradient.type.getNumElements() *
                                       bufferElement(gradient).getIntOrFloatBitWidth() / 8});
    constexpr double mb = 1024 * 1024;
    auto plan = gradients::planBuckets(candidates, {static_cast<int64_t>(bucketSizeMb * mb),
                                                    static_cast<int64_t>(firstBucketMb * mb)});
    for (auto [index, members] : llvm::enumerate(plan))
      makeBucket(symbols, (prefix + Twine(index)).str(), members);
    eraseSignature();
    return success();
  }

  Type bufferElement(const GradientPath &gradient) {
    Type element = gradient.type.getElementType();
    if (reduceInFp32 && !gradient.reductions.empty() && element.getIntOrFloatBitWidth() < 32)
      return Float32Type::get(&getContext());
    return element;
  }

  /// Parameter group (the optimizer op that takes the gradient: its kind, hyper-parameters and
  /// learning rate), element types, mesh, axes, and the function that makes it. Where a program
  /// runs there is one device.
  std::vector<unsigned> groupGradients() {
    using Key = std::tuple<Operation *, Attribute, const void *, Type, Type, Attribute, Attribute,
                           Attribute>;
    llvm::MapVector<Key, unsigned> groups;
    std::vector<unsigned> result;
    for (GradientPath &gradient : gradients) {
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
              gradient.mesh,
              ArrayAttr::get(&getContext(), gradient.axes),
              ArrayAttr::get(&getContext(), gradient.scatter)};
      result.push_back(groups.try_emplace(key, groups.size()).first->second);
    }
    return result;
  }

  //===--------------------------------------------------------------------===//
  // Rewriting
  //===--------------------------------------------------------------------===//

  void makeBucket(SymbolTable &symbols, StringRef symbol, ArrayRef<unsigned> members) {
    MLIRContext *context = &getContext();
    GradientPath &first = gradients[members.front()];
    SmallVector<Attribute> names, types;
    SmallVector<int64_t> dims;
    for (unsigned member : members) {
      dims.push_back(gradients[member].scatterDim);
      names.push_back(gradients[member].name);
      types.push_back(TypeAttr::get(gradients[member].type));
    }
    OpBuilder b(first.maker);
    int64_t accumulations = requireAccumulations;
    auto bucket = train::BucketOp::create(
        b, first.maker.getLoc(), symbol, bufferElement(first), b.getArrayAttr(names),
        b.getArrayAttr(types), first.mesh, first.mesh ? b.getArrayAttr(first.axes) : ArrayAttr(),
        first.scatter.empty() ? ArrayAttr() : b.getArrayAttr(first.scatter),
        accumulations ? b.getI64IntegerAttr(accumulations) : IntegerAttr(),
        llvm::any_of(dims, [](int64_t dim) { return dim != 0; }) ? b.getDenseI64ArrayAttr(dims)
                                                                 : DenseI64ArrayAttr());
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
      GradientPath &gradient = gradients[member];
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
    if (first.mesh)
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
    if (bucket.getScatter())
      diagnostic << ", scattered along " << *bucket.getScatter();
    if (bucket.getAxes() && !bucket.getAxes()->empty())
      diagnostic << ", summed over " << *bucket.getAxes();
    if (!bucket.getMesh())
      diagnostic << ", nothing to reduce";
    for (unsigned member : members)
      diagnostic.attachNote(gradients[member].value.getLoc())
          << "'" << gradients[member].name.getValue() << "' of type " << gradients[member].type
          << " is made here";
  }

  /// Adds `gradient` to the bucket in front of `b`.
  Value contribute(OpBuilder &b, const GradientPath &gradient, Value bucket) {
    Location location = gradient.value.getLoc();
    bool transposed = false;
    // A scattered member does not lie in one piece.
    if (fuseAccumulate && gradient.scatter.empty() &&
        bufferElement(gradient) == gradient.type.getElementType())
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
    struct Gone {
      BitVector arguments, results;
    };
    llvm::MapVector<func::FuncOp, Gone> gone;
    auto goneFrom = [&](func::FuncOp function) -> Gone & {
      Gone &parts = gone[function];
      parts.arguments.resize(function.getNumArguments());
      parts.results.resize(function.getNumResults());
      return parts;
    };
    for (GradientPath &gradient : gradients) {
      goneFrom(gradient.maker).results.set(gradient.result);
      if (gradient.accumulate)
        goneFrom(gradient.maker)
            .arguments.set(
                cast<BlockArgument>(gradient.accumulate.getAccumulator()).getArgNumber());
      if (gradient.reduceArgument) {
        goneFrom(reduce).arguments.set(*gradient.reduceArgument);
        goneFrom(reduce).results.set(*gradient.reduceResult);
      }
      goneFrom(update).arguments.set(gradient.argument);
    }
    for (auto &[function, parts] : gone)
      function.front().getTerminator()->eraseOperands(parts.results);
    for (GradientPath &gradient : gradients) {
      for (Operation *reduction : llvm::reverse(gradient.reductions))
        reduction->erase();
      if (gradient.accumulate)
        gradient.accumulate.erase();
      eraseDead(gradient.value);
    }
    for (auto &[function, parts] : gone) {
      (void)function.eraseResults(parts.results);
      (void)function.eraseArguments(parts.arguments);
    }
    if (reduce && reduce.getNumResults() == 0)
      reduce.erase();
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

  func::FuncOp update, reduce;
  std::vector<GradientPath> gradients;
};
} // namespace
