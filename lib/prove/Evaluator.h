//===- Evaluator.h - what ops make of values ------------------------*- C++ -*-===//
//
// Ops with a sharding rule are a core on one element of each dimension that they keep; the rule
// says which. What moves elements, adds and multiplies has its own meaning, and so have
// collectives. The placements of types are not read, but for the conversions that they define.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_EVALUATOR_H
#define CLEAVE_LIB_PROVE_EVALUATOR_H

#include "dialects/dist/Dist.h"
#include "dialects/sharding/ShardingRule.h"
#include "lib/prove/Fractions.h"
#include "lib/prove/Rows.h"

#include "llvm/ADT/StringSet.h"

#include <map>
#include <set>

namespace cleave::prove {

/// Further than any place or number of a program.
constexpr int64_t kFar = int64_t(1) << 50;

/// The tensor of a type, also while it is in flight; null if it is none.
inline mlir::RankedTensorType tensorOf(mlir::Type type) {
  return mlir::dyn_cast<mlir::RankedTensorType>(dist::valueTypeOf(type));
}
/// The digits over which a reduction with `dim` and `keepdim` goes; `result` gets the others.
llvm::SmallVector<Var> splitDims(mlir::Operation *op, const Tensor &value, Tensor &result);

/// The value with one digit for some of a dimension, which follow one another: an element of it is
/// a function of all places that these say, and of its own.
Tensor relaid(Terms &terms, Tensor value, unsigned dim, unsigned first, unsigned last);

/// Whether an op with this factor in its rule reads along it: parts of it alone say nothing.
bool isRead(const sharding::Factor &factor);

/// Says of a core what lemmas ask.
void tag(mlir::Operation *op, Core &core);
/// The same, of what counts rows and puts them in order.
void tagOfRows(mlir::Operation *op, unsigned result, Core &core);
/// A division, and a function of one number, in this type.
Core quotientOf(mlir::Type element);
Core functionOf(llvm::StringRef name, mlir::Type element);
/// A square root in this type.
Core rootOf(mlir::Type element);
/// A product in this type.
Core productOf(mlir::Type element);

/// Whether what may be infinite is added and taken off, by itself, in sums, or in what is linear in
/// it: these may be opened later.
bool takesOff(const Meaning &sum, const Terms &terms, Fractions &fractions);

/// Where values cut axes: the strides of digits that an axis lacks, by its name.
using AxisCuts = std::map<std::string, std::set<int64_t>>;
/// Of what is put together, along the dimension of the parts.
using PartSizes = std::vector<int64_t>;

class Evaluator {
public:
  /// `axes`: those of the mesh that the program runs on; none for the program of one device.
  /// `lookUps` are those of the program of one device, which is evaluated first: indices that it
  /// takes for rows of a table are such. `isFirst` of two programs of ranks takes its place. Cuts
  /// that axes lack are added to `missing`.
  Evaluator(Terms &terms, llvm::ArrayRef<Axis> axes, llvm::StringSet<> &lookUps, AxisCuts &missing,
            bool isFirst = false)
      : terms(terms), axes(axes), lookUps(lookUps), missing(missing),
        isFirst(isFirst || axes.empty()) {
    readAxes();
  }
  /// After axes got other digits.
  void readAxes() {
    places = placesOf(axes);
    llvm::SmallVector<Var> ranks = places;
    for (const Axis &axis : axes)
      if (axis.digits.size() > 1)
        ranks.push_back(axis.whole);
    if (!ranks.empty())
      terms.nameRanks(ranks);
  }

  /// Concatenations of parts of these sizes stay ops: those of the first program, and those of
  /// another one that are the same values.
  void keepJoins(std::set<PartSizes> sizes) { keptJoins = std::move(sizes); }
  /// After the first program made these terms.
  void beginSecond(size_t numTerms) { numFirstTerms = numTerms; }

  /// The values of the op's results. One that cannot be expressed is like nothing else; `unknown`
  /// then says why.
  std::vector<Tensor> evaluate(mlir::Operation *op, llvm::ArrayRef<const Tensor *> given,
                               std::string &unknown);
  /// What made them, by the file that has it: the name of a step of the log.
  llvm::StringRef getStep() const { return step; }
  /// What is only right where something is assumed.
  llvm::StringRef getNote() const { return note; }
  /// Whether what was assumed of the room of parts is what exchanges of their rows need.
  bool isRoomNeeded() const {
    return llvm::all_of(assumedRooms,
                        [&](const auto &entry) { return exchangedRows.contains(entry.getKey()); });
  }

