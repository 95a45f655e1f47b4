//===- AsyncTP.cpp - products that overlap with what they communicate -------===//
//
// An all_gather before a product and a reduce_scatter after it become rings, in which a rank
// multiplies one block while the next is on its way. Rows of blocks are numbered by rank, which
// only the run knows: blocks are found and put in place by index.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Verify.h"
#include "lib/placement/forms/LocalBuilder.h"
#include "passes/communication/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::communication {
#define GEN_PASS_DEF_ASYNCTP
#include "passes/communication/Passes.h.inc"
} // namespace cleave::communication

using namespace mlir;
using namespace cleave;
using aten::dtypeOf;
using aten::rankOf;
using aten::Shape;
using aten::shapeOf;
using placement::Axes;
using placement::FormBuilder;
using placement::LocalBuilder;
using placement::MeshAxis;

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

/// The operand of a product whose rows are those of the result; none for other ops.
static std::optional<unsigned> rowsOperand(Operation *op) {
  if (isa<aten::MmOp>(op))
    return 0;
  if (isa<aten::AddmmOp>(op))
    return 1;
  return std::nullopt;
}

/// Whether `to` is `from` with all dimensions but the last merged into one.
static bool mergesRows(Value from, Value to) {
  return rankOf(to) == 2 && shapeOf(from).back() == shapeOf(to).back();
}

static bool isView(Operation *op) {
  return isa<aten::ViewOp, aten::UnsafeViewOp>(op);
}

/// Whether the product takes `rows` as its rows, and only so; what is added has to be the same for
/// all rows, so that it can be added to some of them.
static bool takesRows(Operation *op, Value rows) {
  std::optional<unsigned> at = rowsOperand(op);
  if (auto product = dyn_cast<aten::AddmmOp>(op))
    if (rankOf(product.getSelf()) == 2 && shapeOf(product.getSelf())[0] != 1)
      return false;
  return at && op->getOperand(*at) == rows && llvm::count(op->getOperands(), rows) == 1;
}

/// Whether a result that varies along the axes may be called what this type says.
static bool mayVary(Type type, const Axes &axes) {
  dist::PlacementAttr placement = dist::getPlacement(type);
  return !placement || llvm::all_of(axes.names, [&](StringAttr axis) {
    std::optional<dist::AxisPlacement> along = placement.get(axis);
    return along && (along->isShard() || along->isVarying() || along->isPartialSum());
  });
}

