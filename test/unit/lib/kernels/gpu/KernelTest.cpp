//===- KernelTest.cpp - row programs of random shapes, compiled for GPUs and executed ------===//
//
// `CLEAVE_TEST_SEED` repeats a run.
//
//===----------------------------------------------------------------------===//

#include "lib/kernels/gpu/Compiler.h"
#include "lib/kernels/gpu/Optimize.h"
#include "lib/kernels/program/ProgramBuilder.h"
#include "test/unit/lib/kernels/gpu/Reference.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/IR/LLVMContext.h"
#include "gtest/gtest.h"

#include <cstdlib>

using namespace cleave::kernels;
using namespace cleave::gputest;

namespace {

class Kernels : public testing::Test {
protected:
  void SetUp() override {
    auto found = gpu::findToolkit();
    if (!found) {
      std::string why = llvm::toString(found.takeError());
      GTEST_SKIP() << why;
    }
    options.libdevice = found->libdevice;
    const char *given = std::getenv("CLEAVE_TEST_SEED");
    options.seed = given ? std::strtoul(given, nullptr, 10) : std::random_device()() % 100000;
    random.seed(options.seed);
    RecordProperty("seed", int(options.seed));
    llvm::outs() << "CLEAVE_TEST_SEED=" << options.seed << "\n";
    llvm::outs().flush();
  }

  /// A program over rows of the shape.
  void begin(llvm::ArrayRef<int64_t> rows, int64_t columns) {
    program = RowProgram();
    program.name = "kernel";
    program.rowShape.assign(rows.begin(), rows.end());
    program.columns = columns;
    builder = std::make_unique<ProgramBuilder>(program);
  }

  Access accessOf(unsigned tensor, uint32_t rowDims, bool hasColumns) {
    Access access;
    access.tensor = tensor;
    access.columnStride = hasColumns;
    access.rowStrides.assign(program.rowShape.size(), 0);
    int64_t stride = hasColumns ? program.columns : 1;
    for (size_t dim = program.rowShape.size(); dim-- > 0;)
      if (rowDims >> dim & 1) {
        access.rowStrides[dim] = stride;
        stride *= program.rowShape[dim];
      }
    return access;
  }

  /// An argument that has some of the rows' dimensions, and columns or not.
  NodeId argument(mlir::Type dtype, uint32_t rowDims, bool hasColumns) {
    program.tensors.push_back(dtype);
    ++program.numArguments;
    return builder->load(accessOf(program.tensors.size() - 1, rowDims, hasColumns),
                         *getComputeType(dtype), rowDims, hasColumns ? program.columns : 0);
  }
  NodeId full(mlir::Type dtype) { return argument(dtype, program.allRowDims(), true); }

  /// A result, after all arguments.
  void result(NodeId value, mlir::Type dtype) {
    const Node &node = program.nodes[value];
    program.tensors.push_back(dtype);
    Store store;
    store.value = value;
    store.access = accessOf(program.tensors.size() - 1, node.rowDims, node.columns != 0);
    if (node.columns)
      for (int64_t &stride : store.access.rowStrides)
        stride = stride / program.columns * node.columns;
    store.columns = node.columns;
    store.rowDims = node.rowDims;
    program.stores.push_back(store);
  }

  NodeId sumOf(NodeId value) { return builder->sum(value, program.columns); }

  void check() {
    std::string wrong = checkProgram(program, options);
    EXPECT_EQ(wrong, "") << "with CLEAVE_TEST_SEED=" << options.seed;
    if (random() % 4 != 0)
      return;
    // As of rows so long that columns are counted in 64 bits.
    RowProgram longRows = program;
    longRows.columns = int64_t(1) << 32;
    wrong = checkProgram(longRows, options);
    EXPECT_EQ(wrong, "") << "in 64 bits with CLEAVE_TEST_SEED=" << options.seed;
  }

  int64_t pick(std::initializer_list<int64_t> from) { return from.begin()[random() % from.size()]; }
  mlir::Type pickFloat() {
    mlir::Builder types(&context);
    mlir::Type all[] = {types.getF32Type(), types.getBF16Type(), types.getF16Type(),
                        types.getF64Type()};
    return all[std::min<unsigned>(3, random() % 6)];
  }
  /// Lengths of rows on both sides of what decides how threads share them.
  int64_t pickColumns() {
    return pick({1,   2,   3,   4,   5,   8,   12,  31,  32,   33,   64,   96,   100,
                 127, 128, 192, 256, 320, 500, 512, 768, 1000, 1024, 1536, 2048, 4100});
  }
  int64_t pickRows() { return pick({1, 2, 3, 5, 8, 13, 32, 63}); }