  /// A value of which only the shape is known.
  /// `kind`: "unknown", of which not even that it is finite is known, or "argument".
  Tensor opaque(mlir::Type type, llvm::StringRef kind = "unknown");
  /// The rank's part of a dimension that these axes shard, major first. Nothing where parts have
  /// several sizes.
  std::optional<Tensor> shard(const Tensor &value, unsigned dim, llvm::ArrayRef<Axis> along);
  const Axis *findAxis(llvm::StringRef name) const;
  /// The sum of two values with the same shape.
  std::optional<Tensor> addValues(Tensor left, Tensor right);
  /// The product of two matrices.
  std::optional<Tensor> multiplyMatrices(Tensor left, Tensor right, mlir::Type element);
  /// The sum of the values of all ranks along these axes, or another reduction of them.
  std::optional<Tensor> reduce(const Tensor &value, dist::ReductionAttr reduction,
                               llvm::ArrayRef<Axis> along);
  /// Parts of these sizes along a dimension, one after the other; in as few digits as they permit,
  /// or in one.
  std::optional<Tensor> putTogether(std::vector<Tensor> parts, llvm::ArrayRef<int64_t> sizes,
                                    unsigned dim, bool inOneDigit = false);
  /// The sum over both lists of axes, of which ranks along `scattered` keep their parts.
  std::optional<Tensor> reduceMember(const Tensor &value, std::optional<mlir::ArrayAttr> summed,
                                     std::optional<mlir::ArrayAttr> scattered, unsigned dim);

private:
  Terms &terms;
  llvm::ArrayRef<Axis> axes;
  llvm::StringSet<> &lookUps;
  AxisCuts &missing;
  bool isFirst;
  llvm::StringRef step;
  std::string note;
  /// By what says which expert a row goes to: the least room that was assumed to suffice, and
  /// whether such rows were exchanged with no more room than that.
  llvm::StringMap<int64_t> assumedRooms;
  llvm::StringSet<> exchangedRows;
  std::set<PartSizes> keptJoins;
  size_t numFirstTerms = 0;
  /// The digits of the rank's places on all axes.
  llvm::SmallVector<Var> places;
  KnownTerms known;

  /// The operands of an op over the digits of its rule's factors.
  struct Factors {
    std::vector<llvm::SmallVector<Digit, 2>> digits;
    std::vector<Meaning> operands;
  };
  /// What a core reads and makes beside the digits that it keeps.
  struct Extent {
    llvm::SmallVector<llvm::SmallVector<Var, 2>> read;
    llvm::SmallVector<Index> results;
    llvm::SmallVector<int64_t> resultSizes;
  };
  using Build = llvm::function_ref<Meaning(llvm::ArrayRef<Meaning>, const Extent &)>;
  bool isChosen(llvm::ArrayRef<const Meaning *> meanings, Var place);
  /// What `make` makes of these, in each region of places where no condition on ranks' places that
  /// chooses between values is open (Concatenation.cpp).
  Meaning byCase(llvm::ArrayRef<Meaning> operands,
                 llvm::function_ref<Meaning(llvm::ArrayRef<Meaning>)> make);

  std::optional<llvm::SmallVector<Axis>> findAxes(mlir::ArrayAttr names) const;

  /// Adds a value, if there is one, in as few digits as it permits. Whether there is.
  bool append(std::optional<Tensor> value, std::vector<Tensor> &results);
  /// The same, where all operands read the place on an axis of several digits as one number: in
  /// that digit. Nothing if none is read so, or that does not do (SplitAxes.cpp).
  std::vector<Tensor> evaluateOnWholes(mlir::Operation *op, llvm::ArrayRef<const Tensor *> given);
  std::vector<Tensor> evaluatePlain(mlir::Operation *op, llvm::ArrayRef<const Tensor *> given,
                                    std::string &unknown);

  /// The factor of the rows where an op is evaluated on rows in an order, and how many there are.
  std::optional<std::pair<sharding::FactorId, int64_t>> rowFactor;
  sharding::ShardingRule ruleOf(mlir::Operation *op) const;

