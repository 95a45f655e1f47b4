//===- TermTest.cpp - equal values have one form, others do not -------------===//

#include "lib/prove/Tensor.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;

namespace {

class TermTest : public ::testing::Test {
protected:
  Terms terms;

  Var digit(int64_t size) { return terms.variables.make(size); }
  Meaning matrix(llvm::StringRef name, Index row, Index column) {
    return terms.leaf(name, {8, 8}, {row, column});
  }
  Core product() {
    Core core;
    core.key = "product";
    core.linear = {{0}, {1}};
    core.isProduct = true;
    return core;
  }
  Meaning multiply(const Meaning &a, const Meaning &b) {
    return terms.apply(product(), {a, b}, {}, {}, {});
  }
  Meaning function(const char *name, const Meaning &a, bool isLinear = false) {
    Core core;
    core.key = name;
    if (isLinear)
      core.linear = {{0}};
    return terms.apply(core, a, {}, {}, {});
  }
  Index split(Var major, Var minor) {
    return Index::of(major, terms.variables.getSize(minor)) + Index::of(minor);
  }
};

TEST_F(TermTest, NumbersAreExact) {
  EXPECT_EQ(exactly(0.5), Rational(1, int64_t(2)));
  EXPECT_EQ(exactly(-6), Rational(-6));
  EXPECT_EQ(exactly(0), Rational(0));
  EXPECT_NE(exactly(0.1), Rational(1, int64_t(10)));
  EXPECT_EQ(exactly(std::ldexp(1.0, -1000)) * exactly(std::ldexp(1.0, 1000)), Rational(1));
}

TEST_F(TermTest, AContractionOfShardsIsTheWhole) {
  for (int64_t ranks : {2, 4, 8}) {
    Var i = digit(8), j = digit(8), k = digit(8), rank = digit(ranks), part = digit(8 / ranks);
    Meaning whole = terms.sum(
        multiply(matrix("a", Index::of(i), Index::of(k)), matrix("b", Index::of(k), Index::of(j))),
        k);
    Index place = split(rank, part);
    Meaning partial = terms.sum(
        multiply(matrix("a", Index::of(i), place), matrix("b", place, Index::of(j))), part);
    EXPECT_FALSE(terms.areEqual(partial, whole));
    EXPECT_TRUE(terms.areEqual(terms.sum(partial, rank), whole));
    // Twice is not once, and parts of two ranks are no product.
    EXPECT_TRUE(terms.areEqual(terms.sum(terms.sum(partial, rank), rank),
                               terms.scale(whole, Rational(ranks))));
    Var other = digit(ranks);
    Meaning crossed = terms.sum(
        multiply(matrix("a", Index::of(i), place), matrix("b", split(other, part), Index::of(j))),
        {part, rank, other});
    EXPECT_FALSE(terms.areEqual(crossed, whole));
  }
}

TEST_F(TermTest, SumsMoveThroughLinearFunctionsOnly) {
  Var rank = digit(2), i = digit(8);
  Meaning partial = terms.leaf("p", {2, 8}, {Index::of(rank), Index::of(i)});
  Meaning total = terms.sum(partial, rank);
  EXPECT_TRUE(
      terms.areEqual(terms.sum(function("f", partial, true), rank), function("f", total, true)));
  EXPECT_FALSE(terms.areEqual(terms.sum(function("g", partial), rank), function("g", total)));
  Meaning other = terms.leaf("q", {8}, Index::of(i));
  EXPECT_TRUE(terms.areEqual(terms.sum(multiply(partial, other), rank), multiply(other, total)));
  EXPECT_FALSE(terms.areEqual(terms.sum(multiply(partial, partial), rank), multiply(total, total)));
}

TEST_F(TermTest, FunctionsOfShardsArePartsOfFunctions) {
  Var i = digit(8), rank = digit(2), part = digit(4);
  Meaning whole = function("g", terms.leaf("x", {8}, Index::of(i)));
  Meaning shard = function("g", terms.leaf("x", {8}, split(rank, part)));
  EXPECT_EQ(whole[0].reference.term, shard[0].reference.term);
  Substitution places;
  places[i] = split(rank, part);
  substitute(whole, places);
  EXPECT_TRUE(terms.areEqual(whole, shard));
  EXPECT_FALSE(terms.areEqual(whole, function("g", terms.leaf("x", {8}, Index::of(part)))));
}

TEST_F(TermTest, WhatIsReadIsNotCut) {
  Var i = digit(8), rank = digit(2), part = digit(4);
  Core softmax;
  softmax.key = "softmax";
  auto read = [&](Index place, SmallVector<Var, 2> vars, Index result, int64_t size) {
    return terms.apply(softmax, terms.leaf("x", {8}, place), {vars}, {result}, {size});
  };
  Meaning whole = read(Index::of(i), {i}, Index::of(digit(8)), 8);
  Meaning shard = read(split(rank, part), {part}, Index::of(digit(4)), 4);
  EXPECT_NE(whole[0].reference.term, shard[0].reference.term);
  Var major = digit(2), minor = digit(4);
  Meaning gathered = read(split(major, minor), {major, minor}, Index::of(digit(8)), 8);
  EXPECT_EQ(whole[0].reference.term, gathered[0].reference.term);
}

TEST_F(TermTest, GuardsSelect) {
  Var rank = digit(4), i = digit(8);
  Meaning x = terms.leaf("x", {8}, Index::of(i));
  Meaning first = x;
  first[0].guards.push_back({Index::of(rank), 0, 1});
  EXPECT_TRUE(terms.areEqual(terms.sum(first, rank), x));
  Meaning two = x;
  two[0].guards.push_back({Index::of(rank), 0, 2});
  EXPECT_FALSE(terms.areEqual(terms.sum(two, rank), x));
  Meaning never = x;
  never[0].guards.push_back({Index::of(rank), 4, 5});
  EXPECT_TRUE(terms.areEqual(terms.sum(never, rank), {}));
  // Padding with zeros, and the sum of all that was padded.
  Var part = digit(2), place = digit(4);
  Meaning padded = terms.leaf("x", {8}, split(rank, part));
  padded[0].guards.push_back({Index::of(place) - Index::of(rank), 0, 1});
  EXPECT_TRUE(terms.areEqual(terms.sum(padded, rank), terms.leaf("x", {8}, split(place, part))));
}

TEST_F(TermTest, OneOfAllIntervalsHolds) {
  Var rank = digit(4), i = digit(8);
  auto between = [&](int64_t stride, int64_t low, int64_t high) {
    Meaning x = terms.leaf("x", {8}, Index::of(i));
    x[0].guards.push_back({Index::of(i) + Index::of(rank, stride), low, high});
    return terms.sum(x, rank);
  };
  Meaning x = terms.leaf("x", {8}, Index::of(i));
  EXPECT_TRUE(terms.areEqual(between(-2, 0, 2), x));
  EXPECT_TRUE(terms.areEqual(between(2, 6, 8), x));
  // An interval too wide, too narrow, or that the last rank does not reach.
  EXPECT_FALSE(terms.areEqual(between(-2, 0, 3), x));
  EXPECT_FALSE(terms.areEqual(between(-2, 0, 1), x));
  EXPECT_FALSE(terms.areEqual(between(-1, 0, 1), x));
  EXPECT_FALSE(terms.areEqual(between(2, 0, 2), x));
}

TEST_F(TermTest, PositionsAreNumbers) {
  Var i = digit(4), rank = digit(2);
  Meaning sum = terms.add(terms.scale(terms.position(Index::of(rank)), Rational(4)),
                          terms.position(Index::of(i)));
  EXPECT_TRUE(terms.areEqual(sum, terms.position(split(rank, i))));
  EXPECT_EQ(*terms.asPosition(sum), split(rank, i));
  EXPECT_TRUE(terms.areEqual(terms.add(sum, terms.number(Rational(3))),
                             terms.position(split(rank, i) + Index(3))));
  EXPECT_FALSE(terms.areEqual(sum, terms.position(Index::of(i))));
}

TEST_F(TermTest, AnAxisOfOneRankIsNone) {
  Var rank = digit(1), i = digit(8);
  Meaning x = terms.leaf("x", {8}, Index::of(rank, 8) + Index::of(i));
  EXPECT_TRUE(terms.areEqual(terms.sum(x, rank), terms.leaf("x", {8}, Index::of(i))));
}

TEST_F(TermTest, RanksAreNotEnumerated) {
  size_t sizes[2];
  for (unsigned i = 0; i < 2; ++i) {
    int64_t ranks = i ? int64_t(1) << 20 : 64;
    Terms own;
    Var rank = own.variables.make(ranks), part = own.variables.make(4);
    Meaning x = own.leaf("x", {ranks * 4}, Index::of(rank, 4) + Index::of(part));
    Meaning total = own.sum(own.sum(x, part), rank);
    Var whole = own.variables.make(ranks * 4);
    EXPECT_TRUE(own.areEqual(total, own.sum(own.leaf("x", {ranks * 4}, Index::of(whole)), whole)));
    sizes[i] = own.size();
  }
  EXPECT_EQ(sizes[0], sizes[1]);
}

} // namespace
