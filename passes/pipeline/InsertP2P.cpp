//===- InsertP2P.cpp - sends and receives ----------------------------------===//

#include "passes/pipeline/Passes.h"

#include "lib/pipeline/Schedules.h"
#include "lib/schedule/model/P2P.h"
#include "passes/pipeline/Options.h"

#include "mlir/IR/Builders.h"

namespace cleave::pipeline {
#define GEN_PASS_DEF_INSERTP2P
#include "passes/pipeline/Passes.h.inc"
} // namespace cleave::pipeline

using namespace mlir;
using namespace cleave;

namespace {
struct InsertP2P : pipeline::impl::InsertP2PBase<InsertP2P> {
  using InsertP2PBase::InsertP2PBase;

  void runOnOperation() override {
    FailureOr<schedule::P2POptions> options = readOptions();
    if (failed(options))
      return signalPassFailure();
    auto ops = llvm::to_vector(getOperation().getOps<pipeline::ScheduleOp>());
    if (ops.empty()) {
      getOperation().emitError() << "has no pipeline.schedule; run --build-schedule first";
      return signalPassFailure();
    }
    for (pipeline::ScheduleOp op : ops)
      if (failed(insert(op, *options)))
        return signalPassFailure();
  }

  FailureOr<schedule::P2POptions> readOptions() {
    ModuleOp module = getOperation();
    schedule::P2POptions options;
    FailureOr<schedule::CommModel> model =
        pipeline::readModel(module, matching, streams, receiveSlots, sendSlots);
    if (failed(model))
      return failure();
    options.model = *model;
    options.recvStart = receives;
    constexpr int64_t kMaxCost = 1 << 20;
    auto readCost = [&](StringRef name, int64_t value, unsigned &cost) {
      cost = static_cast<unsigned>(value);
      return pipeline::expectCount(module, name, value, 0, kMaxCost);
    };
    if (failed(readCost("forward-cost", forwardCost, options.forwardCost)) ||
        failed(readCost("backward-cost", backwardCost, options.backwardCost)) ||
        failed(readCost("input-cost", inputCost, options.inputCost)) ||
        failed(readCost("weight-cost", weightCost, options.weightCost)))
      return failure();
    if (!(transferCost >= 0 && transferCost <= double(kMaxCost)))
      return module.emitError() << "expects from 0 to " << kMaxCost
                                << " for 'transfer-cost', found " << transferCost;
    options.transferCost = transferCost;
    return options;
  }

  LogicalResult insert(pipeline::ScheduleOp op, const schedule::P2POptions &options) {
    if (op.hasTransfers())
      return op.emitOpError("already has explicit transfers");
    FailureOr<schedule::Schedule> compute = pipeline::readSchedule(op);
    if (failed(compute))
      return failure();
    auto program = schedule::insertP2P(*compute, options);
    if (!program)
      return op.emitOpError() << llvm::toString(program.takeError());
    OpBuilder b(op);
    auto made = pipeline::ScheduleOp::create(b, op.getLoc(), op.getSymName(), *program,
                                             pipeline::Transfers::Explicit);
    made.setAxisAttr(op.getAxisAttr());
    made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    op.erase();
    // One more action for each end of a transfer.
    numTransfers += (program->numActions() - compute->numActions()) / 2;
    return success();
  }
};
} // namespace
