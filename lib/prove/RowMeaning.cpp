//===- RowMeaning.cpp - rows sorted, worked on one by one, and put back -----===//
//
// A stable sort puts rows in an order; its indices take rows of other tensors in the same order,
// and put them back. In between, an op that works on each row by itself makes of each what it would
// where the row was, and a sum over rows is one in any order.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/View.h"
#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using sharding::FactorId;
using sharding::FactorReduction;
using sharding::OpKind;
using sharding::ShardingRule;

ShardingRule Evaluator::ruleOf(Operation *op) const {
  ShardingRule rule = sharding::getShardingRule(op);
  if (rowFactor)
    rule.factors[rowFactor->first].size = rowFactor->second;
  return rule;
}

//===----------------------------------------------------------------------===//
// Orders
//===----------------------------------------------------------------------===//

bool Evaluator::areAlike(const RowOrder &left, const RowOrder &right) {
  return &left == &right ||
         (left.kind == right.kind && areSame(left.along, right.along) &&
          !left.part == !right.part && (!left.part || areAlike(*left.part, *right.part)) &&
          terms.areEqual(left.turn, right.turn) && terms.areEqual(left.here, right.here) &&
          areEqual(terms, {{left.digits}, left.key}, {{right.digits}, right.key}));
}

/// Whether the rows are integers, each the place of its row before it was sorted.
bool Evaluator::areOwnPlaces(const Rows &rows) {
  std::optional<Index> place = terms.asPosition(rows.value.meaning);
  return place && *place == placeIn(rows.value.dims[rows.dim], terms.variables);
}

/// A key of the order over the digits that dimension `dim` of `value` has, which are cut where the
/// order's are.
Meaning Evaluator::keyAt(const RowOrder &order, const Meaning &key, Tensor &value, unsigned dim) {
  Tensor keys{{order.digits}, key};
  Substitution digits;
  if (!cutAlike(terms, value, dim, keys, 0, digits))
    return {};
  substitute(keys.meaning, digits);
  return terms.normalize(std::move(keys.meaning));
}

bool Evaluator::sortRows(Operation *op, const Tensor &keys, std::vector<Tensor> &results) {
  auto sort = dyn_cast<aten::SortStableOp>(op);
  RankedTensorType type = sort ? tensorOf(sort.getSelf().getType()) : nullptr;
  // Elements that are equal may be in any order where it is not stable.
  if (!sort || !sort.getStable().value_or(false) || sort.getDescending().value_or(false) ||
      type.getRank() == 0 || !type.getElementType().isSignlessInteger(64))
    return false;
  int64_t dim = sort.getDim().value_or(-1);
  dim += dim < 0 ? type.getRank() : 0;
  // One order for all.
  for (auto [i, digits] : llvm::enumerate(keys.dims))
    if (int64_t(i) != dim && !digits.empty())
      return false;
  if (keys.dims[dim].empty())
    return false;
  auto order = std::make_shared<RowOrder>();
  order->kind = RowOrder::Kind::Sorted;
  order->digits = keys.dims[dim];
  order->key = order->expert = keys.meaning;
  Tensor values{keys.dims, keys.meaning};
  Tensor places{keys.dims, terms.position(placeIn(keys.dims[dim], terms.variables))};
  coarsen(terms, places);
  results[0].rows = std::make_shared<Rows>(Rows{std::move(values), unsigned(dim), order});
  results[1].rows = std::make_shared<Rows>(Rows{std::move(places), unsigned(dim), order});
  return true;
}

/// Whether the digits are those of all rows that were sorted.
static bool isWhole(const RowOrder &order) {
  return order.kind == RowOrder::Kind::Sorted || order.kind == RowOrder::Kind::Part;
}

/// The rows of a value that sorted indices name.
std::optional<Rows> Evaluator::takeRows(const Tensor &value, unsigned dim, const Rows &index) {
  if (index.value.dims.size() != 1 || value.dims.empty() || !isWhole(*index.order))
    return std::nullopt;
  // What the value's digits cut, the index's are to cut, too.
  Tensor at = withOwnDigits(terms, index.value);
  for (const Digit &digit : digitsOf(value.dims[dim], terms.variables)) {
    std::optional<Index> place = terms.asPosition(at.meaning);
    if (!place)
      return std::nullopt;
    for (const Digit &own : digitsOf(at.dims[0], terms.variables)) {
      int64_t step = place->getCoefficient(own.var);
      if (step > 0 && step < digit.stride && digit.stride < step * own.size &&
          digit.stride % step == 0 && !cut(terms, at, 0, {own.stride * (digit.stride / step)}))
        return std::nullopt;
    }
  }
  std::optional<Index> place = terms.asPosition(at.meaning);
  if (!place)
    return std::nullopt;
  auto places = splitIndex(*place, value.dims[dim], terms.variables);
  if (!places)
    return std::nullopt;
  if (terms.breaks(Lemma::SortedRows))
    places->assign(places->size(), Index());
  return Rows{takeAt(terms, value, dim, *places, at.dims[0]), dim, index.order};
}

