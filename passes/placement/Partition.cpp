//===- Partition.cpp - the pass from placed to local programs ----------------===//

#include "lib/placement/partition/Partition.h"
#include "passes/placement/Passes.h"

#include "dialects/aten/Aten.h"

using namespace cleave;

namespace cleave::placement {
#define GEN_PASS_DEF_PARTITION
#include "passes/placement/Passes.h.inc"
} // namespace cleave::placement

namespace {

struct Partition : placement::impl::PartitionBase<Partition> {
  using PartitionBase::PartitionBase;

  void runOnOperation() override {
    if (failed(placement::partition(
            getOperation(), {.fsdpReshard = fsdpReshard, .prefetch = prefetch, .uneven = uneven})))
      signalPassFailure();
  }
};

} // namespace
