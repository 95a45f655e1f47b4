//===- Fixture.h - ops to ask for their sharding rules ----------------*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_DIALECTS_SHARDING_FIXTURE_H
#define CLEAVE_TEST_UNIT_DIALECTS_SHARDING_FIXTURE_H

#include "dialects/aten/Aten.h"
#include "dialects/sharding/RuleText.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

namespace cleave::sharding {

class ShardingTest : public testing::Test {
protected:
  ShardingTest() { context.loadDialect<aten::AtenDialect, mlir::func::FuncDialect>(); }

  /// The first op of a function with these arguments and this body.
  mlir::Operation *parse(const std::string &arguments, const std::string &body) {
    module = mlir::parseSourceString<mlir::ModuleOp>(
        "func.func @f(" + arguments + ") {\n" + body + "\n  return\n}\n", &context);
    EXPECT_TRUE(module);
    return module ? &(*module->getOps<mlir::func::FuncOp>().begin()).front().front() : nullptr;
  }
  mlir::Operation *parseMm() {
    return parse("%a: tensor<4x8xf32>, %b: tensor<8x6xf32>",
                 "%0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>");
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

inline std::string text(const ShardingRule &rule) {
  std::string result;
  llvm::raw_string_ostream(result) << rule;
  return result;
}

} // namespace cleave::sharding

#endif // CLEAVE_TEST_UNIT_DIALECTS_SHARDING_FIXTURE_H
