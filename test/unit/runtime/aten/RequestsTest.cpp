//===- RequestsTest.cpp - the allocator answers with planned addresses -------===//

#include "runtime/aten/Requests.h"
#include "runtime/aten/Allocator.h"
#include "runtime/aten/Facade.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "gtest/gtest.h"

#include <thread>

using namespace cleave::runtime;

namespace {
class RequestsTest : public ::testing::Test {
protected:
  void SetUp() override { installCachingAllocator(); }
  static at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

  c10::InferenceMode inferenceMode;
};

TEST_F(RequestsTest, AWatchedRunTellsWhichRequestIsTheResult) {
  Requests requests;
  at::Tensor result;
  auto run = [&] {
    Requests::Scope scope(requests);
    at::Tensor workspace = bytes(256);
    result = bytes(256);
  };
  run();
  ASSERT_EQ(requests.find(result.const_data_ptr()), 1u);
  EXPECT_FALSE(requests.find(&requests));
  alignas(64) char planned[256];
  requests.expect(1, 256, planned);
  run();
  EXPECT_EQ(result.const_data_ptr(), planned);
  result = at::Tensor(); // leaves planned memory alone
  run();
  EXPECT_EQ(result.const_data_ptr(), planned);
}

TEST_F(RequestsTest, AnotherSizeOrAnotherThreadIsNotTheResult) {
  Requests requests;
  alignas(64) char planned[128];
  requests.expect(0, 128, planned);
  {
    Requests::Scope scope(requests);
    EXPECT_NE(bytes(64).const_data_ptr(), planned);
  }
  {
    Requests::Scope scope(requests);
    const void *elsewhere = nullptr;
    std::thread([&] { elsewhere = bytes(128).const_data_ptr(); }).join();
    EXPECT_NE(elsewhere, planned);
    EXPECT_EQ(bytes(128).const_data_ptr(), planned);
  }
  EXPECT_NE(bytes(128).const_data_ptr(), planned);
}

TEST_F(RequestsTest, WhereNothingIsExpectedAResultsRequestIsWorkspace) {
  Requests requests;
  alignas(64) char planned[128];
  requests.expect(0, 128, planned);
  requests.expectNothing();
  Requests::Scope scope(requests);
  EXPECT_NE(bytes(128).const_data_ptr(), planned);
}

TEST_F(RequestsTest, WhatIsForADeviceIsNotAnsweredOnTheHost) {
  Requests requests(c10::DeviceType::CUDA);
  alignas(64) char planned[128];
  requests.expect(0, 128, planned);
  Requests::Scope scope(requests);
  EXPECT_NE(bytes(128).const_data_ptr(), planned);
  EXPECT_EQ(Requests::current(c10::DeviceType::CPU), nullptr);
  // The host's request was none of its own.
  EXPECT_EQ(Requests::current(c10::DeviceType::CUDA)->next(128).address, planned);
}

TEST_F(RequestsTest, WorkspaceIsCountedApart) {
  resetMemoryPeak();
  MemoryCounts before = memoryCounts();
  Requests requests;
  at::Tensor result;
  {
    Requests::Scope scope(requests);
    at::Tensor workspace = bytes(1000);
    result = bytes(300);
  }
  MemoryCounts after = memoryCounts();
  EXPECT_EQ(after.workspacePeak - before.workspacePeak, 1300);
  EXPECT_EQ(after.tensorPeak, before.tensorPeak);
  countAsTensor(result.storage());
  EXPECT_EQ(memoryCounts().tensorPeak - before.tensorPeak, 300);
  EXPECT_EQ(memoryCounts().current - before.current, 300);

  // From the second run on it is known what is for results.
  requests.expect(*requests.find(result.const_data_ptr()), 300, nullptr);
  result = at::Tensor();
  resetMemoryPeak();
  before = memoryCounts();
  {
    Requests::Scope scope(requests);
    at::Tensor workspace = bytes(1000);
    result = bytes(300);
  }
  after = memoryCounts();
  EXPECT_EQ(after.workspacePeak - before.workspacePeak, 1000);
  EXPECT_EQ(after.tensorPeak - before.tensorPeak, 300);
  EXPECT_EQ(after.peak - before.peak, 1300);
}

TEST_F(RequestsTest, MemoryOfOtherOriginIsNoWorkspace) {
  resetMemoryPeak();
  MemoryCounts before = memoryCounts();
  char foreign[64];
  countAsTensor(at::from_blob(foreign, {64}, at::kByte).storage());
  EXPECT_EQ(memoryCounts().tensorPeak, before.tensorPeak);
}

TEST_F(RequestsTest, WhatOtherThreadsAskForIsWorkspace) {
  Requests::enterThread();
  resetMemoryPeak();
  MemoryCounts before = memoryCounts();
  at::Tensor mine = bytes(300);
  std::thread([&] { at::Tensor message = bytes(1000); }).join();
  MemoryCounts after = memoryCounts();
  EXPECT_EQ(after.tensorPeak - before.tensorPeak, 300);
  EXPECT_EQ(after.workspacePeak - before.workspacePeak, 1000);
}
} // namespace
