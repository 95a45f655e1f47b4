//===- AssignByCost.cpp - stages of even costs between which little crosses ---===//

#include "dialects/dist/Dist.h"
#include "lib/aten/OpCost.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/pipeline/Balance.h"
#include "lib/pipeline/StageAssignment.h"

using namespace mlir;
using namespace cleave::pipeline;
namespace dist = cleave::dist;
namespace memory = cleave::memory;
namespace aten = cleave::aten;
namespace cost = cleave::cost;

/// Whether a pending sum crosses with a value of this type: it is one itself, or its gradient is,
/// as those of replicated values are.
static bool isPendingAcross(Type type) {
  dist::PlacementAttr placement = dist::getPlacement(type);
  auto tensor = dyn_cast<RankedTensorType>(type);
  return placement && llvm::any_of(placement.getEntries(), [&](const dist::AxisEntry &entry) {
           return entry.placement.isPartial() ||
                  (entry.placement.isReplicate() &&
                   isa<FloatType, ComplexType>(tensor.getElementType()));
         });
}

double StageAssignment::costOf(Operation *op) const {
  return cluster ? aten::estimateSeconds(op, *cluster) : aten::estimateCost(op);
}

LogicalResult StageAssignment::placeByCost(const StageRequest &request) {
  func::FuncOp function = graph.getFunction();
  if (!request.cluster.empty()) {
    llvm::Expected<cost::Cluster> read = cost::Library::readCluster(request.cluster);
    if (!read)
      return function->getParentOp()->emitError(llvm::toString(read.takeError()));
    if (failed(aten::checkRates(function, *read)))
      return failure();
    cluster = std::move(*read);
  }
  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, size_t> places;
  std::vector<double> opCosts;
  for (Operation &op : function.front().without_terminator()) {
    if (!isPlaced(&op))
      continue;
    places[&op] = ops.size();
    ops.push_back(&op);
    opCosts.push_back(costOf(&op));
  }
  // Bytes that are alive before each op: what a cut there would send. Pending sums come last: all
  // ranks' terms would travel, and each be added later.
  double pending = 1;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      pending += static_cast<double>(memory::getByteSize(result.getType()));
  std::vector<double> changes(ops.size() + 1);
  std::vector<int> started(ops.size() + 1); // begins and ends of what is in flight
  for (auto [place, op] : llvm::enumerate(ops))
    for (Value result : op->getResults()) {
      size_t last = place;
      for (Operation *user : result.getUsers())
        if (auto found = places.find(user); found != places.end())
          last = std::max(last, found->second);
      double bytes = static_cast<double>(memory::getByteSize(result.getType())) +
                     (isPendingAcross(result.getType()) ? pending : 0);
      if (last > place) {
        changes[place + 1] += bytes;
        changes[last + 1] -= bytes;
        if (isa<dist::FutureType>(result.getType())) {
          ++started[place + 1];
          --started[last + 1];
        }
      }
    }
  // A collective ends in the stage that starts it: what lies between is not cut.
  std::vector<size_t> begins;
  std::vector<double> costsOfRuns, boundary;
  double alive = 0;
  int inFlight = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    alive += changes[i];
    inFlight += started[i];
    if (inFlight == 0) {
      begins.push_back(i);
      costsOfRuns.push_back(0);
      boundary.push_back(alive);
    }
    costsOfRuns.back() += opCosts[i];
  }
  int64_t count = request.count;
  if (count > static_cast<int64_t>(begins.size()))
    return function.emitError() << "has " << begins.size()
                                << " ops in its forward to divide into stages, fewer than the "
                                << count << " stages requested";
  SmallVector<Operation *> beginnings;
  for (size_t begin : balance(costsOfRuns, boundary, static_cast<size_t>(count), request.slack))
    beginnings.push_back(ops[begins[begin]]);
  placeInOrder(beginnings);
  return success();
}
