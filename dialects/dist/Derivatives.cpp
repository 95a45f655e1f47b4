//===- Derivatives.cpp - which dist ops have a derivative ---------------------===//

#include "dialects/dist/Derivatives.h"
#include "dialects/derivative/DerivativeInterface.h"
#include "dialects/dist/Dist.h"

using namespace cleave::dist;

void cleave::dist::claimDerivatives(DistDialect &dialect) {
  dialect.declarePromisedInterfaces<autodiff::DerivativeInterface, AllReduceOp, ReduceScatterOp,
                                    ReduceOp, AllGatherOp, BroadcastOp, AllToAllOp,
                                    RaggedAllToAllOp, GatherOp, ScatterOp, PermuteOp, ShiftOp,
                                    WaitOp, OffloadOp, ReloadOp, ConvertOp, ReinterpretOp,
                                    FakeBroadcastOp, FakeReduceOp, FakeScatterOp, FakeGatherOp>();
}