  // By sharding rule.
  std::optional<Factors> cutOperands(mlir::Operation *op, const sharding::ShardingRule &rule,
                                     llvm::ArrayRef<const Tensor *> operands);
  std::optional<Factors> cutAsTheyAre(mlir::Operation *op, const sharding::ShardingRule &rule,
                                      llvm::ArrayRef<const Tensor *> operands);
  /// The same, of operands whose dimensions are cut in ways that have no digits in common.
  std::optional<Factors> relayOperands(mlir::Operation *op, const sharding::ShardingRule &rule,
                                       llvm::ArrayRef<const Tensor *> operands);
  std::optional<Tensor> build(mlir::Operation *op, const sharding::ShardingRule &rule,
                              const Factors &factors, unsigned result, Build build);
  /// Of an op of elements: what `make` makes of one of each operand. Nothing where it makes
  /// nothing, or the op reads along a dimension.
  std::optional<Tensor>
  buildElements(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                llvm::function_ref<std::optional<Meaning>(llvm::ArrayRef<Meaning>)> make);
  bool evaluateByRule(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                      std::vector<Tensor> &results);

  // Arithmetic, constants, and parts of tensors.
  std::optional<Tensor> evaluateSpecial(mlir::Operation *op,
                                        llvm::ArrayRef<const Tensor *> operands);
  /// The product of each two elements, of values with the same shape.
  std::optional<Tensor> multiply(Tensor left, Tensor right, mlir::Type element);
  std::optional<Tensor> makeConstant(mlir::Operation *op);
  std::optional<Tensor> makeRange(mlir::Operation *op);
  std::optional<Tensor> slice(const Tensor &value, unsigned dim, int64_t start, int64_t step,
                              int64_t length);
  std::optional<Tensor> reshape(const Tensor &given, llvm::ArrayRef<int64_t> shape);
  std::optional<Tensor> reshapeCut(const Tensor &value, llvm::ArrayRef<int64_t> shape,
                                   llvm::ArrayRef<int64_t> strides);
  Tensor select(Tensor value, unsigned dim, int64_t place);
  bool evaluateParts(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                     std::vector<Tensor> &results);

