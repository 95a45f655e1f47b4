//===- SplitFsdpCollectives.cpp - once per step instead of once per microbatch ---===//

#include "passes/backward/Passes.h"

#include "dialects/dist/Dist.h"
#include "lib/backward/FsdpSplit.h"

#include "llvm/Support/FormatVariadic.h"

namespace cleave::backward {
#define GEN_PASS_DEF_SPLITFSDPCOLLECTIVES
#include "passes/backward/Passes.h.inc"
} // namespace cleave::backward

using namespace mlir;
using namespace cleave;

namespace {
struct SplitFsdpCollectives : backward::impl::SplitFsdpCollectivesBase<SplitFsdpCollectives> {
  using SplitFsdpCollectivesBase::SplitFsdpCollectivesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<train::ProgramFunctions> program =
        train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program))
      return signalPassFailure();
    llvm::StringSet<> names = backward::listResultNames(*program);
    SymbolTable table(module);
    for (size_t number = 0; number < program->getParts().size(); ++number)
      if (failed(split(*program, number, names, table)))
        return signalPassFailure();
    if (failed(train::getProgram(module, train::ProgramForms::Staged)))
      signalPassFailure();
  }

  /// Splits a part of the program (`getParts`).
  LogicalResult split(const train::ProgramFunctions &program, size_t number,
                      llvm::StringSet<> &names, SymbolTable &table) {
    auto found = backward::splitFsdpCollectives(program, number, names, {unshard, reduce});
    if (failed(found))
      return failure();
    for (func::FuncOp made : {found->unshard, found->reduce})
      if (made) {
        Block::iterator place = std::next(Block::iterator(made));
        made->remove();
        table.insert(made, place);
      }
    numGathers += found->numGathers;
    numReductions += found->numReductions;
    if (explain)
      llvm::errs() << (program.isStaged() ? llvm::formatv("stage {0}\n", number).str() : "")
                   << llvm::formatv("unshard: {0} all_gathers of the microbatch, {1} bytes held "
                                    "through the step\nreduce: {2} reductions of the microbatch, "
                                    "accumulators larger by {3} bytes\n",
                                    found->numGathers, found->heldBytes, found->numReductions,
                                    found->addedBytes);
    return success();
  }
};
} // namespace