/// Rows where they were before they were sorted. All of them are there, or those of this rank's
/// part, and zero elsewhere.
std::optional<Tensor> Evaluator::putBack(Operation *op, const Tensor &into, const Rows &index,
                                         const Rows &values) {
  if (!isWhole(*index.order) ||
      !(areAlike(*index.order, *values.order) || terms.breaks(Lemma::PutBack)) ||
      !areOwnPlaces(index))
    return std::nullopt;
  Tensor result = values.value;
  if (index.order->kind == RowOrder::Kind::Part) {
    if (!into.meaning.empty())
      return std::nullopt;
    Type element = tensorOf(op->getResult(0).getType()).getElementType();
    result.meaning =
        terms.apply(productOf(element),
                    {result.meaning, isInPart(*values.order, result.dims[values.dim])}, {}, {}, {});
  }
  return result;
}

/// Rows added where sorted indices say.
std::optional<Tensor> Evaluator::addBack(Operation *op, const Tensor &into, const Rows &index,
                                         const Rows &values) {
  if (!isWhole(*index.order) || values.dim != 0 || !areAlike(*index.order, *values.order) ||
      index.value.dims.size() != 1)
    return std::nullopt;
  Tensor rows = withOwnDigits(terms, values.value), at = index.value;
  if (values.order->kind == RowOrder::Kind::Part)
    rows.meaning = terms.apply(productOf(tensorOf(op->getResult(0).getType()).getElementType()),
                               {rows.meaning, isInPart(*values.order, rows.dims[0])}, {}, {}, {});
  Substitution digits;
  if (!cutAlike(terms, rows, 0, at, 0, digits))
    return std::nullopt;
  substitute(at.meaning, digits);
  std::optional<Index> place = terms.asPosition(at.meaning);
  if (!place)
    return std::nullopt;
  Tensor result = into;
  auto [least, greatest] = terms.variables.getRange(*place);
  if (least < 0 || greatest >= sizeOf(result.dims[0], terms.variables))
    return std::nullopt;
  Substitution alike;
  for (unsigned dim = 1; dim < result.dims.size(); ++dim)
    if (!cutAlike(terms, result, dim, rows, dim, alike))
      return std::nullopt;
  substitute(rows.meaning, alike);
  // Digit by digit, where the result can be cut so: each then gives a row's digit.
  SmallVector<int64_t> strides;
  for (const Index::Part &part : place->getParts())
    strides.push_back(part.coefficient);
  std::optional<SmallVector<Index, 2>> places;
  if (llvm::all_of(strides, [](int64_t stride) { return stride > 0; }) &&
      cut(terms, result, 0, strides))
    places = splitIndex(*place, result.dims[0], terms.variables);
  for (Summand &summand : rows.meaning) {
    if (!places)
      summand.guards.push_back({*place - placeIn(result.dims[0], terms.variables), 0, 1});
    else
      for (auto [at, digit] : llvm::zip(*places, result.dims[0]))
        summand.guards.push_back({at - Index::of(digit), 0, 1});
  }
  result.meaning =
      terms.add(std::move(result.meaning), terms.sum(std::move(rows.meaning), rows.dims[0]));
  coarsen(terms, result);
  return result;
}

//===----------------------------------------------------------------------===//
// Each row by itself
//===----------------------------------------------------------------------===//

/// The factor that a dimension is, but for those of size 1.
static std::optional<FactorId> factorOf(const ShardingRule &rule,
                                        const sharding::DimFactors &factors) {
  std::optional<FactorId> found;
  for (FactorId factor : factors) {
    if (rule.factors[factor].size == 1)
      continue;
    if (found)
      return std::nullopt;
    found = factor;
  }
  return found;
}