  // Indices that are data, and what is over classes.
  /// What is marked is another number.
  struct Filled {
    int64_t number;
    Meaning mark;
  };
  Meaning isZero(const Meaning &difference);
  const Term *asOp(const Meaning &meaning) const;
  std::optional<Index> placeWhere(const Meaning &difference, const Meaning &meaning);
  std::optional<Meaning> whereUnmarked(const Meaning &difference, const Meaning &mark,
                                       const Meaning &meaning);
  void limit(const Meaning &meaning, const Meaning &mark, int64_t &low, int64_t &high);
  std::optional<Meaning> names(const Meaning &indices, const Index &place, int64_t rows,
                               std::optional<Filled> &filled);
  Meaning whereNamed(const Meaning &named, const Meaning &value, mlir::Type element);
  std::optional<Tensor> lookUp(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  std::optional<Tensor> addRows(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  std::optional<Tensor> zeroWhereMarked(mlir::Operation *op,
                                        llvm::ArrayRef<const Tensor *> operands);
  bool logLikelihood(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                     std::vector<Tensor> &results);
  Meaning maximum(Meaning meaning, llvm::ArrayRef<Var> over);
  std::optional<Tensor> overClasses(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  bool evaluateLookUp(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                      std::vector<Tensor> &results);

  // Statistics: norms, variances, normalization of batches; and running sums.
  Meaning product(const Meaning &left, const Meaning &right, mlir::Type element);
  Meaning square(const Meaning &meaning, mlir::Type element);
  std::optional<Tensor> stack(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  std::optional<Tensor> vectorNorm(mlir::Operation *op, const Tensor &value);
  std::optional<Tensor> variance(mlir::Operation *op, const Tensor &value);
  bool batchNorm(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                 std::vector<Tensor> &results);
  bool batchNormBackward(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                         std::vector<Tensor> &results);
  bool evaluateStatistics(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                          std::vector<Tensor> &results);
  std::optional<Tensor> runningSum(mlir::Operation *op, const Tensor &value);
  Tensor sumUpTo(const Tensor &value, unsigned dim);
  std::optional<Tensor> isBefore(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  std::optional<Tensor> chooseByPlace(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  bool evaluateOrder(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                     std::vector<Tensor> &results);

  // Places, shares and attention.
  Fractions fractionsOf(mlir::Type element) { return Fractions(terms, element, places, known); }
  std::optional<Guard> conditionOf(const Meaning &mark);
  Meaning choose(const Guard &holds, const Meaning &there, const Meaning &elsewhere);
  Meaning infinity(bool isNegative, mlir::Type element);
  std::optional<Tensor> fillByPlace(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  std::optional<Tensor> isLimit(mlir::Operation *op, const Tensor &value);
  bool isBottomWhereZero(const Meaning &greatest, const Meaning &total);
  std::optional<Meaning> fillLimit(const Meaning &value, const Meaning &mark, double number,
                                   mlir::Type element);
  std::optional<Tensor> selectByPlace(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  std::optional<Meaning> selectByCondition(const Tensor &value, unsigned dim, const Meaning &index,
                                           int64_t rows);
  bool mayBeOfFirst(const Meaning &meaning);
  std::optional<Tensor> concatenate(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  bool attention(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                 std::vector<Tensor> &results);

  // Integers that count rows, or say where they are (CountMeaning.cpp).
  std::optional<int64_t> boundOf(const Meaning &meaning);
  std::optional<int64_t> choicesOf(const Meaning &meaning);
  std::optional<Meaning> countEach(const Meaning &keys, llvm::ArrayRef<Var> rows,
                                   const Index &number, int64_t numbers);
  std::optional<Tensor> countKeys(mlir::Operation *op, const Tensor &keys,
                                  const std::optional<Meaning> &counting);
  std::optional<Tensor> joinParts(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  std::optional<Tensor> takePlaces(mlir::Operation *op, const Tensor &value, const Tensor &index);
  std::optional<Tensor> divide(Tensor value, int64_t by, bool takesRest);
  bool evaluateCounts(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                      std::vector<Tensor> &results);

  // Numbers of rows in parts (NumberMeaning.cpp).
  std::optional<RowPlaces> asPlaces(const Meaning &meaning);
  std::optional<RowNumbers> asNumbers(const Meaning &meaning);
  Meaning rowsUpTo(const RowPlaces &places, const Index &part, const Index &within);
  bool fitsIn(const RowPlaces &places, int64_t room);

  // Rows in an order (RowMeaning.cpp, RowRankMeaning.cpp, RowPartMeaning.cpp, GatheredMeaning.cpp,
  // ExchangeMeaning.cpp, GroupedMeaning.cpp).
  bool areAlike(const RowOrder &left, const RowOrder &right);
  Meaning isInPart(const RowOrder &order, llvm::ArrayRef<Var> row,
                   std::optional<Index> rank = std::nullopt);
  bool tryOwnForms(llvm::ArrayRef<Var> rows, llvm::ArrayRef<Axis> along,
                   llvm::function_ref<bool(llvm::ArrayRef<Var>)> visit);
  bool divideNumbers(mlir::Operation *op, const RowOrder &order, const std::vector<Tensor> &values,
                     std::vector<Tensor> &results);
  /// Rows by the rank that has each, then as they lie there; and their numbers.
  struct OwnRows {
    llvm::SmallVector<Var, 2> digits;
    RowPlaces places;
  };
  std::optional<OwnRows> asOwnRows(const RowOrder &order, const Tensor &numbers);
  std::optional<llvm::SmallVector<Var, 2>>
  byOwnPlace(const RowPlaces &places, llvm::ArrayRef<Var> rows, llvm::ArrayRef<Var> ranks);
  bool sortPart(mlir::Operation *op, const Rows &keys, std::vector<Tensor> &results);
  std::optional<Rows> takeOfPart(const Rows &value, unsigned dim, const Rows &index);
  std::optional<Rows> putInPart(const Rows &index, const Rows &values);
  std::optional<Rows> takePart(const Rows &rows, unsigned dim, const Tensor &index);
  std::optional<Rows> scatterRows(mlir::Operation *op, const Rows &rows);
  std::optional<Rows> rowsOnRanks(mlir::Operation *op, const Rows &rows);
  std::optional<Rows> keepRowsOnFirst(mlir::Operation *op, const Rows &rows);
  std::optional<Rows> onRanks(mlir::Operation *op, llvm::ArrayRef<const Tensor *> given,
                              std::optional<Tensor> &whole);
  std::optional<Rows> takePiece(mlir::Operation *op, const Tensor &value);
  std::optional<Rows> gatherParts(mlir::Operation *op, const Rows &rows);
  std::optional<Rows> swapRows(mlir::Operation *op, const Rows &rows);
  bool limitToPart(mlir::Operation *op, const RowOrder &order, unsigned operand, unsigned dim,
                   Tensor &value);
  bool areOwnPlaces(const Rows &rows);
  Meaning keyAt(const RowOrder &order, const Meaning &key, Tensor &value, unsigned dim);
  bool sortRows(mlir::Operation *op, const Tensor &keys, std::vector<Tensor> &results);
  std::optional<Rows> takeRows(const Tensor &value, unsigned dim, const Rows &index);
  std::optional<Tensor> putBack(mlir::Operation *op, const Tensor &into, const Rows &index,
                                const Rows &values);
  std::optional<Tensor> addBack(mlir::Operation *op, const Tensor &into, const Rows &index,
                                const Rows &values);
  bool evaluateEach(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                    std::vector<Tensor> &results);
  std::optional<Meaning> countBetween(const Meaning &targets, llvm::ArrayRef<Var> rows,
                                      llvm::ArrayRef<Axis> along, const Index &from,
                                      const Index &to, const RowOrder *part, mlir::Type element);
  bool countsRows(const Tensor &counts, const Meaning &targets, llvm::ArrayRef<Var> rows,
                  llvm::ArrayRef<Axis> along, bool isSent, const RowOrder *part,
                  mlir::Type element);
  std::optional<Meaning> ownKey(const RowOrder &order, const Meaning &key,
                                llvm::SmallVectorImpl<Var> &rows);
  std::optional<Rows> putByNumber(const Rows &index, const Rows &values);
  std::optional<Rows> takeByNumber(const Rows &value, unsigned dim, const Rows &index);
  std::optional<Rows> gatherNumbered(mlir::Operation *op, const Rows &rows);
  std::optional<Rows> sliceGathered(mlir::Operation *op, const Rows &rows);
  /// Numbers that ranks made of their own rows, of all rows.
  struct AllNumbers {
    llvm::SmallVector<Var, 2> digits;
    RowNumbers numbers;
    Meaning place, expert;
  };
  std::optional<AllNumbers> asAllNumbers(const Tensor &numbers, llvm::ArrayRef<Axis> along);
  std::optional<Rows> putAtNumbers(mlir::Operation *op, const Rows &index, const Rows &values);
  std::optional<Rows> takeGathered(const Rows &value, unsigned dim, const Rows &index);
  std::optional<Tensor> swapParts(mlir::Operation *op, const Tensor &value);
  bool isUnused(const Tensor &mark, const Rows &rows);
  std::optional<Rows> exchange(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  std::optional<Rows> chooseRows(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  std::optional<Rows> turnRows(const Rows &rows, unsigned dim, const Tensor &index);
  std::optional<Rows> fillBehind(mlir::Operation *op, const Rows &rows, const Tensor &mark);
  std::optional<Meaning> endOf(const RowOrder &order, const Index &group, int64_t groups,
                               const Meaning &like);
  std::optional<Index> firstOfTurned(const Tensor &ends, const RowOrder &order, int64_t groups);
  std::optional<Index> firstGroup(const Tensor &ends, const RowOrder &order, int64_t groups);
  std::optional<Rows> takeByKey(mlir::Operation *op, const Tensor &table, unsigned dim,
                                const Rows &index);
  std::optional<Tensor> addByKey(mlir::Operation *op, const Tensor &into, const Rows &index,
                                 const Rows &values);
  bool groupedProduct(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                      std::vector<Tensor> &results);
  bool evaluateRows(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                    std::vector<Tensor> &results);

  // Random numbers.
  std::optional<Tensor> draw(mlir::Operation *op, unsigned result,
                             llvm::ArrayRef<const Tensor *> operands);
  bool evaluateRandom(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                      std::vector<Tensor> &results);

  // Communication.
  bool evaluateDist(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                    std::vector<Tensor> &results);
  Tensor inOneDigit(const Tensor &value, unsigned dim);
  Tensor atPlaces(Tensor value, llvm::ArrayRef<Axis> along, llvm::ArrayRef<Var> places);
  std::optional<Tensor> gather(const Tensor &value, unsigned dim, llvm::ArrayRef<Axis> along);
  std::optional<Tensor> convert(mlir::Operation *op, const Tensor &value);
  std::optional<Tensor> shift(dist::ShiftOp op, const Tensor &value, llvm::ArrayRef<Axis> along);
};

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_EVALUATOR_H
