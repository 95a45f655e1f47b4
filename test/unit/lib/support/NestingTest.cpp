//===- NestingTest.cpp - how deep brackets of a text are nested ----------------===//

#include "lib/support/Nesting.h"

#include "gtest/gtest.h"

using namespace cleave::support;

static std::string repeat(llvm::StringRef text, unsigned times) {
  std::string result;
  for (unsigned i = 0; i < times; ++i)
    result += text;
  return result;
}

static std::string messageOf(const std::string &text) {
  return llvm::toString(checkNesting(text, "f"));
}

TEST(Nesting, CountsBracketsOfEachKind) {
  for (auto [open, close] : {std::pair("(", ")"), {"[", "]"}, {"{", "}"}, {"<", ">"}}) {
    EXPECT_EQ(messageOf(repeat(open, kMaxNesting) + repeat(close, kMaxNesting)), "") << open;
    EXPECT_EQ(messageOf("\n\n" + repeat(open, kMaxNesting + 1)),
              "f:3: expected brackets nested at most 256 deep, found more")
        << open;
  }
  EXPECT_NE(messageOf(repeat("{\"a\": [", kMaxNesting)), "");
}

TEST(Nesting, CountsOnlyWhatIsOpen) {
  EXPECT_EQ(messageOf(repeat("([{<>}])", 10 * kMaxNesting)), "");
  EXPECT_EQ(messageOf(repeat("() -> ()\n", 10 * kMaxNesting)), "");
  // An arrow does not close what is open.
  EXPECT_NE(messageOf(repeat("<->", kMaxNesting + 1)), "");
  EXPECT_EQ(messageOf(")))" + repeat("(", kMaxNesting)), "");
}

TEST(Nesting, StringsAndCommentsHoldAnything) {
  std::string open = repeat("[", 2 * kMaxNesting);
  EXPECT_EQ(messageOf("\"" + open + "\""), "");
  EXPECT_EQ(messageOf("\"\\\"" + open + "\""), "");
  EXPECT_EQ(messageOf("// " + open + "\n{}"), "");
  EXPECT_NE(messageOf("\"\\\\\"" + open), "");
  EXPECT_NE(messageOf("// a comment\n" + open), "");
  EXPECT_EQ(messageOf("\"" + open), "");
  EXPECT_EQ(messageOf("\"\\"), "");
}

TEST(Nesting, StopsWhereNoTextGoesOn) {
  EXPECT_EQ(messageOf(std::string(1, '\0') + repeat("[", 2 * kMaxNesting)), "");
}
