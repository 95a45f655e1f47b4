//===- LowerToExec.cpp - decide memory and streams ---------------------------===//

#include "dialects/aten/Aten.h"
#include "dialects/train/Program.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/plan/Lower.h"
#include "lib/memory/plan/Plot.h"
#include "lib/memory/verify/Verify.h"
#include "passes/lowering/Passes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave::lowering {
#define GEN_PASS_DEF_LOWERTOEXEC
#include "passes/lowering/Passes.h.inc"
} // namespace cleave::lowering

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

namespace {

class LowerToExec : public lowering::impl::LowerToExecBase<LowerToExec> {
public:
  using LowerToExecBase::LowerToExecBase;

  void runOnOperation() override;

private:
  FailureOr<LoweringOptions> readOptions();
  LogicalResult checkContents(func::FuncOp function);
  /// Fails where a launch's kernel is compiled, but not for the chip. `checked`: kernels without
  /// fault so far.
  LogicalResult checkLaunch(LaunchOp launch, llvm::DenseSet<Attribute> &checked);
  LogicalResult writePlot(const ArenaPlot &picture);
  void count(func::FuncOp function, const LoweringSummary &summary);
};

} // namespace

FailureOr<LoweringOptions> LowerToExec::readOptions() {
  ModuleOp module = getOperation();
  LoweringOptions options;
  if (target != "cpu" && target != "cuda")
    return module.emitError() << "--lower-to-exec expects target=cpu or target=cuda, found '"
                              << target << "'";
  if (target == "cpu") {
    if (!chip.empty())
      return module.emitError() << "--lower-to-exec expects no chip with target=cpu, found '"
                                << chip << "'";
    return options;
  }
  StringRef name = chip;
  if (!name.consume_front("sm_") || name.empty() || !llvm::isDigit(name.front()) ||
      !llvm::all_of(name, llvm::isAlnum))
    return module.emitError()
           << "--lower-to-exec expects chip=sm_90 or another with target=cuda, found '" << chip
           << "'";
  options.target = Family::Cuda;
  options.chip = chip;
  // What cudaMalloc and c10's allocator align to.
  options.alignment = 512;
  return options;
}

/// A kernel that has been compiled has code for the chip, or it would silently run op by op.
LogicalResult LowerToExec::checkLaunch(LaunchOp launch, llvm::DenseSet<Attribute> &checked) {
  if (!checked.insert(launch.getKernelAttr()).second)
    return success();
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
  ArrayAttr code = kernel.getCodeAttr();
  if (!code || code.empty())
    return success();
  bool hasCode = llvm::any_of(code.getAsRange<CodeAttr>(),
                              [](CodeAttr each) { return each.getFamily() == Family::Cuda; });
  bool hasBinary = llvm::any_of(getOperation().getOps<BinaryOp>(),
                                [&](BinaryOp each) { return each.getTarget() == chip; });
  if (hasCode && hasBinary)
    return success();
  InFlightDiagnostic diagnostic = launch.emitOpError() << "expects code for chip " << chip
                                                       << ", as its kernel is compiled";
  diagnostic.attachNote() << "run --compile-kernels=\"cuda=" << chip << "\" before --lower-to-exec";
  return diagnostic;
}

/// What a CUDA program cannot contain.
LogicalResult LowerToExec::checkContents(func::FuncOp function) {
  llvm::DenseSet<Attribute> checked;
  for (Operation &op : function.front()) {
    if (auto launch = dyn_cast<LaunchOp>(op); launch && failed(checkLaunch(launch, checked)))
      return failure();
    if (auto random = dyn_cast<aten::RandomOpInterface>(op);
        random && random.getGenerator() == aten::Generator::Mt19937)
      return op.emitOpError()
             << "draws from PyTorch's sequential CPU generator, which CUDA devices do not have; "
                "export the program with generator=\"philox\"";
  }
  return success();
}

void LowerToExec::count(func::FuncOp function, const LoweringSummary &summary) {
  inArena += summary.inArena;
  inFrame += summary.inFrame;
  inPlace += summary.inPlace;
  sharing += summary.shared;
  apartOutliving += summary.apart[Buffer::Outlives];
  apartOther += summary.apart[Buffer::Host] + summary.apart[Buffer::Empty];
  numEvents += summary.events;
  if (!explain)
    return;
  auto describe = [](int64_t bytes) { return memory::describeBytes(bytes); };
  auto waste = [](int64_t bytes, int64_t lowerBound) {
    return bytes ? 100.0 * double(bytes - lowerBound) / double(bytes) : 0.0;
  };
  std::string frame;
  if (summary.frameBytes)
    frame =
        llvm::formatv("frame {0}, {1:f1} % more; {2} results in it; ", describe(summary.frameBytes),
                      waste(summary.frameBytes, summary.frameLowerBound), summary.inFrame);
  function.emitRemark() << llvm::formatv(
      "{0}: arena {1}, {2:f1} % above the peak of live values; {3} results in it, {4} in "
      "place of an operand, {5} views and tied values; {6}on the heap: {7} that outlive the "
      "function "
      "({8}), {9} others; {10} events",
      function.getName(), describe(summary.arenaBytes),
      waste(summary.arenaBytes, summary.lowerBound), summary.inArena, summary.inPlace,
      summary.shared - summary.inPlace, frame, summary.apart[Buffer::Outlives],
      describe(summary.apartBytes[Buffer::Outlives]),
      summary.apart[Buffer::Host] + summary.apart[Buffer::Empty], summary.events);
}

LogicalResult LowerToExec::writePlot(const ArenaPlot &picture) {
  std::error_code error;
  llvm::raw_fd_ostream file(plot, error);
  if (!error) {
    file << picture.str();
    file.close();
    error = file.error();
    file.clear_error();
  }
  if (error)
    return getOperation().emitError()
           << "--lower-to-exec cannot write plot '" << plot << "': " << error.message();
  return success();
}

void LowerToExec::runOnOperation() {
  FailureOr<LoweringOptions> options = readOptions();
  if (failed(options))
    return signalPassFailure();
  if (options->target == Family::Cuda)
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(train::kPhaseAttrName) && llvm::hasSingleElement(function.getBody()) &&
          failed(checkContents(function)))
        return signalPassFailure();
  ArenaPlot picture;
  lowerProgram(
      getOperation(), *options, plot.empty() ? nullptr : &picture,
      [&](func::FuncOp function, const LoweringSummary &summary) { count(function, summary); });
  if (failed(verifyLowered(getOperation())) || (!plot.empty() && failed(writePlot(picture))))
    signalPassFailure();
}