  mlir::MLIRContext context;
  mlir::Type f32 = mlir::Float32Type::get(&context);
  mlir::Type i64 = mlir::IntegerType::get(&context, 64);
  mlir::Type i1 = mlir::IntegerType::get(&context, 1);
  CheckOptions options;
  std::mt19937 random;
  RowProgram program;
  std::unique_ptr<ProgramBuilder> builder;
};

TEST_F(Kernels, Pointwise) {
  for (int i = 0; i < 6; ++i) {
    begin({pickRows()}, pickColumns());
    mlir::Type dtype = pickFloat();
    NodeId x = full(dtype), y = full(pickFloat()), mask = full(i1);
    ComputeType type = builder->typeOf(x);
    NodeId gate = builder->select(mask, x, builder->convert(y, type));
    NodeId erf = builder->map(Function::Erf, {gate});
    NodeId positive = builder->map(Function::Greater, {erf, builder->constant(type, 0.1)});
    result(builder->mul(gate, builder->add(erf, 1.0)), dtype);
    result(positive, i1);
    check();
  }
}

TEST_F(Kernels, RowsWithBroadcasts) {
  for (int i = 0; i < 6; ++i) {
    begin({pickRows(), pick({1, 2, 7})}, pickColumns());
    mlir::Type dtype = pickFloat();
    NodeId x = full(dtype), bias = argument(dtype, 0, true), scale = argument(dtype, 1, false),
           shift = argument(dtype, 2, true), number = argument(dtype, 0, false);
    NodeId y = builder->add(builder->mul(builder->add(x, bias), scale), shift);
    result(builder->mul(y, number), dtype);
    result(builder->map(Function::Exp, {shift}), dtype);
    check();
  }
}

/// Statistics of rows, walks over rows that use them, and sums over rows of three kinds.
TEST_F(Kernels, Normalization) {
  for (int i = 0; i < 24; ++i) {
    begin({pickRows(), pick({1, 3})}, i == 0 ? 20000 : i == 1 ? 17001 : pickColumns());
    if (program.columns > 10000)
      program.rowShape = {3};
    mlir::Type dtype = pickFloat();
    NodeId x = full(dtype), dy = full(dtype), weight = argument(dtype, 0, true);
    double columns = double(program.columns);
    NodeId mean = builder->mul(sumOf(x), 1 / columns);
    NodeId centered = builder->sub(x, mean);
    NodeId variance = builder->mul(sumOf(builder->mul(centered, centered)), 1 / columns);
    NodeId scale = builder->div(1.0, builder->map(Function::Sqrt, {builder->add(variance, 0.1)}));
    NodeId normal = builder->mul(centered, scale);
    result(builder->mul(normal, weight), dtype);
    result(scale, f32);
    if (i % 3 != 0)
      result(builder->reduceRows(RowReduction::Sum, builder->mul(dy, normal)), dtype);
    if (i % 3 == 1)
      result(builder->reduceRows(RowReduction::Sum, builder->add(scale, mean)), f32);
    if (i % 3 == 2)
      result(builder->map(Function::Sqrt,
                          {builder->reduceRows(RowReduction::Sum, sumOf(builder->mul(dy, dy)))}),
             f32);
    check();
  }
}

TEST_F(Kernels, SumsOfColumnsOnly) {
  for (int i = 0; i < 10; ++i) {
    begin({pick({2, 9, 100, 300})}, pickColumns());
    mlir::Type dtype = pickFloat();
    NodeId x = full(dtype), y = full(dtype), weight = argument(dtype, 0, true);
    NodeId product = builder->mul(x, y);
    NodeId sum = builder->reduceRows(RowReduction::Sum, product);
    result(product, dtype);
    result(sum, dtype);
    result(builder->mul(sum, weight), f32);
    check();
  }
}

TEST_F(Kernels, SoftmaxWithGather) {
  for (int i = 0; i < 8; ++i) {
    begin({pickRows()}, i == 0 ? 50257 : pickColumns());
    if (program.columns > 10000)
      program.rowShape = {2};
    mlir::Type dtype = pickFloat();
    NodeId x = full(dtype), target = argument(i64, 1, false);
    NodeId maximum = builder->reduceColumns(RowReduction::MaxNumbers, x, program.columns);
    NodeId e = builder->exp(builder->sub(x, maximum));
    NodeId sum = sumOf(e);
    NodeId chosen = builder->gather(x, target);
    NodeId loss = builder->sub(builder->add(builder->map(Function::Log, {sum}), maximum), chosen);
    NodeId isTarget =
        builder->map(Function::Equal, {builder->columnIndex(program.columns), target});
    NodeId ones = builder->convert(isTarget, builder->typeOf(x));
    result(builder->sub(builder->div(e, sum), ones), dtype);
    result(loss, f32);
    if (program.rows() > 1)
      result(builder->reduceRows(RowReduction::Sum, loss), f32);
    check();
  }
}

/// Rotary embedding: halves of rows exchange places; angles depend on one of the rows' dimensions.
TEST_F(Kernels, PartsOfRows) {
  for (int i = 0; i < 16; ++i) {
    int64_t half = pick({1, 3, 4, 8, 16, 20, 32, 64, 100, 512});
    begin({pick({1, 2}), pick({1, 3}), pick({2, 5, 17})}, 2 * half);
    mlir::Type dtype = pickFloat();
    NodeId x = full(dtype), cos = argument(dtype, 4, true), sin = argument(dtype, 4, true);
    NodeId low = builder->slice(x, 0, half), high = builder->slice(x, half, half);
    NodeId turned = builder->concat({builder->neg(high), low}, {half, half});
    NodeId y = builder->add(builder->mul(x, cos), builder->mul(turned, sin));
    result(y, dtype);
    if (i % 4 == 1)
      result(sumOf(y), f32);
    if (i % 4 == 2)
      result(builder->add(low, high), dtype);
    if (i % 4 == 3) {
      NodeId zero = builder->constant(builder->typeOf(x), 0);
      result(builder->concat({zero, high, zero}, {1, half, half - 1 ? half - 1 : 1}), dtype);
      program.columns = 2 * half;
    }
    check();
  }
}

/// Integers, and values that all rows share.
TEST_F(Kernels, IntegersAndSharedValues) {
  for (int i = 0; i < 6; ++i) {
    begin({pickRows()}, pickColumns());
    mlir::Type i32 = mlir::IntegerType::get(&context, 32);
    NodeId x = full(i64), y = full(i32), shared = argument(f32, 0, true);
    NodeId sum = builder->add(x, builder->convert(y, ComputeType::I64));
    result(builder->map(Function::Maximum, {sum, x}), i64);
    result(sumOf(sum), i64);
    result(builder->convert(builder->map(Function::Less, {x, sum}), ComputeType::F32), f32);
    NodeId norm = sumOf(builder->mul(shared, shared));
    result(builder->mul(shared, norm), f32);
    check();
  }
}

/// Rows of all lengths keep what they need in registers, and move 16 bytes at a time.
TEST_F(Kernels, LongRowsDoNotSpill) {
  mlir::Type bf16 = mlir::BFloat16Type::get(&context);
  gpu::Compiler compiler;
  for (mlir::Type dtype : {f32, bf16})
    for (int64_t columns : {768, 4096, 8192, 12288, 16384, 32768, 131072}) {
      begin({4096}, columns);
      program.name =
          "norm_" + std::to_string(dtype.getIntOrFloatBitWidth()) + "_" + std::to_string(columns);
      NodeId x = full(dtype), dy = full(dtype), weight = argument(dtype, 0, true);
      NodeId scaled = builder->mul(dy, weight);
      NodeId inner = sumOf(builder->mul(scaled, x)), total = sumOf(scaled);
      result(builder->sub(scaled, builder->add(builder->mul(x, inner), total)), dtype);
      result(builder->reduceRows(RowReduction::Sum, builder->mul(dy, x)), dtype);
      auto launch = compiler.add(program);
      ASSERT_TRUE(bool(launch));
      EXPECT_EQ(launch->phases.size(), 2u);

      begin({4096}, columns);
      program.name = "softmax_" + std::to_string(dtype.getIntOrFloatBitWidth()) + "_" +
                     std::to_string(columns);
      x = full(dtype);
      NodeId e = builder->exp(
          builder->sub(x, builder->reduceColumns(RowReduction::MaxNumbers, x, columns)));
      result(builder->div(e, sumOf(e)), dtype);
      ASSERT_TRUE(bool(compiler.add(program)));
    }
  for (const gpu::Chip &chip : gpu::getChips()) {
    llvm::LLVMContext llvmContext;
    auto module = compiler.translate(llvmContext, chip, options.libdevice);
    ASSERT_TRUE(bool(module));
    auto ptx = gpu::emitPtx(**module, chip);
    ASSERT_TRUE(bool(ptx));
    // Row numbers and what finishing phases read one by one apart.
    EXPECT_GT(llvm::StringRef(*ptx).count("ld.global.v4.b32"),
              llvm::StringRef(*ptx).count("ld.global.b32"));
    auto cubin = gpu::assemblePtx(*ptx, chip, gpu::findToolkit()->ptxas);
    ASSERT_TRUE(bool(cubin)) << llvm::toString(cubin.takeError());
    EXPECT_EQ(cubin->kernels.size(), 42u);
    for (const gpu::KernelResources &kernel : cubin->kernels)
      EXPECT_EQ(kernel.spillStores + kernel.spillLoads, 0u)
          << kernel.name << " on " << chip.name.str() << ": " << kernel.registers << " registers";
  }
}

/// The checker itself must see what is wrong.
TEST_F(Kernels, WrongExpectationsAreSeen) {
  begin({4}, 64);
  NodeId x = full(f32);
  result(builder->mul(x, 2.0), f32);
  // Writes half of what the tensor has.
  program.stores[0].access.rowStrides = {128};
  std::string wrong = checkProgram(program, options);
  EXPECT_NE(wrong.find("are not written"), std::string::npos) << wrong;
  // All rows write the first.
  program.stores[0].access.rowStrides = {0};
  wrong = checkProgram(program, options);
  EXPECT_NE(wrong.find("writes while thread"), std::string::npos) << wrong;
}

} // namespace