/// Whether no axis but these shards a dimension of the type between the first and the last.
static bool othersShardEnds(Type type, const Axes &axes) {
  dist::PlacementAttr placement = dist::getPlacement(type);
  int64_t rank = cast<RankedTensorType>(type).getRank();
  return !placement || llvm::all_of(placement.getEntries(), [&](const dist::AxisEntry &entry) {
    dist::AxisPlacement along = entry.placement;
    return llvm::is_contained(axes.names, entry.axis) || !along.isShard() ||
           along.dim == rank - 1 || (along.dim == 0 && rank > 2);
  });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct AsyncTP : communication::impl::AsyncTPBase<AsyncTP> {
  using AsyncTPBase::AsyncTPBase;

  LogicalResult initialize(MLIRContext *context) override {
    if (chunks >= 1 && minMb >= 0)
      return success();
    return emitError(UnknownLoc::get(context))
           << "expects chunks of at least 1 and a nonnegative min-mb, found " << int64_t(chunks)
           << " and " << double(minMb);
  }

  void runOnOperation() override {
    SmallVector<dist::AllGatherOp> gathers;
    SmallVector<dist::ReduceScatterOp> scatters;
    for (Block &block : getOperation().getBody()) {
      llvm::append_range(gathers, block.getOps<dist::AllGatherOp>());
      llvm::append_range(scatters, block.getOps<dist::ReduceScatterOp>());
    }
    for (dist::AllGatherOp gather : gathers)
      if (failed(decompose(gather)))
        return signalPassFailure();
    for (dist::ReduceScatterOp scatter : scatters)
      if (failed(decompose(scatter)))
        return signalPassFailure();
  }

  /// The axes of a communication of one value, where ranks and blocks are as a ring needs them:
  /// `whole` is the value before or after, `part` what one rank holds of dimension `dim`.
  template <typename OpTy>
  std::optional<Axes> ringOf(OpTy op, Value whole, Value part, int64_t dim) const {
    auto mesh = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(op, op.getMeshAttr());
    std::optional<int64_t> ranks = mesh ? mesh.countRanks(op.getAxesAttr()) : std::nullopt;
    if (!ranks || *ranks < 2)
      return std::nullopt;
    Axes axes;
    llvm::append_range(axes.names, op.getAxesAttr().template getAsRange<StringAttr>());
    axes.ranks = *ranks;
    bool isEven = shapeOf(part)[dim] * *ranks == shapeOf(whole)[dim] &&
                  shapeOf(part)[dim] % chunks == 0 && shapeOf(part)[dim] > 0;
    bool isLarge = double(dist::bytesOf(whole.getType())) >= minMb * 1024 * 1024;
    if (!isEven || !isLarge || dim >= rankOf(whole) - 1 || !othersShardEnds(whole.getType(), axes))
      return std::nullopt;
    return axes;
  }

  LogicalResult decompose(dist::AllGatherOp gather);
  LogicalResult decompose(dist::ReduceScatterOp scatter);
  SmallVector<Operation *> findProducts(dist::AllGatherOp gather, const Axes &axes) const;
  bool makeReady(ArrayRef<Operation *> products, Operation *at) const;
};

/// Makes the ops of one ring.
class Ring {
public:
  Ring(Operation *at, Value like, Operation *communication, Axes axes, FlatSymbolRefAttr meshName)
      : builder(at),
        mesh(SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(communication, meshName)),
        form(builder, mesh, {}, /*holdsGradients=*/false), b(at, like, form),
        axes(std::move(axes)) {
    builder.setInsertionPoint(at);
  }

  /// `value`'s part `number` of `count` along `dim`.
  Value piece(Value value, int64_t dim, int64_t number, int64_t count) {
    int64_t size = shapeOf(value)[dim] / count;
    return count == 1 ? value : b.slice(value, dim, number * size, (number + 1) * size);
  }
  /// The product with other rows, which may stand in several dimensions; without what it adds if
  /// not told to.
  Value multiply(Operation *product, Value rows, bool withAddend = true) {
    Shape shape(shapeOf(rows));
    int64_t count = 1;
    for (int64_t size : ArrayRef(shape).drop_back())
      count *= size;
    Value matrix = b.reshape(rows, {count, shape.back()});
    shape.back() = shapeOf(product->getResult(0)).back();
    // Local rows do not tell a sharded batch of one example from the sequence after it.
    dist::PlacementAttr placement = dist::getPlacement(rows.getType());
    if (!withAddend)
      return b.viewAs(b.mm(matrix, cast<aten::AddmmOp>(product).getMat2()), shape, placement);
    SmallVector<Value> operands(product->getOperands());
    operands[*rowsOperand(product)] = matrix;
    SmallVector<NamedAttribute> attributes(product->getAttrs());
    llvm::erase_if(attributes, [&](NamedAttribute attribute) {
      return llvm::is_contained(product->getDiscardableAttrDictionary(), attribute);
    });
    Type type = RankedTensorType::get({count, shape.back()}, dtypeOf(product->getResult(0)));
    Value result =
        b.create(product->getName().getStringRef(), type, operands, attributes)->getResult(0);
    return b.viewAs(result, shape, placement);
  }
  /// `value`, whose rows are those of `like`, with dimension `dim` of `like` in parts by rank:
  /// {..., ranks, size / ranks, ...}. Axes other than the ring's shard what they shard of `like`.
  Value splitByRank(Value value, Value like, int64_t dim) {
    Shape shape(shapeOf(like));
    shape.back() = shapeOf(value).back();
    shape[dim] /= axes.ranks;
    shape.insert(shape.begin() + dim, axes.ranks);
    dist::PlacementAttr placement = dist::getPlacement(like.getType());
    if (placement) {
      SmallVector<dist::AxisEntry> entries(placement.getEntries());
      for (dist::AxisEntry &entry : entries)
        entry.placement.dim += entry.placement.isShard() && entry.placement.dim > dim;
      placement = dist::PlacementAttr::get(placement.getMesh(), entries);
    }
    return b.viewAs(value, shape, placement);
  }

private:
  OpBuilder builder;
  dist::MeshOp mesh;
  FormBuilder form;

public:
  LocalBuilder b;
  Axes axes;
};

} // namespace

