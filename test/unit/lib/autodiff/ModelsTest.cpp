//===- ModelsTest.cpp - every claimed derivative has a rule -------------------===//

#include "dialects/Register.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/derivative/DerivativeInterface.h"
#include "lib/autodiff/Register.h"

#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace cleave;

TEST(Models, AllClaimsHaveRules) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  autodiff::registerAllModels(registry);
  llvm::Error error = autodiff::checkModels(registry);
  EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
}

TEST(Models, AClaimWithoutARuleIsAnError) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  llvm::Error error = autodiff::checkModels(registry);
  ASSERT_TRUE(bool(error));
  std::string message = llvm::toString(std::move(error));
  EXPECT_NE(message.find("claims a derivative, but no rule is attached to it"), std::string::npos)
      << message;
}

TEST(Models, RulesAreThereOnceTheDialectIs) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  autodiff::registerAllModels(registry);
  mlir::MLIRContext context(registry);
  context.loadDialect<aten::AtenDialect>();
  auto has = [&](llvm::StringRef name) {
    return mlir::OperationName(name, &context).hasInterface<autodiff::DerivativeInterface>();
  };
  EXPECT_TRUE(has("aten.exp"));
  EXPECT_FALSE(has("aten.eq"));
  EXPECT_FALSE(has("aten.gelu_backward"));
}
