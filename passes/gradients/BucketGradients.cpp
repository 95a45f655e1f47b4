//===- BucketGradients.cpp - one reduction for many gradients ----------------===//
//
// The reductions in the update (or the reduce function) say what each gradient needs; the functions
// that make gradients say when each is ready. Both together give the buckets.
//
//===----------------------------------------------------------------------===//

#include "passes/gradients/BucketGroups.h"
#include "passes/gradients/BucketPlan.h"
#include "passes/gradients/GradientPaths.h"
#include "passes/gradients/Passes.h"

#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Verify.h"
#include "dialects/train/Program.h"
#include "lib/backward/SignatureEditor.h"
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
using Signatures = llvm::MapVector<Operation *, std::unique_ptr<backward::SignatureEditor>>;

struct BucketGradients : gradients::impl::BucketGradientsBase<BucketGradients> {
  using BucketGradientsBase::BucketGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto isSize = [](double mb) { return mb > 0 && mb < 1e9; };
    if (!isSize(bucketSizeMb) || !isSize(firstBucketMb) || requireAccumulations < 0) {
      module.emitError() << "expects positive bucket sizes and a nonnegative number of "
                            "accumulations, found bucket-size-mb="
                         << bucketSizeMb << " first-bucket-mb=" << firstBucketMb
                         << " require-accumulations=" << int64_t(requireAccumulations);
      return signalPassFailure();
    }
    FailureOr<train::ProgramFunctions> program =
        train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program))
      return signalPassFailure();
    auto takesGradients = [](const train::ProgramFunctions &part) {
      return part.update || part.reduce;
    };
    if (llvm::none_of(program->getParts(), takesGradients)) {
      module.emitError()
          << "has neither an update nor a reduce function, so there are no gradients "
             "to bucket; run --sync-gradients first";
      return signalPassFailure();
    }
    SymbolTable symbols(module);
    for (auto [number, part] : llvm::enumerate(program->getParts()))
      if (takesGradients(part) &&
          failed(
              makeBuckets(symbols, *program, part,
                          program->isStaged() ? ("bucket" + Twine(number) + "_").str() : "bucket")))
        return signalPassFailure();
  }

  /// Puts the gradients of `part`, the program or one of its stages, into buckets called `prefix`
  /// and a number.
  LogicalResult makeBuckets(SymbolTable &symbols, const train::ProgramFunctions &program,
                            const train::ProgramFunctions &part, StringRef prefix) {
    reduce = part.update ? part.reduce : func::FuncOp();
    FailureOr<std::vector<GradientPath>> paths = gradients::findGradientPaths(program, part);
    if (failed(paths))
      return failure();
    if (paths->empty())
      return func::FuncOp(part.update ? part.update : part.reduce).emitError()
             << "takes no gradients to bucket";
    gradients = std::move(*paths);
    gradients::orderByReadiness(part, gradients);
    std::vector<unsigned> groups = gradients::groupGradients(
        gradients, [&](const GradientPath &gradient) { return bufferElement(gradient); });
    std::vector<gradients::BucketCandidate> candidates;
    for (auto [gradient, group] : llvm::zip_equal(gradients, groups))
      candidates.push_back({group, gradient.type.getNumElements() *
                                       dist::getElementBits(bufferElement(gradient)) / 8});
    constexpr double mb = 1024 * 1024;
    auto plan = gradients::planBuckets(candidates, {static_cast<int64_t>(bucketSizeMb * mb),
                                                    static_cast<int64_t>(firstBucketMb * mb)});
    position.clear();
    for (auto [number, op] : llvm::enumerate(gradients.front().consumer.front()))
      position[&op] = number;
    Signatures signatures;
    for (auto [index, members] : llvm::enumerate(plan))
      makeBucket(symbols, (prefix + Twine(index)).str(), members, signatures);
    for (auto &[function, signature] : signatures)
      signature->commit();
    eraseSignature();
    return success();
  }

  Type bufferElement(const GradientPath &gradient) {
    Type element = gradient.element;
    if (reduceInFp32 && !gradient.reductions.empty() && dist::getElementBits(element) < 32)
      return Float32Type::get(&getContext());
    return element;
  }

  //===--------------------------------------------------------------------===//
  // Rewriting
  //===--------------------------------------------------------------------===//

  void makeBucket(SymbolTable &symbols, StringRef symbol, ArrayRef<unsigned> members,
                  Signatures &signatures) {
    MLIRContext *context = &getContext();
    GradientPath &first = gradients[members.front()];
    SmallVector<Attribute> names, types;
    SmallVector<int64_t> dims;
    for (unsigned member : members) {
      dims.push_back(gradients[member].scatterDim);
      names.push_back(gradients[member].name);
      types.push_back(TypeAttr::get(gradients[member].type));
    }
    OpBuilder b(first.producer);
    int64_t accumulations = requireAccumulations;
    auto bucket = train::BucketOp::create(
        b, first.producer.getLoc(), symbol, bufferElement(first), b.getArrayAttr(names),
        b.getArrayAttr(types), first.mesh, first.mesh ? b.getArrayAttr(first.axes) : ArrayAttr(),
        first.scatter.empty() ? ArrayAttr() : b.getArrayAttr(first.scatter),
        accumulations ? b.getI64IntegerAttr(accumulations) : IntegerAttr(),
        llvm::any_of(dims, [](int64_t dim) { return dim != 0; }) ? b.getDenseI64ArrayAttr(dims)
                                                                 : DenseI64ArrayAttr());
    symbols.insert(bucket, first.producer->getIterator());
    train::BucketType type = bucket.getBucketType();
    StringRef name = bucket.getSymName();

    func::FuncOp producer = first.producer;
    Value value =
        signatureOf(producer, signatures)
            .addArgument(type, train::RoleAttr::get(context, train::RoleKind::Accumulator, name),
                         bucket.getLoc());
    for (unsigned member : members) {
      GradientPath &gradient = gradients[member];
      Operation *behind = gradient.behind, *last = value.getDefiningOp();
      // Gradients that are ready at one place contribute in their order.
      if (!behind || (last && behind->isBeforeInBlock(last)))
        behind = last;
      if (behind)
        b.setInsertionPointAfter(behind);
      else
        b.setInsertionPointToStart(&producer.front());
      for (Operation *view : gradient.views)
        view->moveBefore(b.getBlock(), b.getInsertionPoint());
      value = contribute(b, gradient, value);
      ++numMembers;
    }
    value = train::ReduceBucketOp::create(b, value.getLoc(), value);
    auto role = train::RoleAttr::get(context, train::RoleKind::Gradient, name);
    signatureOf(producer, signatures).addResult(value, role);

    func::FuncOp consumer = first.consumer;
    Value taken = signatureOf(consumer, signatures).addArgument(type, role, bucket.getLoc());
    b.setInsertionPoint(sinkOptimizerSteps(consumer, members));
    SmallVector<Type> resultTypes;
    for (unsigned member : members) {
      const GradientPath &gradient = gradients[member];
      resultTypes.push_back(
          cast<RankedTensorType>(gradient.reduced.getType()).clone(gradient.type.getElementType()));
    }
    auto wait = train::WaitBucketOp::create(b, taken.getLoc(), resultTypes, taken);
    for (auto [result, member] : llvm::zip_equal(wait.getGradients(), members)) {
      Value reduced = gradients[member].reduced;
      reduced.replaceAllUsesWith(castTo(b, result, cast<RankedTensorType>(reduced.getType())));
    }
    ++numBuckets;
    if (first.mesh)
      ++numReductions;
    if (explain)
      remark(bucket, members);
  }

  static Value castTo(OpBuilder &b, Value value, RankedTensorType type) {
    if (value.getType() == type)
      return value;
    OperationState state(value.getLoc(), aten::ToCopyOp::getOperationName());
    state.addOperands(value);
    state.addTypes(type);
    state.addAttribute("dtype", TypeAttr::get(type.getElementType()));
    return b.create(state)->getResult(0);
  }

  /// Moves the optimizer steps that take the bucket's gradients after those of the buckets before
  /// it, which are reduced earlier. Gives the first op that takes one of the gradients.
  Operation *sinkOptimizerSteps(func::FuncOp consumer, ArrayRef<unsigned> members) {
    Operation *terminator = consumer.front().getTerminator(), *first = terminator;
    for (unsigned member : members)
      for (Operation *user : gradients[member].reduced.getUsers()) {
        bool isLast =
            isa<train::OptimizerStepOpInterface>(user) &&
            llvm::all_of(user->getUsers(), [&](Operation *other) { return other == terminator; });
        if (isLast) {
          user->moveBefore(terminator);
          position[user] = position[terminator]++;
        }
        if (user != terminator && position[user] < position[first])
          first = user;
      }
    return first;
  }

  static backward::SignatureEditor &signatureOf(func::FuncOp function, Signatures &signatures) {
    std::unique_ptr<backward::SignatureEditor> &signature = signatures[function];
    if (!signature)
      signature = std::make_unique<backward::SignatureEditor>(function);
    return *signature;
  }

  void remark(train::BucketOp bucket, ArrayRef<unsigned> members) {
    InFlightDiagnostic diagnostic = bucket.emitRemark()
                                    << "bucket '" << bucket.getSymName() << "': ";
    int64_t bytes = bucket.getBucketType().getFlat().getNumElements() *
                    dist::getElementBits(bucket.getElement()) / 8;
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
          << " is produced here";
  }

  /// Adds `gradient` to the bucket before `b`.
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
      goneFrom(gradient.producer).results.set(gradient.result);
      if (gradient.accumulate)
        goneFrom(gradient.producer)
            .arguments.set(
                cast<BlockArgument>(gradient.accumulate.getAccumulator()).getArgNumber());
      if (gradient.reduceArgument) {
        goneFrom(reduce).arguments.set(*gradient.reduceArgument);
        goneFrom(reduce).results.set(*gradient.reduceResult);
      }
      goneFrom(gradient.consumer).arguments.set(gradient.argument);
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

  /// Erases a product that now writes into its bucket, and the transposes after it.
  static void eraseDead(Value value) {
    while (value.use_empty()) {
      Operation *op = value.getDefiningOp();
      if (!isa_and_nonnull<aten::MmOp, aten::TOp, aten::PermuteOp>(op))
        return;
      value = op->getOperand(0);
      op->erase();
    }
  }

  /// Stands between the gradients and the update, if anything does.
  func::FuncOp reduce;
  std::vector<GradientPath> gradients;
  /// Of the consumer's ops, in their order: a move would renumber the block.
  llvm::DenseMap<Operation *, size_t> position;
};
} // namespace
