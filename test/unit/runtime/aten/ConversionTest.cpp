//===- ConversionTest.cpp - constants of programs as the dispatcher takes them -===//

#include "runtime/aten/Operator.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <limits>

using namespace cleave::runtime;

namespace {
class ConversionTest : public ::testing::Test {
protected:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::Builder b{&context};

  /// The argument `name` of an operator's schema.
  c10::Argument argument(const char *op, const char *name) {
    llvm::Expected<c10::OperatorHandle> handle = findOperator(op);
    EXPECT_TRUE(bool(handle)) << op;
    for (const c10::Argument &each : handle->schema().arguments())
      if (each.name() == name)
        return each;
    ADD_FAILURE() << op << " has no argument " << name;
    return handle->schema().arguments().front();
  }
  c10::IValue convert(mlir::Attribute value, const char *op, const char *name) {
    llvm::Expected<c10::IValue> converted = toIValue(value, argument(op, name));
    if (!converted) {
      ADD_FAILURE() << llvm::toString(converted.takeError());
      return {};
    }
    return *converted;
  }
  std::string refuse(mlir::Attribute value, const char *op, const char *name) {
    llvm::Expected<c10::IValue> converted = toIValue(value, argument(op, name));
    EXPECT_FALSE(bool(converted));
    return converted ? "" : llvm::toString(converted.takeError());
  }
};

TEST_F(ConversionTest, ScalarsKeepTheirKind) {
  EXPECT_TRUE(convert(b.getI64IntegerAttr(2), "aten::add.Scalar", "other").isInt());
  EXPECT_TRUE(convert(b.getF64FloatAttr(2), "aten::add.Scalar", "other").isDouble());
  EXPECT_TRUE(convert(b.getBoolAttr(true), "aten::add.Scalar", "other").isBool());
}

TEST_F(ConversionTest, NonFiniteFloats) {
  double infinity = std::numeric_limits<double>::infinity();
  c10::IValue value = convert(b.getF64FloatAttr(-infinity), "aten::masked_fill.Scalar", "value");
  EXPECT_EQ(value.toDouble(), -infinity);
}

TEST_F(ConversionTest, IntegersBecomeFloatsWhereFloatsAreTaken) {
  c10::IValue value = convert(b.getI64IntegerAttr(1), "aten::native_layer_norm", "eps");
  ASSERT_TRUE(value.isDouble());
  EXPECT_EQ(value.toDouble(), 1.0);
}

TEST_F(ConversionTest, OneNumberFillsAListOfFixedLength) {
  c10::IValue value = convert(b.getI64IntegerAttr(3), "aten::max_pool2d", "stride");
  EXPECT_EQ(value.toIntVector(), std::vector<int64_t>({3, 3}));
}

TEST_F(ConversionTest, Lists) {
  EXPECT_EQ(convert(b.getDenseI64ArrayAttr({0, -1}), "aten::sum.dim_IntList", "dim").toIntVector(),
            std::vector<int64_t>({0, -1}));
  EXPECT_EQ(convert(b.getDenseI64ArrayAttr({2, 3}), "aten::view", "size").toIntVector(),
            std::vector<int64_t>({2, 3}));
  c10::IValue mask = convert(b.getDenseBoolArrayAttr({true, false, true}),
                             "aten::convolution_backward", "output_mask");
  EXPECT_TRUE(mask.isBoolList());
  EXPECT_EQ(mask.toBoolList().size(), 3u);
}

TEST_F(ConversionTest, DTypesAndMemoryFormats) {
  c10::IValue dtype = convert(mlir::TypeAttr::get(b.getBF16Type()), "aten::_to_copy", "dtype");
  EXPECT_EQ(dtype.toScalarType(), at::kBFloat16);
  c10::IValue format = convert(b.getStringAttr("channels_last"), "aten::clone", "memory_format");
  EXPECT_EQ(format.toMemoryFormat(), at::MemoryFormat::ChannelsLast);
}

TEST_F(ConversionTest, OfTheWrongKind) {
  EXPECT_EQ(refuse(b.getStringAttr("x"), "aten::add.Scalar", "other"),
            "argument 'other' expects a value of type Scalar, found \"x\"");
  EXPECT_NE(refuse(b.getStringAttr("rows"), "aten::clone", "memory_format"), "");
  EXPECT_NE(refuse(b.getBoolAttr(true), "aten::t_copy", "self"), "");
  EXPECT_NE(refuse(b.getI64IntegerAttr(3), "aten::view", "size"), "");
  EXPECT_NE(refuse(b.getDenseI64ArrayAttr({1}), "aten::convolution_backward", "output_mask"), "");
}

TEST_F(ConversionTest, DefaultsComeFromTheSchema) {
  EXPECT_EQ(defaultIValue(argument("aten::add.Tensor", "alpha"))->toInt(), 1);
  EXPECT_TRUE(defaultIValue(argument("aten::clone", "memory_format"))->isNone());
  llvm::Expected<c10::IValue> missing = defaultIValue(argument("aten::view", "size"));
  ASSERT_FALSE(bool(missing));
  EXPECT_EQ(llvm::toString(missing.takeError()), "argument 'size' is missing and has no default");
}

TEST_F(ConversionTest, OperatorsThatCannotRun) {
  llvm::Expected<c10::OperatorHandle> unknown = findOperator("aten::add.Nothing");
  ASSERT_FALSE(bool(unknown));
  EXPECT_EQ(llvm::toString(unknown.takeError()),
            "this LibTorch has no operator 'aten::add.Nothing'");
}
} // namespace
