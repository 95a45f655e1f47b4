//===- CudaTest.cpp - the CUDA plugin on a GPU -----------------------------------===//
//
// Skipped, with the plugin's reason, if there is no GPU. A program of its own: the plugin is
// loaded before anything of LibTorch is used.
//
//===----------------------------------------------------------------------===//

#include "runtime/aten/Requests.h"
#include "runtime/device/DeviceClock.h"
#include "runtime/device/DeviceCommunicator.h"
#include "runtime/device/OpenDevice.h"
#include "runtime/exec/Arena.h"
#include "runtime/exec/DeviceNumbers.h"
#include "runtime/exec/DeviceVariants.h"
#include "runtime/step/StepGraph.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <gtest/gtest.h>

using namespace cleave::runtime;

namespace {
std::string reason;

/// The device, opened by the first test; null if there is none.
Device *device() {
  static Device *opened = []() -> Device * {
    auto fail = [](llvm::Error error) -> Device * {
      reason = llvm::toString(std::move(error));
      return nullptr;
    };
    static std::optional<LoadedDevices> devices;
    // Elsewhere than where it was built, the environment names the plugin.
    const char *moved = std::getenv("CLEAVE_DEVICE_PLUGIN");
    llvm::Expected<LoadedDevices> loaded = loadDevices("cuda", moved ? moved : CLEAVE_CUDA_PLUGIN);
    if (!loaded)
      return fail(loaded.takeError());
    devices = std::move(*loaded);
    llvm::Expected<OwnedDevice> device = openDevice(*devices, 0);
    return device ? device->release() : fail(device.takeError());
  }();
  return opened;
}

class Cuda : public testing::Test {
protected:
  void SetUp() override {
    if (!device())
      GTEST_SKIP() << reason;
  }
  c10::InferenceMode inferenceMode;
};

double distance(const at::Tensor &a, const at::Tensor &b) {
  at::Tensor wide = b.to(at::kDouble);
  return ((a.to(at::kDouble) - wide).abs().max() / wide.abs().max()).item<double>();
}

/// Adds 7 to each of 64 numbers; the last parameter stands for partials.
const char *kPtx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry add_seven(.param .u64 x, .param .u64 partials) {
  .reg .b32 %r<3>; .reg .b64 %rd<4>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3];
  add.f32 %f2, %f1, 0f40E00000;
  st.global.f32 [%rd3], %f2;
  ret;
}
)";
} // namespace

TEST_F(Cuda, SaysWhatItIs) {
  EXPECT_GE(device()->facts().capabilityMajor, 8);
  EXPECT_GT(device()->facts().totalMemory, int64_t(1) << 30);
  EXPECT_GT(device()->facts().communicationVersion, 0);
  EXPECT_GT(device()->facts().neuralVersion, 0);
  EXPECT_TRUE(device()->hasStreams());
}

TEST_F(Cuda, CopiesAndCounts) {
  device()->resetMemoryPeak();
  int64_t before = device()->memory().current;
  at::Tensor host = device()->allocateStaging({DType::F32, {1000}});
  EXPECT_TRUE(host.is_pinned());
  host.fill_(3);
  at::Tensor tensor = device()->fromHost(host);
  EXPECT_EQ(tensor.device(), device()->torchDevice());
  EXPECT_EQ(device()->toHost(tensor.add(1)).sum().item<float>(), 4000.0f);
  EXPECT_GE(device()->memory().peak - before, 8000);
}

TEST_F(Cuda, ResultsLieWhereTheyArePlanned) {
  llvm::Error error = device()->followPlans();
  ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  Arena arena(*device(), 1 << 20, 512);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.at(0)) % 512, 0u);
  at::Tensor x = at::ones({1000}, device()->options(DType::F32));
  Requests requests(arena.deviceType());
  at::Tensor y;
  auto run = [&] {
    Requests::Scope scope(requests);
    y = x.add(1);
  };
  run();
  std::optional<uint32_t> request = requests.find(y.const_data_ptr());
  ASSERT_TRUE(request);
  requests.expect(*request, 4000, arena.at(512));
  int64_t before = device()->memory().current;
  y = at::Tensor();
  run();
  EXPECT_EQ(y.const_data_ptr(), arena.at(512));
  EXPECT_EQ(device()->memory().current, before - 4000);
  // Planned memory is of no stream, and is not freed.
  device()->noteUse(y, StreamKind::Communication);
  at::Tensor shown = arena.tensorAt(arena.at(512), {1000}, at::kFloat);
  y = at::Tensor();
  EXPECT_EQ(shown.sum().item<float>(), 2000.0f);
}

