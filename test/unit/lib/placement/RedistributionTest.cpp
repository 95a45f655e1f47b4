//===- RedistributionTest.cpp - plans are legal, and none sends less ---------===//
//
// Against another search: relaxation of all legal steps until nothing gets cheaper, with what is
// legal looked up in the table of transitions. And each plan's ops, built, must verify.
//
//===----------------------------------------------------------------------===//

#include "lib/placement/Redistribution.h"

#include "dialects/dist/Transitions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

namespace {

using State = SmallVector<AxisPlacement, 2>;
using Cost = std::tuple<int64_t, unsigned, unsigned>;

class Relaxation;

class Redistributions : public testing::Test {
protected:
  Redistributions() {
    context.loadDialect<dist::DistDialect, func::FuncDialect>();
    context.printOpOnDiagnostic(false);
  }

  SmallVector<MeshAxis> axes(ArrayRef<int64_t> sizes) {
    SmallVector<MeshAxis> list;
    for (auto [i, size] : llvm::enumerate(sizes))
      list.push_back({StringAttr::get(&context, std::string(1, char('a' + i))), size});
    return list;
  }
  RankedTensorType tensor(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, Float32Type::get(&context));
  }
  /// All placements of a tensor of this rank on `count` axes, with every order of shards.
  std::vector<State> states(unsigned count, int64_t rank);
  void expectLegal(RankedTensorType type, const State &from, const State &to,
                   ArrayRef<MeshAxis> axes, const Redistribution &plan);
  void expectLegalAndCheapest(RankedTensorType type, const State &from, const State &to,
                              ArrayRef<MeshAxis> axes, RedistributionPlanner &planner,
                              Relaxation &relaxation);

  MLIRContext context;
};

std::string text(const State &state) {
  std::string result;
  for (const AxisPlacement &p : state)
    result += dist::toString(p, /*withOrder=*/true) + " ";
  return result;
}

/// Whether the orders of each dimension are 0, 1, ...
bool hasOrders(const State &state) {
  for (const AxisPlacement &p : state) {
    int64_t count = 0, sum = 0;
    for (const AxisPlacement &q : state)
      if (p.isShard() && q.isShard(p.dim)) {
        sum += 1 << (4 * q.order);
        count += 1;
      }
    for (int64_t order = 0; order < count; ++order)
      sum -= 1 << (4 * order);
    if (sum != 0)
      return false;
  }
  return true;
}

std::vector<State> Redistributions::states(unsigned count, int64_t rank) {
  std::vector<AxisPlacement> one = {AxisPlacement::replicate(), AxisPlacement::partial()};
  for (int64_t dim = 0; dim < rank; ++dim)
    for (unsigned order = 0; order < count; ++order)
      one.push_back(AxisPlacement::shard(dim, order));
  std::vector<State> all = {{}};
  for (unsigned axis = 0; axis < count; ++axis) {
    std::vector<State> longer;
    for (const State &state : all)
      for (const AxisPlacement &p : one) {
        longer.push_back(state);
        longer.back().push_back(p);
      }
    all = std::move(longer);
  }
  llvm::erase_if(all, [](const State &state) { return !hasOrders(state); });
  return all;
}

//===----------------------------------------------------------------------===//
// The other search
//===----------------------------------------------------------------------===//

class Relaxation {
public:
  Relaxation(RankedTensorType type, ArrayRef<MeshAxis> axes, const std::vector<State> &states)
      : type(type), axes(axes), states(states) {}

  /// The cost from `from` to `to`.
  std::optional<Cost> run(const State &from, const State &to);

private:
  int64_t bytes(const State &state) const {
    int64_t elements = type.getNumElements();
    for (auto [p, axis] : llvm::zip_equal(state, axes))
      if (p.isShard())
        elements /= axis.size;
    return elements * 4;
  }
  std::optional<Cost> step(const State &a, const State &b, const State &from,
                           const State &to) const;

  RankedTensorType type;
  ArrayRef<MeshAxis> axes;
  const std::vector<State> &states;
};

