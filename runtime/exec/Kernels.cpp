//===- Kernels.cpp - the table of ops with a kernel of their own -------------===//

#include "runtime/exec/Kernels.h"
#include "dialects/aten/ops/Call.h"
#include "dialects/aten/ops/Random.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"
#include "dialects/train/Train.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::runtime;

namespace {
class KernelTable {
public:
  template <typename... Ops> void add(Kernel kernel) {
    (table.try_emplace(TypeID::get<Ops>(), kernel), ...);
  }

  const Kernel *find(Operation *op) const {
    auto found = table.find(op->getName().getTypeID());
    return found == table.end() ? nullptr : &found->second;
  }

private:
  llvm::DenseMap<TypeID, Kernel> table;
};
} // namespace

static KernelTable makeTable() {
  KernelTable table;
  table.add<train::AccumulateOp>({bindAccumulate});
  table.add<aten::ItemOp>({bindItem});
  table.add<train::LearningRateOp>({bindLearningRate});
  table.add<train::HyperparameterOp>({bindHyperparameter});
  table.add<train::AdamWOp>({bindAdamW, batchesOptimizerSteps});
  table.add<train::SGDOp>({bindSGD, batchesOptimizerSteps});
  table.add<train::ContributeOp>({bindContribute});
  table.add<train::ContributeMmOp>({bindContributeMm});
  table.add<train::ReduceBucketOp>({bindReduceBucket});
  table.add<train::WaitBucketOp>({bindWaitBucket});
  table.add<dist::AxisIndexOp>({bindAxisIndex});
  table.add<dist::ConvertOp>({bindConvert});
  table.add<dist::FakeBroadcastOp, dist::ReinterpretOp>({bindAlias});
  table.add<dist::FakeScatterOp>({bindFakeScatter});
  table.add<dist::WaitOp>({bindWait});
  table.add<dist::OffloadOp>({bindOffload});
  table.add<dist::ReloadOp>({bindReload});
  table.add<aten::RngNativeDropoutOp>({bindRngNativeDropout});
  table.add<aten::RngBernoulliOp>({bindRngBernoulli});
  table.add<aten::RngUniformOp>({bindRngUniform});
  table.add<aten::RngNormalOp>({bindRngNormal});
  table.add<aten::RngExponentialOp>({bindRngExponential});
  table.add<aten::RngRandintOp>({bindRngRandint});
  table.add<aten::RngRandpermOp>({bindRngRandperm});
  table.add<aten::RngMultinomialOp>({bindRngMultinomial});
  table.add<exec::LaunchOp>({bindLaunch});
  table.add<exec::RecordOp>({bindRecord});
  table.add<exec::WaitOp>({bindWaitEvent});
  return table;
}

const Kernel *cleave::runtime::findKernel(Operation *op) {
  static const Kernel communication{bindCommunication};
  static const KernelTable table = makeTable();
  return isa<dist::CommunicationOpInterface>(op) ? &communication : table.find(op);
}