/// An op that works on each row by itself, or adds rows up.
bool Evaluator::evaluateEach(Operation *op, ArrayRef<const Tensor *> operands,
                             std::vector<Tensor> &results) {
  ShardingRule rule = sharding::getShardingRule(op);
  if (rule.isOpaque() || (rule.kind != OpKind::Compute && rule.kind != OpKind::View))
    return false;
  std::optional<FactorId> factor;
  std::shared_ptr<const RowOrder> order;
  int64_t size = 0;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    const Rows *rows = operand->rows.get();
    if (!rows)
      continue;
    std::optional<FactorId> own = factorOf(rule, rule.operands[i][rows->dim]);
    if (!own || (factor && *factor != *own) || rows->isPlaceElsewhere ||
        rows->order->kind == RowOrder::Kind::TurnedFirst ||
        (order && !areAlike(*order, *rows->order)))
      return false;
    factor = own;
    order = rows->order;
    size = sizeOf(rows->value.dims[rows->dim], terms.variables);
  }
  if (!factor || isRead(rule.factors[*factor]) || rule.factors[*factor].size == 1)
    return false;
  // Where it is, it has a dimension to itself.
  auto dimOf = [&](const sharding::TensorFactors &tensor) -> std::optional<unsigned> {
    for (auto [dim, factors] : llvm::enumerate(tensor))
      if (factorOf(rule, factors) == factor)
        return dim;
    return std::nullopt;
  };
  std::vector<Tensor> values;
  values.reserve(operands.size());
  for (auto [i, operand] : llvm::enumerate(operands)) {
    if (operand->rows) {
      values.push_back(withOwnDigits(terms, operand->rows->value));
      continue;
    }
    Tensor &value = values.emplace_back(withOwnDigits(terms, *operand));
    if (!ShardingRule::contains(rule.operands[i], *factor))
      continue;
    std::optional<unsigned> dim = dimOf(rule.operands[i]);
    if (!dim)
      return false;
    // The same for all places; or the place itself, which is the row's in the order of the keys.
    SmallVector<Var, 2> digits = value.dims[*dim];
    bool isSame =
        llvm::none_of(digits, [&](Var digit) { return terms.mentions(value.meaning, digit); });
    value.dims[*dim].clear();
    for (Var digit : order->digits)
      value.dims[*dim].push_back(terms.variables.make(terms.variables.getSize(digit)));
    if (isSame)
      continue;
    std::optional<Index> place = terms.asPosition(value.meaning);
    Index own = placeIn(digits, terms.variables);
    if (!place || digits.empty() || order->kind != RowOrder::Kind::Sorted)
      return false;
    int64_t step = place->getCoefficient(digits.back());
    Index rest = *place - own * step;
    if (llvm::any_of(digits, [&](Var digit) { return rest.getCoefficient(digit) != 0; }))
      return false;
    Core core;
    core.key = "place in order";
    core.tag = Core::Tag::PlaceInOrder;
    Meaning key = order->key;
    SmallVector<Var, 2> read = rename(terms, key, order->digits);
    Meaning made = terms.apply(core, {key}, {read}, {placeIn(value.dims[*dim], terms.variables)},
                               {sizeOf(value.dims[*dim], terms.variables)});
    value.meaning = terms.add(terms.scale(std::move(made), Rational(step)), terms.position(rest));
  }
  for (const sharding::TensorFactors &tensor : rule.results)
    if (ShardingRule::contains(tensor, *factor) && !dimOf(tensor))
      return false;
  bool isPart = order->kind == RowOrder::Kind::Part;
  if (isPart && llvm::any_of(rule.results, [&](const sharding::TensorFactors &tensor) {
        return !dimOf(tensor);
      })) {
    const auto *limited =
        llvm::find_if(operands, [](const Tensor *operand) { return operand->rows; });
    unsigned i = limited - operands.begin();
    if (!limitToPart(op, *order, i, (*limited)->rows->dim, values[i]))
      return false;
  }

  SmallVector<const Tensor *> given;
  for (const Tensor &value : values)
    given.push_back(&value);
  std::vector<Tensor> made;
  bool isCopy = isa<aten::CloneOp, aten::ToCopyOp, aten::AliasOp, aten::DetachOp>(op) &&
                tensorOf(op->getOperand(0).getType()).getElementType() ==
                    tensorOf(op->getResult(0).getType()).getElementType();
  auto evaluateGiven = [&](std::vector<Tensor> &made) {
    rowFactor = std::pair(*factor, size);
    if (isCopy)
      made.push_back(*given.front());
    else if (std::optional<Tensor> special = evaluateSpecial(op, given))
      made.push_back(std::move(*special));
    else if (!(isa<aten::ToCopyOp>(op) && evaluateCounts(op, given, made)) &&
             !(isPart && divideNumbers(op, *order, values, made)) &&
             !evaluateByRule(op, given, made))
      made.clear();
    rowFactor.reset();
    return made.size() == results.size();
  };
  if (!evaluateGiven(made))
    return false;
  // Where no row lies the op works on what lies there.
  std::vector<Tensor> elsewhere;
  for (auto [value, operand, given] : llvm::zip(values, operands, given))
    if (operand->rows && operand->rows->elsewhere)
      value = withOwnDigits(terms, *operand->rows->elsewhere);
  bool isKnown = llvm::all_of(
      operands, [](const Tensor *operand) { return !operand->rows || operand->rows->elsewhere; });
  if (!isKnown || !evaluateGiven(elsewhere))
    elsewhere.clear();
  for (auto [i, value] : llvm::enumerate(made)) {
    if (std::optional<unsigned> dim = dimOf(rule.results[i])) {
      // Of a value without a meaning the shape is the tensor's.
      if (sizeOf(value.dims[*dim], terms.variables) != size)
        return false;
      if (terms.breaks(Lemma::RowByItself))
        value.meaning.clear();
      auto rows = std::make_shared<Rows>(Rows{std::move(value), *dim, order});
      if (!elsewhere.empty() && llvm::none_of(elsewhere[i].dims[*dim], [&](Var digit) {
            return terms.mentions(elsewhere[i].meaning, digit);
          }))
        rows->elsewhere = std::move(elsewhere[i]);
      results[i].rows = std::move(rows);
    } else if ((order->kind == RowOrder::Kind::Sorted || isPart) &&
               rule.reductionAt(*factor, i) == FactorReduction::Sum) {
      step = "rows";
      results[i] = std::move(value);
    } else {
      return false;
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// All ops
//===----------------------------------------------------------------------===//

bool Evaluator::evaluateRows(Operation *op, ArrayRef<const Tensor *> given,
                             std::vector<Tensor> &results) {
  if (isa<aten::SortStableOp>(op))
    return given[0]->rows ? sortPart(op, *given[0]->rows, results)
                          : sortRows(op, *given[0], results);
  auto rowsOf = [&](unsigned operand) { return given[operand]->rows.get(); };
  if (llvm::none_of(given, [](const Tensor *operand) { return operand->rows != nullptr; })) {
    if (isa<dist::ConvertOp>(op))
      if (std::optional<Rows> piece = takePiece(op, *given[0]))
        results[0].rows = std::make_shared<Rows>(std::move(*piece));
    return false;
  }
  auto takeRows = [&](std::optional<Rows> rows) {
    if (!rows)
      return false;
    results[0].rows = std::make_shared<Rows>(std::move(*rows));
    return true;
  };
  auto takeValue = [&](std::optional<Tensor> value) {
    if (!value)
      return false;
    step = "rows";
    value->rows.reset();
    value->meaning = terms.normalize(std::move(value->meaning));
    coarsen(terms, *value);
    results[0] = std::move(*value);
    return true;
  };
  if (op->getName().getDialectNamespace() == "dist") {
    std::optional<Tensor> whole;
    std::optional<Rows> rows = onRanks(op, given, whole);
    return takeRows(std::move(rows)) || takeValue(std::move(whole));
  }
  auto firstIndexOf = [&](auto indexed) {
    auto present = indexed.getIndicesPresent();
    return indexed.getIndices().size() == 1 && (!present || present->empty() || present->front());
  };
  if (isa<aten::IndexOp, aten::IndexSelectOp>(op)) {
    int64_t dim = 0;
    if (auto select = dyn_cast<aten::IndexSelectOp>(op))
      dim = select.getDim();
    else if (!firstIndexOf(cast<aten::IndexOp>(op)))
      return false;
    dim += dim < 0 ? given[0]->dims.size() : 0;
    const Rows *value = rowsOf(0), *index = rowsOf(1);
    if (!index) {
      std::optional<Rows> taken = value ? takePart(*value, dim, *given[1]) : std::nullopt;
      if (value && !taken)
        taken = turnRows(*value, dim, *given[1]);
      return taken ? takeRows(std::move(taken)) : value && evaluateEach(op, given, results);
    }
    if (value && index->isPlaceInPart)
      return takeRows(takeOfPart(*value, dim, *index));
    if (!value && !terms.asPosition(index->value.meaning))
      return takeRows(takeByKey(op, *given[0], dim, *index));
    if (value && value->order->kind == RowOrder::Kind::Gathered)
      return takeRows(takeGathered(*value, dim, *index));
    return takeRows(value ? takeByNumber(*value, dim, *index)
                          : this->takeRows(*given[0], dim, *index));
  }
  if (auto put = dyn_cast<aten::IndexPutOp>(op)) {
    const Rows *index = rowsOf(1), *values = given.size() == 3 ? rowsOf(2) : nullptr;
    auto into = tensorOf(put.getSelf().getType()), from = tensorOf(put.getValues().getType());
    auto at = tensorOf(op->getOperand(1).getType());
    if (!firstIndexOf(put) || !index || !values || at.getRank() != 1 || values->dim != 0 ||
        into.getElementType() != from.getElementType() ||
        into.getShape().drop_front() != from.getShape().drop_front() ||
        from.getDimSize(0) != at.getDimSize(0))
      return false;
    if (put.getAccumulate().value_or(false))
      return isa<FloatType>(into.getElementType()) &&
             takeValue(terms.asPosition(index->value.meaning)
                           ? addBack(op, *given[0], *index, *values)
                           : addByKey(op, *given[0], *index, *values));
    if (index->order->kind == RowOrder::Kind::Part)
      return into.getDimSize(0) == sizeOf(index->order->digits, terms.variables) &&
             takeValue(putBack(op, *given[0], *index, *values));
    if (index->order->kind == RowOrder::Kind::Sorted && !terms.asPosition(index->value.meaning))
      return takeRows(putAtNumbers(op, *index, *values));
    if (into.getShape() != from.getShape())
      return false;
    if (index->isPlaceInPart)
      return takeRows(putInPart(*index, *values));
    if (index->isPlaceElsewhere)
      return takeRows(putByNumber(*index, *values));
    return takeValue(putBack(op, *given[0], *index, *values));
  }
  if (auto scatter = dyn_cast<aten::ScatterSrcOp>(op)) {
    const Rows *index = rowsOf(1), *values = rowsOf(2);
    auto into = tensorOf(op->getOperand(0).getType());
    int64_t dim = scatter.getDim();
    dim += dim < 0 ? into.getRank() : 0;
    for (unsigned i : {1, 2})
      if (tensorOf(op->getOperand(i).getType()).getShape() != into.getShape())
        return false;
    return index && values && index->dim == dim && values->dim == dim &&
           index->order->kind == RowOrder::Kind::Sorted &&
           takeValue(putBack(op, *given[0], *index, *values));
  }
  if (isa<aten::FloorDivideScalarOp, aten::RemainderScalarOp>(op) && rowsOf(0) &&
      terms.asPosition(rowsOf(0)->value.meaning)) {
    auto by = op->getAttrOfType<IntegerAttr>("other");
    std::optional<Tensor> divided = by && by.getInt() > 0 ? divide(rowsOf(0)->value, by.getInt(),
                                                                   isa<aten::RemainderScalarOp>(op))
                                                          : std::nullopt;
    if (!divided || rowsOf(0)->isPlaceElsewhere)
      return false;
    return takeRows(Rows{std::move(*divided), rowsOf(0)->dim, rowsOf(0)->order});
  }
  if (isa<aten::WhereOp>(op))
    if (std::optional<Rows> chosen = chooseRows(op, given))
      return takeRows(std::move(chosen));
  if (isa<aten::MaskedFillScalarOp>(op) && rowsOf(0) && !rowsOf(1))
    if (std::optional<Rows> filled = fillBehind(op, *rowsOf(0), *given[1]))
      return takeRows(std::move(filled));
  if (isa<aten::GroupedMmOp>(op))
    return groupedProduct(op, given, results);
  if (isa<aten::HistcOp, aten::BincountOp>(op)) {
    const Rows &keys = *rowsOf(0);
    if (!isWhole(*keys.order) || keys.isPlaceElsewhere)
      return false;
    std::optional<Meaning> counting;
    if (keys.order->kind == RowOrder::Kind::Part)
      counting = isInPart(*keys.order, keys.value.dims[keys.dim]);
    return takeValue(countKeys(op, keys.value, counting));
  }
  return evaluateEach(op, given, results);
}