TEST_F(Cuda, EventsOrderStreams) {
  at::Tensor x = at::zeros({1 << 20}, device()->options(DType::F32));
  for (int i = 0; i < 50; ++i)
    x.add_(1);
  device()->wait(device()->record(StreamKind::Compute), StreamKind::Communication);
  at::Tensor y;
  {
    Device::StreamScope scope(*device(), StreamKind::Communication);
    EXPECT_TRUE(device()->isOnStream(StreamKind::Communication));
    device()->noteUse(x, StreamKind::Communication);
    y = x.mul(2);
  }
  device()->wait(device()->record(StreamKind::Communication), StreamKind::Compute);
  device()->noteUse(y, StreamKind::Compute);
  EXPECT_EQ(y.max().item<float>(), 100.0f);
  EXPECT_EQ(y.min().item<float>(), 100.0f);
}

TEST_F(Cuda, MarksHaveTimes) {
  DeviceClock timeline(*device());
  int64_t first = timeline.mark();
  at::Tensor x = at::randn({2048, 2048}, device()->options(DType::F32));
  for (int i = 0; i < 10; ++i)
    x = x.mm(x).clamp_(-1, 1);
  int64_t second = timeline.mark();
  timeline.close();
  // 172 GFLOP, at less than 1.7 PFLOP/s.
  EXPECT_GT(timeline.time(second) - timeline.time(first), 100'000);
}

TEST_F(Cuda, LaunchesKernels) {
  llvm::StringRef image(kPtx);
  // The driver compiles PTX as it loads cubins; it ends with a zero.
  auto module = device()->plugin()->loadModule({image.data(), image.size() + 1}, "test");
  ASSERT_TRUE(bool(module)) << llvm::toString(module.takeError());
  auto function = (*module)->getFunction("add_seven");
  ASSERT_TRUE(bool(function)) << llvm::toString(function.takeError());
  at::Tensor x = at::ones({64}, device()->options(DType::F32));
  void *data = x.mutable_data_ptr(), *partials = nullptr;
  void *arguments[] = {&data, &partials};
  llvm::Error error = device()->plugin()->launch(*function, {1, 64, 0, arguments}, "add_seven");
  ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  EXPECT_TRUE(device()->toHost(x).equal(at::full({64}, 8.0f)));
  auto missing = (*module)->getFunction("nothing");
  ASSERT_FALSE(bool(missing));
  llvm::consumeError(missing.takeError());
}

TEST_F(Cuda, DrawsTheBitsOfTheHost) {
  // A part of 5 x 7 in a whole of 9 x 11.
  CleaveDraw draw{};
  draw.position = 3;
  draw.dimensions = 2;
  draw.count = 35;
  for (int i = 0; i < 2; ++i) {
    draw.whole[i] = i ? 11 : 9;
    draw.begin[i] = i ? 4 : 2;
    draw.sizes[i] = i ? 7 : 5;
  }
  at::Tensor seed = at::full({}, 5, at::kLong), offset = at::full({}, 1000, at::kLong);
  at::Tensor likely = at::rand({35}, at::kDouble);
  at::Tensor there[] = {device()->fromHost(seed), device()->fromHost(offset),
                        device()->fromHost(likely)};
  auto fill = [&](at::Tensor &out, const at::Tensor &key, const at::Tensor &begin,
                  const at::Tensor &probabilities) {
    draw.out = out.mutable_data_ptr();
    draw.seed = key.const_data_ptr<int64_t>();
    draw.offset = begin.const_data_ptr<int64_t>();
    draw.probabilities = probabilities.const_data_ptr<double>();
  };
  at::ScalarType types[] = {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};
  for (int kind = CleaveDrawBernoulli; kind <= CleaveDrawNormal; ++kind)
    for (int element = CleaveDrawF16; element <= CleaveDrawF64; ++element) {
      draw.kind = kind;
      draw.element = element;
      draw.first = kind == CleaveDrawUniform ? -1 : 0.7;
      draw.second = 3;
      at::ScalarType type = kind <= CleaveDrawBernoulliOf ? at::kByte : types[element];
      at::Tensor expected = at::zeros({35}, type), found = device()->fromHost(expected);
      fill(expected, seed, offset, likely);
      cleave::draw::drawRange(draw, 0, draw.count);
      fill(found, there[0], there[1], there[2]);
      llvm::Error error = device()->plugin()->draw(draw);
      ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
      EXPECT_TRUE(device()->toHost(found).equal(expected)) << kind << ", " << at::toString(type);
    }
}

TEST_F(Cuda, RecordsAndReplays) {
  StepGraph graph(*device());
  DeviceNumbers numbers(*device(), 1);
  at::Tensor x = at::zeros({}, device()->options(DType::F32));
  for (int step = 1; step <= 6; ++step) {
    device()->synchronize();
    numbers.set(0, step);
    llvm::Error error = graph.run([&] {
      return guarded([&] {
        numbers.send();
        x.add_(numbers.get(0));
      });
    });
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
    EXPECT_EQ(graph.isRecorded(), step >= 3);
  }
  EXPECT_EQ(x.item<float>(), 1 + 2 + 3 + 4 + 5 + 6);
}

TEST_F(Cuda, CommunicatesByNccl) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  CleaveBackendOptions options{store.get(), 0, 1, 60'000, "test"};
  llvm::Expected<void *> made = device()->plugin()->createBackend(options);
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
  auto backend = c10::intrusive_ptr<c10d::Backend>::reclaim(static_cast<c10d::Backend *>(*made));
  std::vector<at::Tensor> tensors{at::full({1000}, 2.0f, device()->options(DType::F32))};
  c10d::AllreduceOptions reduce;
  reduce.asyncOp = false;
  {
    // On the communication stream, in its order and in no other.
    device()->wait(device()->record(StreamKind::Compute), StreamKind::Communication);
    Device::StreamScope scope(*device(), StreamKind::Communication);
    backend->allreduce(tensors, reduce);
    tensors[0].mul_(3);
  }
  device()->wait(device()->record(StreamKind::Communication), StreamKind::Compute);
  EXPECT_EQ(tensors[0].sum().item<float>(), 6000.0f);
  backend->shutdown();
}

TEST_F(Cuda, AttentionIsTheProducts) {
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (bool isCausal : {false, true})
      for (bool hasMask : {false, true})
        for (int64_t rows : {64, 77}) {
          at::TensorOptions options = device()->options(DType::F32).dtype(type);
          Attention attention;
          attention.query = at::randn({2, 4, rows, 64}, options);
          attention.key = at::randn({2, 4, rows, 64}, options);
          attention.value = at::randn({2, 4, rows, 64}, options);
          if (hasMask)
            attention.mask = at::randn({2, 1, rows, rows}, options);
          attention.isCausal = isCausal;
          AttentionKernel chosen = chooseAttention(attention, device()->facts().capabilityMajor);
          EXPECT_NE(chosen, AttentionKernel::Products);
          std::vector<AttentionKernel> kernels{chosen};
          // Where cuDNN's is preferred, flash attention takes the same.
          if (chosen == AttentionKernel::Cudnn)
            kernels.push_back(AttentionKernel::Flash);
          for (AttentionKernel kernel : kernels) {
            auto [output, logarithms] = attend(attention, kernel);
            auto [expected, expectedLogarithms] = attend(attention, AttentionKernel::Products);
            double tolerance = type == at::kFloat ? 1e-5 : 2e-2;
            EXPECT_LT(distance(output, expected), tolerance);
            EXPECT_LT(distance(logarithms, expectedLogarithms), 1e-3);
            at::Tensor gradient = at::randn_like(output);
            // What is saved may have been sent or laid out again.
            std::array<at::Tensor, 3> found = attendBackward(
                attention, kernel, gradient, output.contiguous(), logarithms.contiguous());
            std::array<at::Tensor, 3> wanted = attendBackward(
                attention, AttentionKernel::Products, gradient, expected, expectedLogarithms);
            for (int i = 0; i < 3; ++i)
              EXPECT_LT(distance(found[i], wanted[i]), 2 * tolerance)
                  << "gradient " << i << ", kernel " << int(kernel) << ", " << at::toString(type)
                  << (isCausal ? ", causal" : "") << (hasMask ? ", mask" : "") << ", rows " << rows;
          }
        }
}
