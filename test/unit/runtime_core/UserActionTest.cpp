//===- UserActionTest.cpp - actions of a schedule's own user --------------------===//

#include "cleave/Session.h"
#include "cleave/UserActions.h"
#include "test/unit/LoadedProgram.h"

#include <map>

using namespace cleave::runtime;
using cleave::test::LoadedProgram;

namespace {
constexpr const char *kProgram = R"mlir(
module @actions {
  func.func @forward_0(%x: tensor<2xf32> {train.role = #train.role<input "x" batch 0>},
                       %w: tensor<2xf32> {train.role = #train.role<parameter "w">})
      -> (tensor<2xf32> {train.role = #train.role<output "0" batch 0>})
      attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
    %0 = aten.mul(%x, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  pipeline.schedule @schedule "mine" ranks 1 stages 1 microbatches 2 topology loop forward_only transfers implied {
    rank 0: call "begin" F0.0 call "show"(0.0) F0.1 call "show"(0.1) collective "meet"[0]
  }
}
)mlir";

class UserActions : public ::testing::Test {
protected:
  UserActions() : loaded(kProgram) { options.microbatches = 2; }

  ~UserActions() override {
    for (auto &[name, callback] : actions)
      setUserAction(name, nullptr);
  }

  void set() {
    for (auto &[name, callback] : actions)
      setUserAction(name, callback);
  }
  void create() {
    set();
    auto made = Session::create(*loaded.program, options);
    ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
    session = std::move(*made);
    auto weight = session->weight("w");
    ASSERT_TRUE(bool(weight));
    reinterpret_cast<float *>(weight->data)[0] = 1;
    reinterpret_cast<float *>(weight->data)[1] = 2;
  }
  llvm::Error run(int64_t step) {
    return session->runMicrobatches(
        step,
        [&](int64_t microbatch) -> llvm::Error {
          auto input = session->input("x");
          if (!input)
            return input.takeError();
          auto *data = reinterpret_cast<float *>(input->data);
          data[0] = data[1] = float(microbatch + 1);
          return llvm::Error::success();
        },
        [](int64_t) { return llvm::Error::success(); });
  }

  LoadedProgram loaded;
  SessionOptions options;
  std::map<std::string, UserCallback> actions;
  std::unique_ptr<Session> session;
};

TEST_F(UserActions, RunWhereTheListHasThem) {
  std::vector<std::string> calls;
  actions["begin"] = [&](const UserAction &action) {
    EXPECT_FALSE(action.stage || action.microbatch);
    calls.push_back("begin of step " + std::to_string(action.step));
    return llvm::Error::success();
  };
  // The session's values are those of this moment.
  actions["show"] = [&](const UserAction &action) -> llvm::Error {
    auto output = session->result("output.0");
    if (!output)
      return output.takeError();
    float second = reinterpret_cast<const float *>(output->data)[1];
    calls.push_back("output of " + std::to_string(*action.microbatch) + ": " +
                    std::to_string(int(second)));
    return llvm::Error::success();
  };
  actions["meet"] = [&](const UserAction &action) {
    EXPECT_EQ(action.places, llvm::ArrayRef<unsigned>{0});
    calls.push_back(action.name.str());
    return llvm::Error::success();
  };
  create();
  ASSERT_EQ(llvm::toString(run(1)), "");
  EXPECT_EQ(calls, (std::vector<std::string>{"begin of step 1", "output of 0: 2", "output of 1: 4",
                                             "meet"}));
}

TEST_F(UserActions, EndTheStepByAnError) {
  actions["begin"] = [](const UserAction &) { return llvm::createStringError("the disk is full"); };
  actions["show"] = actions["meet"] = actions["begin"];
  create();
  EXPECT_EQ(llvm::toString(run(7)),
            "step 7, action call \"begin\" (position 0 of the rank's list): the disk is full");
}

TEST_F(UserActions, NeedACallbackEach) {
  actions["begin"] = [](const UserAction &) { return llvm::Error::success(); };
  set();
  auto made = Session::create(*loaded.program, options);
  ASSERT_FALSE(bool(made));
  std::string message = llvm::toString(made.takeError());
  EXPECT_TRUE(llvm::StringRef(message).ends_with(
      ": schedule 'mine', rank 0, position 2: call \"show\"(0.0) is an action of the embedding "
      "program: expected a callback for \"show\" (cleave/UserActions.h), found none"))
      << message;
}
} // namespace