//===----------------------------------------------------------------------===//
// all_gather, then products
//===----------------------------------------------------------------------===//

/// The products that take the gathered value as rows, themselves or by a view, in their order.
SmallVector<Operation *> AsyncTP::findProducts(dist::AllGatherOp gather, const Axes &axes) const {
  SmallVector<Operation *> products;
  auto add = [&](Value rows) {
    for (Operation *user : rows.getUsers())
      if (takesRows(user, rows) && user->getBlock() == gather->getBlock() &&
          mayVary(user->getResult(0).getType(), axes))
        products.push_back(user);
  };
  Value gathered = gather.getResult(0);
  add(gathered);
  for (Operation *user : gathered.getUsers())
    if (isView(user) && mergesRows(gathered, user->getResult(0)))
      add(user->getResult(0));
  llvm::sort(products, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return products;
}

/// Moves what the products take beside the rows before `at`; false if something cannot be
/// there: it communicates, or has other effects than its result.
bool AsyncTP::makeReady(ArrayRef<Operation *> products, Operation *at) const {
  llvm::SetVector<Operation *> moved;
  std::function<bool(Value)> isReady = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != at->getBlock() || op->isBeforeInBlock(at) || moved.contains(op))
      return true;
    if (op == at || !isMemoryEffectFree(op) || isa<dist::CommunicationOpInterface>(op) ||
        isa<dist::WaitOp>(op) || !llvm::all_of(op->getOperands(), isReady))
      return false;
    moved.insert(op);
    return true;
  };
  for (Operation *product : products)
    for (auto [i, operand] : llvm::enumerate(product->getOperands()))
      if (i != *rowsOperand(product) && !isReady(operand))
        return false;
  for (Operation *op : moved)
    op->moveBefore(at);
  return true;
}

LogicalResult AsyncTP::decompose(dist::AllGatherOp gather) {
  if (gather.getInputs().size() != 1 || !isa<RankedTensorType>(gather->getResult(0).getType()))
    return success();
  Value part = gather.getInputs()[0], whole = gather->getResult(0);
  int64_t dim = gather.getDim();
  std::optional<Axes> axes = ringOf(gather, whole, part, dim);
  if (!axes)
    return success();
  SmallVector<Operation *> products = findProducts(gather, *axes);
  while (!products.empty() && !makeReady(products, products.front()))
    products.pop_back();
  if (products.empty())
    return success();

  // Other users gather for themselves, when they need the value.
  llvm::SmallPtrSet<Operation *, 4> decomposed(products.begin(), products.end());
  SmallVector<Operation *> others;
  SmallVector<Operation *> views;
  for (Operation *user : whole.getUsers()) {
    if (decomposed.contains(user))
      continue;
    if (isView(user) &&
        llvm::all_of(user->getUsers(), [&](Operation *next) { return decomposed.contains(next); }))
      views.push_back(user);
    else
      others.push_back(user);
  }
  if (!others.empty() && !regather)
    return success();

  Operation *at = products.front();
  Ring ring(at, part, gather, *axes, gather.getMeshAttr());
  LocalBuilder &b = ring.b;
  SmallVector<Value> pieces;
  Value mine = b.asVarying(part, *axes);
  for (int64_t i = 0; i < chunks; ++i)
    pieces.push_back(ring.piece(mine, dim, i, chunks));
  // By product: blocks in the order in which they come, from this rank backwards.
  SmallVector<SmallVector<Value>> blocks(products.size());
  SmallVector<Value> onWay(chunks);
  for (int64_t step = 0; step < axes->ranks; ++step)
    for (int64_t i = 0; i < chunks; ++i) {
      if (step > 0)
        pieces[i] = b.wait(onWay[i]);
      if (step + 1 < axes->ranks)
        onWay[i] = b.startShift(pieces[i], 1, *axes);
      for (auto [product, list] : llvm::zip_equal(products, blocks))
        list.push_back(ring.multiply(product, pieces[i]));
    }
  Value order = b.ranksBefore(*axes);
  for (auto [product, list] : llvm::zip_equal(products, blocks)) {
    Value all = b.cat(list, dim);
    Value result = product->getResult(0);
    Value sorted = b.indexSelect(ring.splitByRank(all, all, dim), dim, order);
    Value placed = b.viewAs(sorted, shapeOf(result), dist::getPlacement(result.getType()));
    if (dist::PlacementAttr placement = dist::getPlacement(result.getType()))
      placed = b.conform(placed, placement);
    result.replaceAllUsesWith(placed);
  }
  if (b.hasFailed())
    return failure();
  for (Operation *product : llvm::reverse(products))
    product->erase();
  for (Operation *view : views)
    view->erase();
  if (others.empty())
    gather->erase();
  else
    gather->moveBefore(*llvm::min_element(
        others, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); }));
  ++numGathers;
  return success();
}

