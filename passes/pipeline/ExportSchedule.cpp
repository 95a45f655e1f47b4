//===- ExportSchedule.cpp - a schedule as a file ---------------------------===//

#include "passes/pipeline/Passes.h"

#include "lib/pipeline/Completion.h"
#include "lib/pipeline/Schedules.h"
#include "lib/schedule/model/Text.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

namespace cleave::pipeline {
#define GEN_PASS_DEF_EXPORTSCHEDULE
#include "passes/pipeline/Passes.h.inc"
} // namespace cleave::pipeline

using namespace mlir;
using namespace cleave;

namespace {
struct ExportSchedule : pipeline::impl::ExportScheduleBase<ExportSchedule> {
  using ExportScheduleBase::ExportScheduleBase;

  void runOnOperation() override {
    pipeline::ScheduleOp op = findSchedule();
    if (!op || failed(write(op)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  pipeline::ScheduleOp findSchedule() {
    ModuleOp module = getOperation();
    if (!symbol.empty()) {
      auto op = module.lookupSymbol<pipeline::ScheduleOp>(symbol);
      if (!op)
        module.emitError() << "has no pipeline.schedule named '" << symbol << "'";
      return op;
    }
    auto ops = llvm::to_vector(module.getOps<pipeline::ScheduleOp>());
    if (ops.size() == 1)
      return ops.front();
    if (ops.empty())
      module.emitError() << "has no pipeline.schedule; run --build-schedule first";
    else
      ops[1].emitOpError("is a second schedule; select one with 'symbol'");
    return {};
  }

  LogicalResult write(pipeline::ScheduleOp op) {
    if (output.empty())
      return op.emitOpError("expects a file to write to ('output'), found none");
    FailureOr<schedule::Schedule> program = pipeline::readSchedule(op);
    if (failed(program))
      return failure();
    std::error_code code;
    llvm::ToolOutputFile file(output, code, llvm::sys::fs::OF_Text);
    if (code)
      return op.emitOpError("cannot be written to '") << output << "': " << code.message();
    if (StringRef(output).ends_with(".csv")) {
      // --build-schedule adds them where it reads the file.
      pipeline::removeStageSums(*program);
      if (llvm::Error error = schedule::printCsv(*program, file.os()))
        return op.emitOpError() << llvm::toString(std::move(error));
    } else {
      schedule::printText(*program, file.os());
    }
    file.os().flush();
    if (std::error_code error = file.os().error()) {
      file.os().clear_error();
      return op.emitOpError("cannot be written to '") << output << "': " << error.message();
    }
    file.keep();
    return success();
  }
};
} // namespace
