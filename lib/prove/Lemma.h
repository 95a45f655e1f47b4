//===- Lemma.h - what a proof rests on, by name ----------------------*- C++ -*-===//
//
// Each lemma is an equation that the prover takes for granted, with the place in the code where it
// is used. Tests execute each of them in PyTorch, and break each in turn: then something wrong is
// proved, or something right is not any more.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_LEMMA_H
#define CLEAVE_LIB_PROVE_LEMMA_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace cleave::prove {

// clang-format off
#define CLEAVE_PROVE_LEMMAS(X)                                                                     \
  /* Sums and conditions (Term.cpp, MakeTerm.cpp, Summands.cpp, Narrow.cpp, Factors.cpp, Conditions.cpp, SplitAxes.cpp) */                                   \
  X(ConditionHolds, "condition-holds", "a condition on places that all of them fulfil is none")    \
  X(ConditionSolved, "condition-solved", "of a sum over a digit that a condition fixes, one term is left, where the digit has that value") \
  X(ConditionChosen, "condition-chosen", "a sum over a digit that only a condition mentions counts the values that fulfil it") \
  X(ConditionOnDigits, "condition-on-digits", "of a number that lies in one block of its minor digits the major ones are known") \
  X(EqualPlaces, "equal-places", "where a condition says that two places are one, either stands for the other") \
  X(SumOfUnused, "sum-of-unused", "a sum over a digit that nothing depends on is as many times its term") \
  X(MergedDigits, "merged-digits", "two digits that are always read as one number are one digit")  \
  X(ReadInOrder, "read-in-order", "of digits that are read as one number only neighbours are one digit") \
  X(WholePlace, "whole-place", "a rank's place that is read as one number is one digit, however its axis is cut") \
  X(SumInwards, "sum-inwards", "a sum of values of a linear op is the op's value of the sum")      \
  X(FactorsApart, "factors-apart", "a sum of products is the product of the factors without its digits and of the sum of the others") \
  X(SumByPart, "sum-by-part", "a sum over places of parts that are put together is one over the places of each") \
  X(RowsOfPart, "rows-of-part", "what says which row of a part is named says which row of the whole") \
  X(LikeTerms, "like-terms", "of equal terms the coefficients are added")                          \
  X(LongSum, "long-sum", "a long sum is one value, whatever the order of its summands")             \
  X(JoinedIntervals, "joined-intervals", "what holds before a place and behind it holds everywhere") \
  X(JoinedPlace, "joined-place", "what holds at one place and beside it holds at both") \
  X(SumGoesOn, "sum-goes-on", "a sum over places, and one over those behind them, are one over all") \
  X(JoinedDifferences, "joined-differences", "what holds for each difference of two places, or at each place, holds everywhere") \
  X(PlacesAdd, "places-add", "places are integers: sums of them and of numbers are places")        \
  X(FactorOfLinear, "factor-of-linear", "a factor of a linear op's operand is one of its value")   \
  X(ProductCommutes, "product-commutes", "the factors of a product have no order")                 \
  X(ProductWithOne, "product-with-one", "a product with one is the other factor")                  \
  X(PartsOfWholes, "parts-of-wholes", "what ranks make of parts is a part of what is made of the wholes") \
  X(PartsAlike, "parts-alike", "what is made of parts that begin at one place is the part there of what is made of the wholes") \
  X(PartStays, "part-stays", "where none of its conditions is decided by where it is taken, a value is the part there of the whole") \
  X(ElementsAlike, "elements-alike", "what is made of elements at one place is the element there of what is made of the wholes") \
  X(MadeAgain, "made-again", "an op's value at places is what it makes of its operands there") \
  X(LinearOfZero, "linear-of-zero", "a linear op's value of zero is zero")                         \
  /* Arithmetic, constants, and parts (AtenMeaning.cpp, PartMeaning.cpp) */                            \
  X(Copy, "copy", "a copy in the same type is its operand")                                        \
  X(Reshape, "reshape", "a view has the same elements in row-major order")                         \
  X(RelaidDigits, "relaid-digits", "where a dimension cannot be cut, its elements are functions of all of them, each at its place") \
  X(Slice, "slice", "an element of a slice is one of the whole, 'start' later")                    \
  X(Select, "select", "a selected element is that at the index")                                   \
  X(Sum, "sum", "additions and subtractions are sums with factors")                                \
  X(Product, "product", "products of elements, and sums of them along a contracted dimension")     \
  X(BiasOnce, "bias-once", "'addmm' adds its bias once, not with each term")                       \
  X(Quotient, "quotient", "a quotient is linear in its numerator alone")                           \
  X(Constant, "constant", "filled tensors are numbers")                                            \
  X(Range, "range", "'arange' counts places from 'start'")                                         \
  /* Ops by their sharding rules (RuleMeaning.cpp) */                                              \
  X(WholeDims, "whole-dims", "an op reads along dimensions that its rule keeps whole")             \
  X(Mean, "mean", "a mean is the sum by the number of its terms")                                  \
  X(Move, "move", "ops that only move elements are changes of places")                             \
  X(ConversionIsOp, "conversion-is-op", "a conversion to another type is not linear")              \
  X(ChannelsAdd, "channels-add", "a convolution is the sum over its input channels, plus its bias, once") \
  X(GradientsTake, "gradients-take", "a convolution's gradient of its input takes the weight, that of the weight the input, that of the bias neither") \
  X(PartsOfComplex, "parts-of-complex", "a complex number is linear in its two parts, and they are in it") \
  X(LossByCount, "loss-by-count", "the gradient of a mean loss is by the number of elements")      \
  /* Indices that are data, and classes (LookupMeaning.cpp, ScatterMeaning.cpp) */                 \
  X(RowNamed, "row-named", "a row of a table is the sum of all rows, each times whether it is named") \
  X(MarkSaysWhere, "mark-says-where", "where a row is named, a mark on its index is one on places") \
  X(MarkLimits, "mark-limits", "an index that is not marked lies between the mark's limits")       \
  X(KnownPlace, "known-place", "an index that is a place names a row if it lies among them")       \
  X(SameLookUp, "same-look-up", "indices name rows if the program of one device looks them up so") \
  X(FilledRow, "filled-row", "a marked index names the row with which it is filled")               \
  X(PaddingRow, "padding-row", "an embedding's gradient has nothing at its padding row")           \
  X(ZeroWhereMarked, "zero-where-marked", "what is filled with zero where a mark holds is left elsewhere") \
  X(IgnoredClass, "ignored-class", "a target that is ignored counts at no class")                  \
  X(TargetsMean, "targets-mean", "a mean loss of targets is by the number of those that count")    \
  X(TargetsGradient, "targets-gradient", "and so is its gradient")                                 \
  X(MaxOfMax, "max-of-max", "a maximum of maxima is one maximum")                                  \
  X(LogSoftmax, "log-softmax", "the logarithm of a softmax is made of a maximum, exponentials and their sum") \
  X(LogSoftmaxGradient, "log-softmax-gradient", "its gradient takes off the sum of all, by the classes' shares") \
  X(RowsAdded, "rows-added", "'index_add' leaves what was there, plus each source at the row that it names") \
  /* Rows in an order that data decide (CountMeaning.cpp, NumberMeaning.cpp, RowMeaning.cpp, RowRankMeaning.cpp, RowPartMeaning.cpp, GatheredMeaning.cpp, GroupedMeaning.cpp, ExchangeMeaning.cpp) */ \
  X(Counted, "counted", "how many keys are a number is the sum of whether each is")                \
  X(MarkCounts, "mark-counts", "an integer that says whether a mark holds is 0 or 1") \
  X(CountConverted, "count-converted", "a type that has all integers up to a count holds the count") \
  X(PartsJoined, "parts-joined", "of joined parts each has its own places")                        \
  X(TakenAtPlaces, "taken-at-places", "what an index takes that is a place lies there")            \
  X(DividedPlace, "divided-place", "a place divided by as many as its minor digits count is that of its major ones") \
  X(SortedRows, "sorted-rows", "the indices of a sort take rows in its order")                     \
  X(PutBack, "put-back", "rows written where the indices of their sort say lie as before it")      \
  X(PartOfSorted, "part-of-sorted", "a rank's part of sorted rows are the rows that the order puts there") \
  X(ChosenOnce, "chosen-once", "an index along a dimension is one of its places, once")            \
  X(RowByItself, "row-by-itself", "what is made of each row by itself does not depend on their order") \
  X(RowOnRanks, "row-on-ranks", "what ranks that have rows in one order make of each row together is in that order") \
  X(GroupEnds, "group-ends", "groups that end where the rows of experts do have the experts' rows") \
  X(GroupedRows, "grouped-rows", "a row's product by group is the sum over experts of products, of which its own counts") \
  X(TurnedRows, "turned-rows", "rows that are turned round, and back by as many places, lie as before") \
  X(ZerosBehind, "zeros-behind", "where zeros fill the places behind the last group, the products of other rows are zero") \
  X(RowsForColumns, "rows-for-columns", "ranks that exchange parts of rows for parts of columns, in the order of their places, have all rows in order") \
  X(WithoutRow, "without-row", "zeros that lie at places without a row add nothing to a sum by key") \
  X(AddedByExpert, "added-by-expert", "of rows that are added by their experts' numbers a rank adds those of its own experts") \
  X(GatheredNumbers, "gathered-numbers", "in the parts of all ranks a row lies at its number") \
  X(NumberedRows, "numbered-rows", "by expert, then by rank, then as they lay, rows have numbers without gaps") \
  X(RowsExchanged, "rows-exchanged", "rows that are sent and come back are those that were sent, if both sides count alike") \
  /* Statistics, and what comes first (StatisticsMeaning.cpp, MergeSums.cpp, OrderMeaning.cpp) */    \
  X(Norm, "norm", "a Euclidean norm is the root of the sum of squares")                            \
  X(RootSquared, "root-squared", "the square of a root is what is under it")                       \
  X(Variance, "variance", "a variance is the mean of squares without the square of the mean")      \
  X(BatchNorm, "batch-norm", "a normalized batch is made of its mean and variance by channel")     \
  X(Concatenation, "concatenation", "a concatenation is at each place the part that lies there")    \
  X(Stack, "stack", "of stacked tensors each place has its own")                                   \
  X(RunningSum, "running-sum", "a running sum is the sum of what is not behind a place")           \
  X(SumBeforeBlock, "sum-before-block", "the sums of the blocks before, and the running sum within, are the running sum") \
  X(ChosenByPlace, "chosen-by-place", "'where' of a mark on places is each value where it counts") \
  /* Shares, attention, and what differs by place (Fractions.cpp, AttentionMeaning.cpp, PlaceMeaning.cpp) */ \
  X(ExpOfLog, "exp-of-log", "the exponential of a logarithm is what it is the logarithm of")       \
  X(ExpOfSum, "exp-of-sum", "the exponential of a sum is the product of exponentials")             \
  X(LogOfProduct, "log-of-product", "the logarithm of a product with an exponential adds its power") \
  X(LogOfNothing, "log-of-nothing", "a logarithm that is -inf where a condition on places holds is one of what is zero there") \
  X(FractionCancels, "fraction-cancels", "a positive factor above and below a fraction cancels")   \
  X(FractionsAdd, "fractions-add", "fractions of one positive denominator add")                    \
  X(Softmax, "softmax", "a softmax is exponentials by their sum")                                  \
  X(SoftmaxGradient, "softmax-gradient", "its gradient takes off the sum of what is above, by the shares") \
  X(Attention, "attention", "attention is a sum of values, by the shares of exponentials of scores") \
  X(AttentionGradient, "attention-gradient", "its gradients are sums over queries and over keys of that of each share") \
  X(AttentionToNothing, "attention-to-nothing", "where a mask leaves no key, attention and its logarithm are zero") \
  X(NothingLeft, "nothing-left", "exponentials of scores add up to zero where the greatest number of their mask is -inf") \
  X(ShareOfNothing, "share-of-nothing", "where a whole is zero its parts are, and so are their shares of any number in its place") \
  X(NoBottom, "no-bottom", "a number is not -inf, and what is positive is not zero") \
  X(CausalMask, "causal-mask", "a causal mask leaves the keys that are not behind the query")      \
  X(AnyTwoPlaces, "any-two-places", "a function of two places is one function, wherever both come from") \
  X(BlocksAround, "blocks-around", "blocks at all places before, or behind, or around a rank's are all blocks there") \
  X(FilledByPlace, "filled-by-place", "what is filled where a condition on places holds is left elsewhere") \
  X(SelectedByPlace, "selected-by-place", "slices at places are those of the whole")               \
  /* Random numbers (RandomMeaning.cpp) */                                                         \
  X(DrawByPlace, "draw-by-place", "a random number is a function of its place in the stream and in the tensor") \
  X(MemoryOrder, "memory-order", "'mt19937' deals out numbers in the order of memory")             \
  X(DropoutMask, "dropout-mask", "dropout is a product with noise")                                \
  /* Communication (DistMeaning.cpp), and the signature (Prove.cpp) */                             \
  X(ReduceSum, "reduce-sum", "a reduction adds the values of all ranks along the axes")            \
  X(ReduceMean, "reduce-mean", "an average is the sum by the number of ranks")                     \
  X(ReduceMax, "reduce-max", "a maximum over ranks is one over the digits of their places")        \
  X(ReduceSame, "reduce-same", "a minimum of what is the same on all ranks is that")               \
  X(Gather, "gather", "gathered parts lie in the order of the ranks' places")                      \
  X(Shard, "shard", "a rank's part is that at its place")                                          \
  X(OneDigit, "one-digit", "a place has the major digits of the run in which it lies")             \
  X(UnevenPart, "uneven-part", "parts of different sizes lie one after the other")                  \
  X(PartInZeros, "part-in-zeros", "a rank's part in zeros lies where it does in the whole")      \
  X(ValueInClass, "value-in-class", "what all classes of ranks make alike is taken at a class's places") \
  X(SameInClasses, "same-in-classes", "only what all classes of ranks make alike is one value of all") \
  X(ClassByPlace, "class-by-place", "what classes of ranks make is what the rank of each place does") \
  X(Broadcast, "broadcast", "all ranks have what the root has")                                    \
  X(Shift, "shift", "a rank has what the one 'by' places before it had")                           \
  X(AxisIndex, "axis-index", "places along several axes count like digits, major first")           \
  X(FirstKeeps, "first-keeps", "of what all have, as a term of a sum, only the first rank's counts") \
  X(PartialResult, "partial-result", "results that are terms of a sum are added up")
// clang-format on

enum class Lemma : uint8_t {
#define CLEAVE_PROVE_LEMMA(id, name, claim) id,
  CLEAVE_PROVE_LEMMAS(CLEAVE_PROVE_LEMMA)
#undef CLEAVE_PROVE_LEMMA
};

struct LemmaInfo {
  Lemma lemma;
  llvm::StringRef name, claim;
};

/// All lemmas, in the order of the table.
llvm::ArrayRef<LemmaInfo> getLemmas();
std::optional<Lemma> findLemma(llvm::StringRef name);

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_LEMMA_H
