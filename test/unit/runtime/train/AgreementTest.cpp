//===- AgreementTest.cpp - ranks that choose other code for their processor -===//

#include "runtime/train/Agreement.h"
#include "test/unit/LoadProgram.h"
#include "test/unit/runtime/comm/ThreadRanks.h"
#include "test/unit/runtime/kernels/CodeProgram.h"

#include <gtest/gtest.h>

using namespace cleave::runtime;
using llvm::StringRef;

namespace {

/// What the ranks are told, each with its own choice of kernels, and what is printed.
std::vector<std::string> agree(const std::vector<StringRef> &kernels, bool needsEqualBits,
                               std::string &printed) {
  auto loaded = cleave::test::load(cleave::test::codeProgram("7F454C460001"));
  if (!loaded)
    return {};
  std::vector<std::string> errors(kernels.size());
  testing::internal::CaptureStderr();
  auto outcomes =
      test::runThreadRanks(kernels.size(), std::chrono::seconds(20), [&](Communicator &world) {
        errors[world.rank()] = llvm::toString(
            agreeOnProgram(world, *loaded, {}, kernels[world.rank()], needsEqualBits));
        return world.finish();
      });
  printed = testing::internal::GetCapturedStderr();
  for (const test::Outcome &outcome : outcomes)
    EXPECT_FALSE(outcome.failed) << outcome.message;
  return errors;
}

TEST(Agreement, OtherCodeIsANote) {
  std::string printed;
  for (const std::string &error : agree({"x86-64-v2", "none", "best"}, false, printed))
    EXPECT_EQ(error, "");
  EXPECT_EQ(printed, "note: the ranks' environments differ, so replicated results may differ in "
                     "their last bits: processor instructions of compiled kernels: "
                     "x86-64-v2 on ranks 0, 2; none on rank 1\n");
}

TEST(Agreement, OtherCodeIsRefusedWhereBitsAreCompared) {
  std::string printed;
  for (const std::string &error : agree({"x86-64-v2", "none"}, true, printed))
    EXPECT_EQ(error, "the ranks' environments differ, so --check replicated would report "
                     "differences that are not errors: processor instructions of compiled "
                     "kernels: x86-64-v2 on rank 0; none on rank 1");
  EXPECT_EQ(printed, "");
}

TEST(Agreement, EqualCodeIsNothingToSpeakOf) {
  for (std::vector<StringRef> kernels :
       {std::vector<StringRef>{"x86-64-v2", "best"}, std::vector<StringRef>{"none", "none"}}) {
    std::string printed;
    for (const std::string &error : agree(kernels, true, printed))
      EXPECT_EQ(error, "");
    EXPECT_EQ(printed, "");
  }
}

} // namespace
