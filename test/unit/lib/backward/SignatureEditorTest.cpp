//===- SignatureEditorTest.cpp - signatures changed all at once ---------------===//

#include "lib/backward/SignatureEditor.h"

#include "dialects/aten/Aten.h"
#include "lib/backward/PhaseFunction.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace cleave;
using backward::SignatureEditor;
using train::RoleKind;

namespace {
struct Editor : testing::Test {
  Editor() {
    context.loadDialect<func::FuncDialect, aten::AtenDialect, train::TrainDialect>();
    module = parseSourceString<ModuleOp>(R"(
      func.func private @f(
          %v: tensor<4xf32> {train.role = #train.role<parameter "v">},
          %w: tensor<4xf32> {train.role = #train.role<parameter "w">},
          %m: tensor<4xf32> {train.role = #train.role<optimizer_state "w" slot "m">},
          %n: tensor<4xf32> {train.role = #train.role<optimizer_state "w" slot "n">})
          -> (tensor<4xf32> {train.role = #train.role<saved "a">},
              tensor<4xf32> {train.role = #train.role<saved "b">}) {
        %0 = aten.exp(%w) : (tensor<4xf32>) -> tensor<4xf32>
        return %w, %0 : tensor<4xf32>, tensor<4xf32>
      })",
                                         &context);
  }
  func::FuncOp get() { return *module->getOps<func::FuncOp>().begin(); }
  StringAttr name(StringRef text) { return StringAttr::get(&context, text); }
  train::RoleAttr role(RoleKind kind, StringRef text) {
    return train::RoleAttr::get(&context, kind, text);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};
} // namespace

TEST_F(Editor, FindsByRole) {
  ASSERT_TRUE(module);
  SignatureEditor editor(get());
  EXPECT_EQ(editor.findArgument(RoleKind::Parameter, name("w")), get().getArgument(1));
  // Of states of one parameter, the first.
  EXPECT_EQ(editor.findArgument(RoleKind::OptimizerState, name("w")), get().getArgument(2));
  EXPECT_FALSE(editor.findArgument(RoleKind::Parameter, name("a")));
  EXPECT_EQ(editor.findResult(RoleKind::Saved, name("b")), 1u);
  EXPECT_EQ(editor.findResult(RoleKind::Saved, name("w")), std::nullopt);
}

TEST_F(Editor, ChangesAllAtOnce) {
  ASSERT_TRUE(module);
  func::FuncOp function = get();
  SignatureEditor editor(function);
  Value half = function.getArgument(1);
  Type type = RankedTensorType::get({2}, Float32Type::get(&context));
  BlockArgument added = editor.addArgument(type, role(RoleKind::Gradient, "v"), function.getLoc());
  editor.addResult(added, role(RoleKind::Gradient, "v"));
  editor.eraseArgument(function.getArgument(0));
  editor.eraseResult(0);
  // What is added is found, what is erased is not; numbers stay until all is committed.
  EXPECT_EQ(editor.findArgument(RoleKind::Gradient, name("v")), added);
  EXPECT_FALSE(editor.findArgument(RoleKind::Parameter, name("v")));
  EXPECT_EQ(editor.findResult(RoleKind::Saved, name("a")), std::nullopt);
  EXPECT_EQ(editor.findResult(RoleKind::Gradient, name("v")), 2u);
  EXPECT_EQ(added.getArgNumber(), 4u);
  editor.commit();
  ASSERT_TRUE(succeeded(verify(*module)));
  EXPECT_EQ(function.getNumArguments(), 4u);
  EXPECT_EQ(function.getArgument(0), half);
  EXPECT_EQ(train::getArgumentRole(function, 3), role(RoleKind::Gradient, "v"));
  EXPECT_EQ(function.getArgumentTypes()[3], type);
  EXPECT_EQ(function.getNumResults(), 2u);
  EXPECT_EQ(train::getResultRole(function, 0), role(RoleKind::Saved, "b"));
  EXPECT_EQ(backward::getReturn(function).getOperand(1), function.getArgument(3));
  // It goes on from there.
  EXPECT_EQ(editor.findArgument(RoleKind::Gradient, name("v")), function.getArgument(3));
  EXPECT_EQ(editor.findResult(RoleKind::Gradient, name("v")), 1u);
}
