//===- BackEndTest.cpp - LLVM IR to cubin: libdevice, ptxas, and what goes wrong ---===//

#include "lib/kernels/gpu/Optimize.h"
#include "lib/kernels/gpu/Ptxas.h"
#include "lib/kernels/gpu/Toolkit.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <cstdlib>

using namespace cleave::kernels::gpu;

namespace {

/// y = FUNCTION(x) for one block of threads.
std::string kernelCalling(const std::string &function) {
  return R"(
    define ptx_kernel void @pointwise(ptr %x, ptr %y) "nvvm.maxntid"="128" {
      %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
      %from = getelementptr float, ptr %x, i32 %t
      %to = getelementptr float, ptr %y, i32 %t
      %v = load float, ptr %from
      %r = call float @)" +
         function + R"((float %v)
      store float %r, ptr %to
      ret void
    }
    declare float @)" +
         function + R"((float)
    declare i32 @llvm.nvvm.read.ptx.sreg.tid.x())";
}

class BackEnd : public testing::Test {
protected:
  std::unique_ptr<llvm::Module> parse(const std::string &text) {
    llvm::SMDiagnostic error;
    auto module = llvm::parseAssemblyString(text, error, context);
    if (!module)
      error.print("BackEndTest", llvm::errs());
    return module;
  }

  void SetUp() override {
    auto found = findToolkit();
    if (!found) {
      std::string why = llvm::toString(found.takeError());
      GTEST_SKIP() << why;
    }
    toolkit = *found;
  }

  llvm::LLVMContext context;
  Toolkit toolkit;
};

TEST_F(BackEnd, AssemblesForAllChips) {
  for (const Chip &chip : getChips()) {
    auto module = parse(kernelCalling("__nv_expf"));
    ASSERT_TRUE(module);
    ASSERT_FALSE(optimizeForGpu(*module, chip, toolkit.libdevice));
    // Of libdevice nothing remains but what was inlined, and no function asks for flushed
    // denormals.
    unsigned functions = 0;
    for (const llvm::Function &function : *module)
      functions += !function.isDeclaration();
    EXPECT_EQ(functions, 1u);
    auto ptx = emitPtx(*module, chip);
    ASSERT_TRUE(bool(ptx));
    EXPECT_NE(ptx->find(".visible .entry pointwise("), std::string::npos);
    EXPECT_NE(ptx->find(".maxntid 128"), std::string::npos);
    EXPECT_EQ(ptx->find("__nv"), std::string::npos);
    auto cubin = assemblePtx(*ptx, chip, toolkit.ptxas);
    ASSERT_TRUE(bool(cubin)) << llvm::toString(cubin.takeError());
    EXPECT_EQ(cubin->image.substr(1, 3), "ELF");
    ASSERT_EQ(cubin->kernels.size(), 1u);
    EXPECT_EQ(cubin->kernels[0].name, "pointwise");
    EXPECT_GT(cubin->kernels[0].registers, 4u);
    EXPECT_LT(cubin->kernels[0].registers, 64u);
    EXPECT_EQ(cubin->kernels[0].spillStores, 0u);
  }
}

TEST_F(BackEnd, SquareRootsOfLibdeviceAreExact) {
  auto module = parse(kernelCalling("__nv_sqrtf"));
  ASSERT_TRUE(module);
  ASSERT_FALSE(optimizeForGpu(*module, getChips()[1], toolkit.libdevice));
  auto ptx = emitPtx(*module, getChips()[1]);
  ASSERT_TRUE(bool(ptx));
  EXPECT_NE(ptx->find("sqrt.rn.f32"), std::string::npos) << *ptx;
}

TEST_F(BackEnd, RefusesAFunctionThatLibdeviceHasNot) {
  auto module = parse(kernelCalling("__nv_riemannzetaf"));
  ASSERT_TRUE(module);
  std::string message = llvm::toString(optimizeForGpu(*module, getChips()[0], toolkit.libdevice));
  EXPECT_EQ(message, "no device function '__nv_riemannzetaf' in libdevice at " + toolkit.libdevice);
}

TEST_F(BackEnd, RefusesAMissingLibdevice) {
  auto module = parse(kernelCalling("__nv_expf"));
  ASSERT_TRUE(module);
  std::string message = llvm::toString(optimizeForGpu(*module, getChips()[0], "/no/libdevice.bc"));
  EXPECT_EQ(message, "cannot read libdevice at /no/libdevice.bc: No such file or directory");
}

TEST_F(BackEnd, ReportsWhatPtxasSays) {
  auto cubin = assemblePtx(".version 7.0\n.target sm_80\nnonsense\n", getChips()[0], toolkit.ptxas);
  ASSERT_FALSE(bool(cubin));
  std::string message = llvm::toString(cubin.takeError());
  EXPECT_NE(message.find("ptxas failed for sm_80: "), std::string::npos) << message;
  EXPECT_NE(message.find("syntax error"), std::string::npos) << message;
}

TEST(Toolkit, IsTheOneOfCudaHome) {
  const char *before = std::getenv("CUDA_HOME");
  std::string saved = before ? before : "";
  setenv("CUDA_HOME", "/no/such/toolkit", 1);
  auto found = findToolkit();
  before ? setenv("CUDA_HOME", saved.c_str(), 1) : unsetenv("CUDA_HOME");
  ASSERT_FALSE(bool(found));
  EXPECT_EQ(llvm::toString(found.takeError()), "compiling for a GPU needs ptxas, but found none at "
                                               "/no/such/toolkit/bin/ptxas (CUDA_HOME)");
}

TEST(Chips, AreLookedUpByName) {
  auto chip = lookupChip("sm_90");
  ASSERT_TRUE(bool(chip));
  EXPECT_EQ(chip->multiprocessors, 132u);
  EXPECT_EQ(llvm::toString(lookupChip("sm_42").takeError()),
            "no chip 'sm_42': kernels are compiled for sm_80, sm_90, sm_100");
}

TEST(Resources, AreReadFromWhatPtxasWrites) {
  auto kernels = parseResources(R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'b' for 'sm_90'
ptxas info    : Function properties for b
    24 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 24 bytes cumulative stack size, 4096 bytes smem, 560 bytes cmem[0]
ptxas info    : Function properties for helper
    96 bytes stack frame, 7 bytes spill stores, 7 bytes spill loads
ptxas info    : Compiling entry function 'a' for 'sm_90'
ptxas info    : Function properties for a
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 360 bytes cmem[0]
)");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "a");
  EXPECT_EQ(kernels[0].registers, 12u);
  EXPECT_EQ(kernels[0].shared, 0u);
  EXPECT_EQ(kernels[1].name, "b");
  EXPECT_EQ(kernels[1].registers, 255u);
  EXPECT_EQ(kernels[1].stack, 24u);
  EXPECT_EQ(kernels[1].spillStores, 8u);
  EXPECT_EQ(kernels[1].spillLoads, 16u);
  EXPECT_EQ(kernels[1].shared, 4096u);
}

} // namespace
