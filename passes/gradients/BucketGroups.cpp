//===- BucketGroups.cpp - when gradients are ready, and which go together ----===//

#include "passes/gradients/BucketGroups.h"

#include "lib/aten/OpCost.h"
#include "lib/backward/ValueNumbering.h"
#include "lib/memory/MemoryPlan.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::gradients;

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// Finds the op that makes a gradient, and whether it communicates; then the views of what it gives
/// are not its own place but go with the contribution.
static void findProducer(GradientPath &path) {
  path.behind = path.value.getDefiningOp();
  SmallVector<Operation *> views = memory::getPrivateViews(path.value);
  Operation *producer = views.empty() ? path.behind : views.front()->getOperand(0).getDefiningOp();
  path.isBrought = isa_and_nonnull<dist::CommunicationOpInterface, dist::WaitOp>(producer);
  if (path.isBrought) {
    path.behind = producer;
    path.views = std::move(views);
  }
  // One that only starts is awaited where its value is contributed.
  auto wait = dyn_cast_or_null<dist::WaitOp>(producer);
  if (Operation *start = wait ? wait.getFuture().getDefiningOp() : nullptr;
      start && wait->hasOneUse()) {
    path.behind = start;
    path.views.insert(path.views.begin(), wait);
  }
}

namespace {
/// The ops of one function that makes gradients.
struct ProducerOps {
  unsigned order = 0; ///< of the function, in the order in which a microbatch runs them
  /// From 1, in the order of the function.
  DenseMap<Operation *, size_t> positions;
  /// Matrix products up to and with the op at each position.
  std::vector<size_t> products{0};
};
} // namespace

static DenseMap<Operation *, ProducerOps> numberOps(const train::ProgramFunctions &part) {
  DenseMap<Operation *, ProducerOps> producers;
  for (auto [order, function] : llvm::enumerate(part.getMicrobatchFunctions())) {
    ProducerOps &producer = producers[function];
    producer.order = order;
    for (Operation &op : function.front()) {
      producer.positions[&op] = producer.products.size();
      producer.products.push_back(producer.products.back() + (aten::countFlops(&op) > 0));
    }
  }
  return producers;
}

void cleave::gradients::orderByReadiness(const train::ProgramFunctions &part,
                                         std::vector<GradientPath> &paths) {
  DenseMap<Operation *, ProducerOps> producers = numberOps(part);
  auto keyOf = [&](const GradientPath &path) {
    const ProducerOps &producer = producers.find(path.producer)->second;
    return std::make_pair(producer.order, path.behind ? producer.positions.lookup(path.behind) : 0);
  };
  auto sort = [&] {
    llvm::stable_sort(
        paths, [&](const GradientPath &a, const GradientPath &b) { return keyOf(a) < keyOf(b); });
  };
  for (GradientPath &path : paths)
    findProducer(path);
  sort();

  std::vector<Operation *> later(paths.size());
  for (auto [index, path] : llvm::enumerate(paths)) {
    later[index] = path.behind;
    if (!path.isBrought)
      continue;
    const ProducerOps &producer = producers.find(path.producer)->second;
    size_t products = producer.products[producer.positions.lookup(path.behind)];
    auto next =
        std::partition_point(paths.begin() + index, paths.end(), [&](const GradientPath &other) {
          return other.producer == path.producer &&
                 producer.products[producer.positions.lookup(other.behind)] <= products;
        });
    bool isThere = next != paths.end() && next->producer == path.producer;
    later[index] =
        isThere ? next->behind : func::FuncOp(path.producer).front().getTerminator()->getPrevNode();
  }
  for (auto [path, behind] : llvm::zip_equal(paths, later))
    path.behind = behind;
  sort();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// The optimizer step that takes the gradient; null if something else, or nothing, does.
static train::OptimizerStepOpInterface findOptimizer(const GradientPath &path) {
  if (!path.reduced.hasOneUse())
    return nullptr;
  return dyn_cast<train::OptimizerStepOpInterface>(*path.reduced.getUsers().begin());
}

/// A number of an optimizer step, apart from how it lies on the mesh.
static Value skipConversions(Value number) {
  while (auto convert = number.getDefiningOp<dist::ConvertOp>())
    number = convert.getInput();
  return number;
}

std::vector<unsigned>
cleave::gradients::groupGradients(const std::vector<GradientPath> &paths,
                                  function_ref<Type(const GradientPath &)> bufferElement) {
  // Two rates are one where they are computed in the same way: passes repeat ops, and partitioning
  // converts the rate for each parameter.
  backward::ValueNumbering numbering;
  if (!paths.empty())
    numbering.add(func::FuncOp(paths.front().consumer));
  using Key = std::tuple<Operation *, Attribute, unsigned, unsigned, Type, Type, Attribute,
                         Attribute, Attribute>;
  llvm::MapVector<Key, unsigned> groups;
  std::vector<unsigned> result;
  for (const GradientPath &path : paths) {
    Builder b(path.name.getContext());
    Attribute properties;
    unsigned rate = 0, scheduled = 0;
    if (train::OptimizerStepOpInterface optimizer = findOptimizer(path)) {
      properties = b.getArrayAttr({b.getStringAttr(optimizer->getName().getStringRef()),
                                   optimizer->getPropertiesAsAttribute()});
      rate = numbering.lookup(skipConversions(optimizer.getLr()));
      if (Value number = optimizer.getScheduledNumber())
        scheduled = numbering.lookup(skipConversions(number));
    }
    Key key{path.producer,
            properties,
            rate,
            scheduled,
            path.type.getElementType(),
            bufferElement(path),
            path.mesh,
            b.getArrayAttr(path.axes),
            b.getArrayAttr(path.scatter)};
    result.push_back(groups.try_emplace(key, groups.size()).first->second);
  }
  return result;
}
