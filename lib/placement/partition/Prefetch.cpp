//===- Prefetch.cpp - parameters gathered ahead of their use -----------------===//

#include "lib/placement/partition/Prefetch.h"

#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"

using namespace mlir;
using namespace cleave;

static bool gathersParameter(dist::AllGatherOp gather) {
  if (gather.getInputs().size() != 1)
    return false;
  auto argument = dyn_cast<BlockArgument>(gather.getInputs().front());
  if (!argument)
    return false;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
  return role && role.getKind() == train::RoleKind::Parameter;
}

void placement::prefetchParameters(func::FuncOp function, unsigned distance) {
  if (distance == 0)
    return;
  SmallVector<dist::AllGatherOp> gathers;
  for (auto gather : function.getOps<dist::AllGatherOp>())
    if (gathersParameter(gather))
      gathers.push_back(gather);
  OpBuilder builder(function.getContext());
  SmallVector<Operation *> waits;
  /// The first op that is not a start: starts keep their order.
  Operation *front = &function.front().front();
  for (auto [i, gather] : llvm::enumerate(gathers)) {
    Value result = gather.getResult(0);
    builder.setInsertionPointAfter(gather);
    auto wait = dist::WaitOp::create(builder, gather.getLoc(), result.getType(), result);
    if (Attribute mark = gather->getAttr(train::kBackwardAttrName))
      wait->setAttr(train::kBackwardAttrName, mark);
    result.replaceAllUsesExcept(wait, wait);
    result.setType(dist::FutureType::get(result.getType()));
    if (front == gather)
      front = wait;
    else
      gather->moveBefore(i < distance ? front : waits[i - distance]);
    waits.push_back(wait);
  }
}
