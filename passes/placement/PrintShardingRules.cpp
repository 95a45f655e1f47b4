//===- PrintShardingRules.cpp - show every compute op's sharding rule ---------===//

#include "dialects/sharding/ShardingRule.h"
#include "passes/placement/Passes.h"

#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace cleave;

namespace cleave::placement {
#define GEN_PASS_DEF_PRINTSHARDINGRULES
#include "passes/placement/Passes.h.inc"
} // namespace cleave::placement

namespace {

struct PrintShardingRules : placement::impl::PrintShardingRulesBase<PrintShardingRules> {
  using PrintShardingRulesBase::PrintShardingRulesBase;

  void runOnOperation() override {
    llvm::json::Array list;
    WalkResult result = getOperation().walk([&](sharding::ShardingRuleOpInterface op) {
      sharding::ShardingRule rule = op.getShardingRule();
      if (std::string error = rule.check(op); !error.empty()) {
        op->emitOpError("has a sharding rule that contradicts it: ") << error;
        return WalkResult::interrupt();
      }
      if (json.empty()) {
        std::string text;
        llvm::raw_string_ostream(text) << rule;
        op->emitRemark("sharding rule: ") << text;
        return WalkResult::advance();
      }
      llvm::json::Object entry{{"op", op->getName().getStringRef()}, {"rule", rule.toJSON()}};
      if (auto location = op->getLoc()->findInstanceOf<FileLineColLoc>()) {
        entry["file"] = location.getFilename().getValue();
        entry["line"] = location.getLine();
      }
      list.push_back(std::move(entry));
      return WalkResult::advance();
    });
    markAllAnalysesPreserved();
    if (result.wasInterrupted())
      return signalPassFailure();
    if (json.empty())
      return;
    std::error_code error;
    llvm::raw_fd_ostream file(json, error, llvm::sys::fs::OF_Text);
    if (!error) {
      file << llvm::json::Value(std::move(list)) << "\n";
      file.close();
      error = file.error();
      file.clear_error();
    }
    if (error) {
      getOperation().emitError("cannot write the sharding rules to '")
          << json << "': " << error.message();
      return signalPassFailure();
    }
  }
};

} // namespace