/// What one op from `a` to `b` costs; nothing if there is none.
std::optional<Cost> Relaxation::step(const State &a, const State &b, const State &from,
                                     const State &to) const {
  SmallVector<unsigned> moved;
  for (unsigned axis = 0; axis < axes.size(); ++axis)
    if (a[axis] != b[axis])
      moved.push_back(axis);
  if (moved.empty())
    return std::nullopt;
  AxisPlacement source = a[moved[0]], destination = b[moved[0]];
  int64_t ranks = 1;
  for (unsigned axis : moved) {
    // One transition on all axes of the op, of shards of one dimension.
    if (a[axis].kind != source.kind || b[axis].kind != destination.kind ||
        (source.isShard() && !a[axis].isShard(source.dim)) ||
        (destination.isShard() && !b[axis].isShard(destination.dim)))
      return std::nullopt;
    // What the planner leaves out on purpose: axes that have no part in the question, and pending
    // sums that were not requested.
    if (from[axis].isReplicate() && to[axis].isReplicate())
      return std::nullopt;
    if (b[axis].isPartial() && !to[axis].isPartial())
      return std::nullopt;
    ranks *= axes[axis].size;
  }
  // Shards come and go as the minor ones, and keep their order among each other.
  auto isMinor = [&](const State &state, AxisPlacement p) {
    for (unsigned axis = 0; axis < axes.size(); ++axis)
      if (!llvm::is_contained(moved, axis) && state[axis].isShard(p.dim))
        for (unsigned other : moved)
          if (state[axis].order > state[other].order)
            return false;
    return true;
  };
  if ((source.isShard() && !isMinor(a, source)) ||
      (destination.isShard() && !isMinor(b, destination)))
    return std::nullopt;
  if (source.isShard() && destination.isShard())
    for (unsigned x : moved)
      for (unsigned y : moved)
        if ((a[x].order < a[y].order) != (b[x].order < b[y].order))
          return std::nullopt;
  auto can = [&](StringRef op) {
    return dist::findTransition(op, source.kind, destination.kind) != nullptr;
  };
  int64_t local = bytes(a);
  int64_t part = llvm::divideCeil(local * (ranks - 1), ranks);
  if (can("convert") && moved.size() == 1)
    return Cost(0, 0, 1);
  if (can("all_reduce"))
    return Cost(2 * part, 1, 1);
  if (can("reduce_scatter") || (can("all_to_all") && source.dim != destination.dim))
    return Cost(part, 1, 1);
  if (can("all_gather"))
    return Cost(local * (ranks - 1), 1, 1);
  return std::nullopt;
}

std::optional<Cost> Relaxation::run(const State &from, const State &to) {
  std::vector<std::optional<Cost>> best(states.size());
  auto plus = [](Cost a, Cost b) {
    return Cost(std::get<0>(a) + std::get<0>(b), std::get<1>(a) + std::get<1>(b),
                std::get<2>(a) + std::get<2>(b));
  };
  for (unsigned i = 0; i < states.size(); ++i)
    if (states[i] == from)
      best[i] = Cost(0, 0, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned i = 0; i < states.size(); ++i)
      for (unsigned j = 0; best[i] && j < states.size(); ++j) {
        if (!localShape(type.getShape(), states[j], axes))
          continue;
        std::optional<Cost> edge = step(states[i], states[j], from, to);
        if (edge && (!best[j] || plus(*best[i], *edge) < *best[j])) {
          best[j] = plus(*best[i], *edge);
          changed = true;
        }
      }
  }
  for (unsigned i = 0; i < states.size(); ++i)
    if (states[i] == to)
      return best[i];
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Legal
//===----------------------------------------------------------------------===//

/// The plan's ops verify, and end in the wanted type.
void Redistributions::expectLegal(RankedTensorType type, const State &from, const State &to,
                                  ArrayRef<MeshAxis> axes, const Redistribution &plan) {
  OpBuilder builder(&context);
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToStart(module->getBody());
  SmallVector<Attribute> axisAttributes;
  for (const MeshAxis &axis : axes)
    axisAttributes.push_back(dist::AxisAttr::get(&context, axis.name.getValue(), axis.size));
  dist::MeshOp::create(builder, loc, "mesh", builder.getArrayAttr(axisAttributes));
  auto localType = [&](const State &state) {
    SmallVector<dist::AxisEntry> entries;
    for (auto [axis, p] : llvm::zip_equal(axes, state))
      entries.push_back({axis.name, p});
    return RankedTensorType::get(
        *localShape(type.getShape(), state, axes), type.getElementType(),
        dist::PlacementAttr::get(FlatSymbolRefAttr::get(&context, "mesh"), entries));
  };
  RankedTensorType source = localType(from), destination = localType(to);
  auto function =
      func::FuncOp::create(builder, loc, "f", builder.getFunctionType({source}, {destination}));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  Value value =
      buildRedistribution(builder, loc, body->getArgument(0), type.getShape(), plan, axes);
  EXPECT_EQ(value.getType(), destination) << text(from) << "to " << text(to);
  func::ReturnOp::create(builder, loc, value);
  EXPECT_TRUE(succeeded(verify(*module))) << text(from) << "to " << text(to);
}

/// There is a plan if and only if the relaxation finds a way, and it costs as little.
void Redistributions::expectLegalAndCheapest(RankedTensorType type, const State &from,
                                             const State &to, ArrayRef<MeshAxis> axes,
                                             RedistributionPlanner &planner,
                                             Relaxation &relaxation) {
  const Redistribution *plan = planner.plan(type, from, to);
  std::optional<Cost> best = relaxation.run(from, to);
  ASSERT_EQ(plan != nullptr, best.has_value()) << text(from) << "to " << text(to);
  if (!plan)
    return;
  EXPECT_EQ(Cost(plan->bytes, plan->collectives, plan->steps.size()), *best)
      << text(from) << "to " << text(to);
  expectLegal(type, from, to, axes, *plan);
}