//===----------------------------------------------------------------------===//
// A product, then reduce_scatter
//===----------------------------------------------------------------------===//

LogicalResult AsyncTP::decompose(dist::ReduceScatterOp scatter) {
  if (scatter.getInputs().size() != 1 || !isa<RankedTensorType>(scatter->getResult(0).getType()) ||
      scatter.getReduction().getKind() != dist::Reduction::Sum)
    return success();
  Value terms = scatter.getInputs()[0], result = scatter->getResult(0);
  int64_t dim = scatter.getDim();
  std::optional<Axes> axes = ringOf(scatter, terms, result, dim);
  if (!axes)
    return success();
  Operation *view = nullptr, *product = terms.getDefiningOp();
  if (product && isView(product) && terms.hasOneUse() && rankOf(product->getOperand(0)) == 2 &&
      mergesRows(terms, product->getOperand(0))) {
    view = product;
    product = view->getOperand(0).getDefiningOp();
  }
  if (!product || !rowsOperand(product) || !product->hasOneUse() ||
      !takesRows(product, product->getOperand(*rowsOperand(product))))
    return success();
  // The addend of a typed addmm is a term of the sum (P), which does not join blocks that vary; it
  // is added to the sum, as what it was before it became a term.
  Value addend;
  if (auto biased = dyn_cast<aten::AddmmOp>(product);
      biased && dist::getPlacement(biased.getSelf().getType())) {
    auto convert = biased.getSelf().getDefiningOp<dist::ConvertOp>();
    if (!convert || biased.getAlpha() || biased.getBeta() || axes->names.size() != 1 ||
        convert.getAxis() != axes->names[0] || !convert.getSource().isSameOnAllRanks())
      return success();
    addend = convert.getInput();
  }

  Value factor = product->getOperand(*rowsOperand(product));
  Ring ring(scatter, factor, scatter, *axes, scatter.getMeshAttr());
  LocalBuilder &b = ring.b;
  Value rows = b.asVarying(factor, *axes);
  Value byRank = ring.splitByRank(rows, terms, dim);
  SmallVector<Value> sums(chunks), onWay(chunks);
  for (int64_t step = 0; step < axes->ranks; ++step) {
    // What will have come to its rank after the last step.
    Value place = b.unsqueeze(b.rankBefore(step + 1, *axes), 0);
    Value mine = b.squeeze(b.indexSelect(byRank, dim, place), dim);
    for (int64_t i = 0; i < chunks; ++i) {
      sums[i] = ring.multiply(product, ring.piece(mine, dim, i, chunks), addend == nullptr);
      if (step > 0)
        sums[i] = b.add(b.wait(onWay[i]), sums[i]);
      if (step + 1 < axes->ranks)
        onWay[i] = b.startShift(sums[i], 1, *axes);
    }
  }
  Value sum = chunks == 1 ? sums[0] : b.cat(sums, dim);
  if (dist::PlacementAttr placement = dist::getPlacement(result.getType()))
    sum = b.conform(sum, placement);
  if (addend)
    sum = b.add(sum, addend);
  if (b.hasFailed())
    return failure();
  result.replaceAllUsesWith(sum);
  scatter->erase();
  if (view)
    view->erase();
  product->erase();
  ++numScatters;
  return success();
}
