//===- UserActionTest.cpp - actions of a schedule's own user --------------------===//

#include "cleave/Session.h"
#include "cleave/UserActions.h"
#include "test/unit/LoadProgram.h"

using namespace cleave::runtime;
using cleave::test::load;

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
  UserActions() : loaded(load(kProgram)) { options.microbatches = 2; }

  void create() {
    auto made = Session::create(*loaded, options);
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

  std::unique_ptr<Program> loaded;
  SessionOptions options;
  UserCallbacks &actions = options.actions;
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
  auto made = Session::create(*loaded, options);
  ASSERT_FALSE(bool(made));
  std::string message = llvm::toString(made.takeError());
  EXPECT_TRUE(llvm::StringRef(message).ends_with(
      ": schedule 'mine', rank 0, position 2: call \"show\"(0.0) is an action of the embedding "
      "program: expected a function @show or a callback for \"show\" (SessionOptions::actions), "
      "found neither"))
      << message;
}

//===----------------------------------------------------------------------===//
// Functions of the program
//===----------------------------------------------------------------------===//

/// Two stages on two ranks, the second of which has a buffer; the function and its call are given.
std::string programWith(const std::string &function, const std::string &lists) {
  return R"mlir(
module @actions {
  func.func @forward_0(%x: tensor<2xf32> {train.role = #train.role<input "x" batch 0>},
                       %w: tensor<2xf32> {train.role = #train.role<parameter "w">})
      -> (tensor<2xf32> {train.role = #train.role<crossing "y">})
      attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
    %0 = aten.mul(%x, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func @forward_1(%y: tensor<2xf32> {train.role = #train.role<crossing "y">},
                       %w: tensor<2xf32> {train.role = #train.role<parameter "w">},
                       %b: tensor<2xf32> {train.role = #train.role<buffer "b">})
      -> (tensor<2xf32> {train.role = #train.role<output "0" batch 0>})
      attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
    %0 = aten.add(%y, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %1 = aten.mul(%0, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
  )mlir" +
         function + "\n  pipeline.schedule @schedule \"mine\" " + lists + "\n}\n";
}

constexpr const char *kTwoRanks =
    R"(ranks 2 stages 2 microbatches 1 topology loop forward_only transfers explicit {
    rank 0: F0.0 sendF0.0
    rank 1: recvF1.0 call "double" F1.0
  })";
constexpr const char *kDouble = R"mlir(
  func.func @double(%b: tensor<2xf32> {train.role = #train.role<buffer "b">})
      -> (tensor<2xf32> {train.role = #train.role<buffer "b">},
          tensor<f32> {train.role = #train.role<output "sum">}) {
    %0 = aten.add(%b, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %1 = aten.sum(%0) : (tensor<2xf32>) -> tensor<f32>
    return %0, %1 : tensor<2xf32>, tensor<f32>
  })mlir";

std::vector<float> read(llvm::Expected<ConstTensorRef> tensor) {
  if (!tensor) {
    ADD_FAILURE() << llvm::toString(tensor.takeError());
    return {};
  }
  auto *data = reinterpret_cast<const float *>(tensor->data);
  return {data, data + tensor->type.numElements()};
}

void setAll(llvm::Expected<TensorRef> tensor, float value) {
  ASSERT_TRUE(bool(tensor)) << llvm::toString(tensor.takeError());
  auto *data = reinterpret_cast<float *>(tensor->data);
  std::fill_n(data, tensor->type.numElements(), value);
}

TEST(CalledFunctions, SeeAndChangeTheStateOfTheirPlace) {
  auto loaded = load(programWith(kDouble, R"(ranks 1 stages 2 microbatches 2 topology loop
      forward_only transfers implied {
    rank 0: F0.0 F1.0 call "double"(1.0) call "double" F0.1 F1.1
  })"));
  ASSERT_TRUE(loaded);
  SessionOptions options;
  options.microbatches = 2;
  options.keepOutputs = true;
  // A function of the program comes before a callback.
  options.actions["double"] = [](const UserAction &) -> llvm::Error {
    ADD_FAILURE() << "the callback is called";
    return llvm::Error::success();
  };
  std::vector<std::string> texts;
  options.onOp = [&](const OpEvent &event) {
    if (event.phase == Phase::Action)
      texts.push_back((getPhaseName(event.phase) + " " + event.name).str());
  };
  auto made = Session::create(*loaded, options);
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
  Session &session = **made;
  setAll(session.weight("w"), 3);
  setAll(session.weight("b"), 1);
  for (int64_t step : {1, 2}) {
    auto done = [](int64_t) { return llvm::Error::success(); };
    auto fillInput = [&](int64_t) {
      setAll(session.input("x"), 2);
      return llvm::Error::success();
    };
    ASSERT_EQ(llvm::toString(session.runMicrobatches(step, fillInput, done)), "");
    float before = step == 1 ? 1 : 4;
    auto outputs = session.keptOutputs("output.0");
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(read(outputs[0]).front(), (2 * 3 + before) * 3);
    EXPECT_EQ(read(outputs[1]).front(), (2 * 3 + 4 * before) * 3);
    EXPECT_EQ(read(session.result("buffer.b")), std::vector<float>(2, 4 * before));
    EXPECT_EQ(read(session.result("output.sum")), std::vector<float>{8 * before});
  }
  EXPECT_EQ(texts.size(), 8u);
  EXPECT_EQ(texts.front(), "action aten.add");
  auto outcomes = loaded->outcomes();
  EXPECT_TRUE(llvm::any_of(outcomes,
                           [](const ValueInfo &value) { return value.fileName == "output.sum"; }));
}

TEST(CalledFunctions, AreNotLeftOutByOneRank) {
  auto loaded = load(programWith(kDouble, kTwoRanks));
  ASSERT_TRUE(loaded);
  auto made = Session::create(*loaded, {});
  ASSERT_FALSE(bool(made));
  std::string message = llvm::toString(made.takeError());
  EXPECT_TRUE(llvm::StringRef(message).ends_with(
      ": call \"double\" of its schedule replaces 'buffer.b', so it needs the schedule's 2 ranks; "
      "one rank runs the stages without the schedule"))
      << message;
}

TEST(CalledFunctions, ThatOnlyReportMayBeLeftOut) {
  auto loaded = load(programWith(R"mlir(
  func.func @double(%b: tensor<2xf32> {train.role = #train.role<buffer "b">})
      -> (tensor<f32> {train.role = #train.role<output "sum">}) {
    %0 = aten.sum(%b) : (tensor<2xf32>) -> tensor<f32>
    return %0 : tensor<f32>
  })mlir",
                                 kTwoRanks));
  ASSERT_TRUE(loaded);
  auto made = Session::create(*loaded, {});
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
}

/// What a loaded program's error says of a function @double.
std::string errorOf(const std::string &function, const std::string &lists = kTwoRanks) {
  auto loaded = cleave::test::tryToLoad(programWith(function, lists));
  return loaded ? "" : llvm::toString(loaded.takeError());
}

TEST(CalledFunctions, AreRefusedWhereTheyDoNotFit) {
  auto function = [](const std::string &arguments, const std::string &results,
                     const std::string &body) {
    return "func.func @double(" + arguments + ") -> (" + results + ") {\n" + body + "\n}";
  };
  auto value = [](const std::string &role, const std::string &type = "tensor<2xf32>") {
    return type + " {train.role = #train.role<" + role + ">}";
  };
  std::string returnB = "return %b : tensor<2xf32>";
  struct Wrong {
    std::string function, message;
  } wrong[] = {
      {function("%b: " + value("input \"x\" batch 0"), value("output \"s\""), returnB),
       "expects parameters, buffers, constants, optimizer states and the step as arguments, found "
       "argument 0 with #train.role<input \"x\" batch 0>"},
      {function("%b: tensor<2xf32>", value("output \"s\""), returnB),
       "expects parameters, buffers, constants, optimizer states and the step as arguments, found "
       "argument 0 without a role"},
      {function("%b: " + value("buffer \"b\""), value("gradient \"w\""), returnB),
       "expects outputs and new values of its parameters, buffers and optimizer states as results, "
       "found result 0 with #train.role<gradient \"w\">"},
      {function("%b: " + value("buffer \"b\""), value("parameter \"w\""), returnB),
       "expects an argument that result 0, #train.role<parameter \"w\">, is the new value of"},
      {function("%b: " + value("buffer \"b\""), value("output \"0\""), returnB),
       "expects outputs with unique names, but another function returns "
       "#train.role<output \"0\">"},
      {function("%b: " + value("buffer \"c\""), value("output \"s\""), returnB),
       "takes 'buffer.c', which no phase function takes"},
      {function("%b: " + value("buffer \"b\"", "tensor<3xf32>"),
                value("output \"s\"", "tensor<3xf32>"), "return %b : tensor<3xf32>"),
       "takes 'buffer.b' as 'tensor<3xf32>', but other functions take it as 'tensor<2xf32>'"},
      {function("%b: " + value("parameter \"w\""), value("parameter \"w\""), returnB),
       "replaces 'param.w' on rank 1, but other ranks also hold it"},
  };
  for (const Wrong &each : wrong) {
    std::string message = errorOf(each.function);
    EXPECT_NE(message.find("rank 1, position 1: call \"double\" " + each.message),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("note: the function is here"), std::string::npos) << message;
  }
  // Of the other rank's stage.
  std::string lists =
      R"(ranks 2 stages 2 microbatches 1 topology loop forward_only transfers explicit {
    rank 0: F0.0 sendF0.0 call "double"
    rank 1: recvF1.0 F1.0
  })";
  EXPECT_NE(errorOf(kDouble, lists)
                .find("rank 0, position 2: call \"double\" takes 'buffer.b', which rank 0 does not "
                      "hold"),
            std::string::npos);
  // A phase's function is the schedule's own business.
  lists.replace(lists.find("double"), 6, "forward_0");
  EXPECT_NE(errorOf("", lists).find("rank 0, position 2: call \"forward_0\" expects a function "
                                    "without a phase, found one of phase forward"),
            std::string::npos);
}
} // namespace