TEST_F(Redistributions, OnTwoAxesAreLegalAndCheapest) {
  for (const SmallVector<int64_t> &sizes :
       {SmallVector<int64_t>{2, 2}, SmallVector<int64_t>{2, 4}}) {
    SmallVector<MeshAxis> mesh = axes(sizes);
    RankedTensorType type = tensor({16, 24});
    std::vector<State> all = states(2, 2);
    RedistributionPlanner planner(mesh);
    Relaxation relaxation(type, mesh, all);
    for (const State &from : all)
      for (const State &to : all) {
        ASSERT_NO_FATAL_FAILURE(expectLegalAndCheapest(type, from, to, mesh, planner, relaxation));
      }
  }
}

TEST_F(Redistributions, OnThreeAxesAreLegalAndCheapest) {
  SmallVector<MeshAxis> mesh = axes({2, 3, 2});
  RankedTensorType type = tensor({24, 36});
  std::vector<State> all = states(3, 2);
  RedistributionPlanner planner(mesh);
  Relaxation relaxation(type, mesh, all);
  std::mt19937 random(5);
  for (int i = 0; i < 40; ++i) {
    const State &from = all[random() % all.size()], &to = all[random() % all.size()];
    ASSERT_NO_FATAL_FAILURE(expectLegalAndCheapest(type, from, to, mesh, planner, relaxation));
  }
}

TEST_F(Redistributions, AreThoseThatAnExpertWrites) {
  using Kind = RedistributionStep::Kind;
  SmallVector<MeshAxis> mesh = axes({2, 4});
  RankedTensorType type = tensor({64, 64});
  RedistributionPlanner planner(mesh);
  AxisPlacement r = AxisPlacement::replicate(), p = AxisPlacement::partial(),
                s0 = AxisPlacement::shard(0), s1 = AxisPlacement::shard(1);
  auto kinds = [&](State from, State to) {
    std::vector<Kind> list;
    const Redistribution *plan = planner.plan(type, from, to);
    EXPECT_NE(plan, nullptr);
    if (plan)
      for (const RedistributionStep &step : plan->steps)
        list.push_back(step.kind);
    return list;
  };
  using Kinds = std::vector<Kind>;
  EXPECT_EQ(kinds({p, p}, {r, r}), Kinds{Kind::AllReduce});
  // Hybrid sharding: the part is summed over the other axis, not the whole.
  EXPECT_EQ(kinds({p, p}, {r, s0}), (Kinds{Kind::ReduceScatter, Kind::AllReduce}));
  EXPECT_EQ(kinds({r, s0}, {r, s1}), Kinds{Kind::AllToAll});
  EXPECT_EQ(kinds({r, r}, {s0, s1}), (Kinds{Kind::Convert, Kind::Convert}));
  EXPECT_EQ(kinds({AxisPlacement::shard(0, 0), AxisPlacement::shard(0, 1)}, {r, r}),
            Kinds{Kind::AllGather});
  // The minor one goes first, and alone.
  EXPECT_EQ(kinds({AxisPlacement::shard(0, 0), AxisPlacement::shard(0, 1)}, {s0, r}),
            Kinds{Kind::AllGather});
  EXPECT_EQ(kinds({s0, p}, {s0, p}), Kinds{});
  // What is replicated and stays so takes no part.
  EXPECT_EQ(kinds({r, p}, {r, r}), Kinds{Kind::AllReduce});
}

TEST_F(Redistributions, SumsOverTwoAxesSendOnce) {
  SmallVector<MeshAxis> mesh = axes({2, 4});
  AxisPlacement r = AxisPlacement::replicate(), p = AxisPlacement::partial();
  // A ring over 8 ranks: 2 * 7/8 of 4 KiB.
  EXPECT_EQ(redistributionCost(tensor({1024}), {p, p}, {r, r}, mesh), 7168);
  EXPECT_EQ(redistributionCost(tensor({1024}), {r, r}, {r, r}, mesh), 0);
}

TEST_F(Redistributions, HasNoWayToUnevenPartsAndPendingProducts) {
  SmallVector<MeshAxis> mesh = axes({2});
  RedistributionPlanner planner(mesh);
  EXPECT_EQ(planner.plan(tensor({3}), {AxisPlacement::replicate()}, {AxisPlacement::shard(0)}),
            nullptr);
  EXPECT_EQ(planner.plan(tensor({4}), {AxisPlacement::replicate()},
                         {AxisPlacement::partial(dist::Reduction::Product)}),
            nullptr);
  const Redistribution *plan = planner.plan(
      tensor({4}), {AxisPlacement::partial(dist::Reduction::Max)}, {AxisPlacement::partial()});
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->collectives, 1u);
  expectLegal(tensor({4}), {AxisPlacement::partial(dist::Reduction::Max)},
              {AxisPlacement::partial()}, mesh, *plan);
  plan = planner.plan(tensor({4}), {AxisPlacement::replicate()},
                      {AxisPlacement::partial(dist::Reduction::Avg)});
  ASSERT_NE(plan, nullptr);
  expectLegal(tensor({4}), {AxisPlacement::replicate()},
              {AxisPlacement::partial(dist::Reduction::Avg)}, mesh, *plan);
}

} // namespace
