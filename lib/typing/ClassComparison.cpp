//===- ClassComparison.cpp - whether classes of ranks compute alike -----------===//
//
// Where shards are of different sizes, each class of ranks has functions of its own. All are one
// program: what they communicate and return has to be computed by the same ops with the same
// properties, of types that differ in the sizes of shards only. Else a value that is R would be one
// thing here and another one there, or ranks would send each other what does not fit.
//
// Values are numbered by how they are computed: those of two classes with one number are computed
// alike. The order of ops, copies and kernels may differ, as passes look at each function by
// itself.
//
//===----------------------------------------------------------------------===//

#include "lib/typing/ClassComparison.h"

#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/View.h"
#include "dialects/exec/Exec.h"
#include "dialects/sharding/ShardingRule.h"
#include "dialects/train/FunctionClasses.h"
#include "lib/typing/ConflictText.h"

#include <map>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;

namespace {

/// Numbers for values of all classes' functions of one phase.
class Numbering {
public:
  /// The number of a value by how it is computed.
  unsigned of(std::vector<const void *> key) {
    return numbers.try_emplace(std::move(key), numbers.size()).first->second;
  }

  SymbolTableCollection symbols;

private:
  std::map<std::vector<const void *>, unsigned> numbers;
};

/// The values of one function, numbered.
class NumberedFunction {
public:
  NumberedFunction(func::FuncOp function, Numbering &numbering);

  unsigned numberOf(Value value) const { return numbers.lookup(value); }
  /// The values that are computed so.
  ArrayRef<Value> find(unsigned number) const {
    auto found = values.find(number);
    return found == values.end() ? ArrayRef<Value>() : ArrayRef<Value>(found->second);
  }
  ArrayRef<Operation *> communication() const { return communicating; }

  func::FuncOp function;

private:
  void numberOp(Operation *op);
  void numberLaunch(exec::LaunchOp launch);

  Numbering &numbering;
  llvm::DenseMap<Value, unsigned> numbers;
  llvm::DenseMap<unsigned, SmallVector<Value, 1>> values;
  SmallVector<Operation *> communicating;
};

} // namespace

static const void *asKey(uint64_t number) {
  return reinterpret_cast<const void *>(number);
}

/// Whether the result is the operand, of its very type. (A transposed square matrix is not.)
static bool isIdentity(Operation *op) {
  return isa<aten::AliasOp, aten::DetachOp, aten::ViewOp, aten::ExpandOp, aten::SqueezeOp,
             aten::SqueezeDimOp, aten::SqueezeDimsOp, aten::CloneOp, aten::ToCopyOp,
             aten::UnsafeViewOp>(op) &&
         op->getOperand(0).getType() == op->getResult(0).getType();
}

/// The properties without those that repeat sizes, which are in the types.
static DictionaryAttr propertiesOf(Operation *op) {
  auto all = dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute());
  if (!all || !isa<sharding::ShardingRuleOpInterface>(op))
    return all;
  SmallVector<NamedAttribute> kept(all.getValue());
  for (const sharding::SizeAttribute &size : sharding::getShardingRule(op).sizeAttributes)
    llvm::erase_if(kept, [&](NamedAttribute each) { return each.getName() == size.name; });
  return DictionaryAttr::get(op->getContext(), kept);
}

static Attribute getFrom(DictionaryAttr properties, StringAttr name) {
  return properties ? properties.get(name) : Attribute();
}

/// A property that two ops do not have alike; an op without any has no dictionary.
static StringAttr findUnlike(DictionaryAttr a, DictionaryAttr b) {
  for (DictionaryAttr each : {a, b})
    for (NamedAttribute property : each ? each.getValue() : ArrayRef<NamedAttribute>())
      if (getFrom(a, property.getName()) != getFrom(b, property.getName()))
        return property.getName();
  return {};
}

static Attribute encodingOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(dist::valueTypeOf(type));
  return tensor ? tensor.getEncoding() : Attribute();
}

NumberedFunction::NumberedFunction(func::FuncOp function, Numbering &numbering)
    : function(function), numbering(numbering) {
  for (BlockArgument argument : function.getArguments())
    numbers[argument] = numbering.of({asKey(argument.getArgNumber())});
  for (Operation &op : function.front().without_terminator()) {
    if (auto launch = dyn_cast<exec::LaunchOp>(op))
      numberLaunch(launch);
    else
      numberOp(&op);
    for (Value result : op.getResults())
      values[numbers[result]].push_back(result);
  }
}

void NumberedFunction::numberOp(Operation *op) {
  if (isIdentity(op)) {
    numbers[op->getResult(0)] = numbers[op->getOperand(0)];
    return;
  }
  std::vector<const void *> key = {op->getName().getAsOpaquePointer()};
  if (isa<dist::CommunicationOpInterface>(op)) {
    // What is sent is compared apart; what comes back is that of this communication.
    key.push_back(asKey(communicating.size()));
    communicating.push_back(op);
  } else {
    key.push_back(propertiesOf(op).getAsOpaquePointer());
    for (Value operand : op->getOperands())
      key.push_back(asKey(numbers.lookup(operand)));
    // Conversions are distinguished only by their types.
    if (isa<dist::DistDialect>(op->getDialect()))
      for (Type type : op->getResultTypes())
        key.push_back(encodingOf(type).getAsOpaquePointer());
  }
  key.push_back(nullptr);
  for (OpResult result : op->getResults()) {
    key.back() = asKey(result.getResultNumber());
    numbers[result] = numbering.of(key);
  }
}

/// A kernel's ops count as the launch's.
void NumberedFunction::numberLaunch(exec::LaunchOp launch) {
  auto kernel = numbering.symbols.lookupNearestSymbolFrom<exec::KernelOp>(launch.getOperation(),
                                                                          launch.getKernelAttr());
  for (auto [argument, operand] : llvm::zip_equal(kernel.getArguments(), launch.getOperands()))
    numbers[argument] = numbers.lookup(operand);
  Block &body = kernel.getBody().front();
  for (Operation &op : body.without_terminator())
    numberOp(&op);
  for (auto [result, returned] :
       llvm::zip_equal(launch.getResults(), body.getTerminator()->getOperands()))
    numbers[result] = numbers.lookup(returned);
}

//===----------------------------------------------------------------------===//
// Two classes
//===----------------------------------------------------------------------===//

namespace {

class Comparison {
public:
  Comparison(const NumberedFunction &one, const NumberedFunction &other, DictionaryAttr ranks)
      : one(one), other(other), ranks(ranks) {}
  LogicalResult run();

private:
  bool fit(Type a, Type b) const;
  LogicalResult checkTypes() const;
  LogicalResult compare(ValueRange a, ValueRange b, Operation *user) const;
  LogicalResult explain(Value a, Value b, Operation *user) const;

  const NumberedFunction &one, &other;
  /// In the other class.
  DictionaryAttr ranks;
};

} // namespace

/// What varies over the ranks of different classes may be of any size.
bool Comparison::fit(Type a, Type b) const {
  a = dist::valueTypeOf(a), b = dist::valueTypeOf(b);
  if (train::differInShardsOnly(a, b))
    return true;
  dist::PlacementAttr placement = dist::getPlacement(a);
  if (!placement || placement != dist::getPlacement(b))
    return false;
  bool varies = llvm::any_of(ranks, [&](NamedAttribute axis) {
    std::optional<dist::AxisPlacement> along = placement.get(axis.getName());
    return along && along->isVarying();
  });
  auto tensorA = cast<RankedTensorType>(a), tensorB = cast<RankedTensorType>(b);
  return varies && tensorA.getElementType() == tensorB.getElementType() &&
         tensorA.getRank() == tensorB.getRank();
}

LogicalResult Comparison::checkTypes() const {
  for (Operation &op : func::FuncOp(other.function).front().without_terminator())
    for (Value result : op.getResults()) {
      ArrayRef<Value> like = one.find(other.numberOf(result));
      if (like.empty() ||
          llvm::any_of(like, [&](Value each) { return fit(each.getType(), result.getType()); }))
        continue;
      InFlightDiagnostic diagnostic =
          op.emitOpError() << "produces " << result.getType() << ", but " << like.front().getType()
                           << " on other ranks: only the sizes of sharded dimensions "
                              "may differ";
      diagnostic.attachNote(like.front().getLoc()) << "theirs is here";
      return diagnostic;
    }
  return success();
}

LogicalResult Comparison::compare(ValueRange a, ValueRange b, Operation *user) const {
  for (auto [x, y] : llvm::zip(a, b))
    if (one.numberOf(x) != other.numberOf(y))
      return explain(x, y, user);
  return success();
}

/// Goes back to where two computations part.
LogicalResult Comparison::explain(Value a, Value b, Operation *user) const {
  auto skip = [](Value value) {
    while (Operation *op = value.getDefiningOp()) {
      if (!isIdentity(op))
        break;
      value = op->getOperand(0);
    }
    return value;
  };
  for (;;) {
    a = skip(a), b = skip(b);
    Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
    auto refuse = [&](Operation *at) {
      InFlightDiagnostic diagnostic = at->emitOpError();
      diagnostic.attachNote(a.getLoc()) << "what other ranks compute is here";
      return diagnostic;
    };
    if (!x || !y || isa<exec::LaunchOp>(x) || isa<exec::LaunchOp>(y)) {
      InFlightDiagnostic diagnostic = refuse(user);
      diagnostic << "uses another value than on other ranks, where it is ";
      if (x)
        diagnostic << "the result of '" << x->getName() << "'";
      else
        diagnostic << "argument " << cast<BlockArgument>(a).getArgNumber();
      return diagnostic;
    }
    if (x->getName() != y->getName())
      return refuse(y) << "is where other ranks run '" << x->getName() << "'";
    DictionaryAttr mine = propertiesOf(y), theirs = propertiesOf(x);
    if (StringAttr name = findUnlike(mine, theirs)) {
      Attribute found = getFrom(mine, name), expected = getFrom(theirs, name);
      InFlightDiagnostic diagnostic = refuse(y);
      if (!found)
        return diagnostic << "lacks " << name.getValue() << ", which is " << expected
                          << " on other ranks";
      diagnostic << "has " << name.getValue() << " = " << found;
      return expected ? diagnostic << ", but " << expected << " on other ranks"
                      : diagnostic << ", which it does not have on other ranks";
    }
    auto operands = llvm::zip(x->getOperands(), y->getOperands());
    auto unlike = llvm::find_if(operands, [&](auto pair) {
      return one.numberOf(std::get<0>(pair)) != other.numberOf(std::get<1>(pair));
    });
    unsigned result = cast<OpResult>(b).getResultNumber();
    unsigned expected = cast<OpResult>(a).getResultNumber();
    if (unlike == operands.end() && result != expected)
      return refuse(user) << "uses result " << result << " of '" << y->getName() << "', but result "
                          << expected << " on other ranks";
    if (unlike == operands.end())
      return refuse(y) << "produces " << y->getResultTypes().front()
                       << " unlike other ranks, where "
                       << "it produces " << x->getResultTypes().front();
    std::tie(a, b) = *unlike;
    user = y;
  }
}

LogicalResult Comparison::run() {
  // Their number, order and properties have been compared.
  for (auto [a, b] : llvm::zip(one.communication(), other.communication()))
    if (failed(compare(a->getOperands(), b->getOperands(), b)))
      return failure();
  Operation *end = func::FuncOp(other.function).front().getTerminator();
  if (failed(compare(func::FuncOp(one.function).front().getTerminator()->getOperands(),
                     end->getOperands(), end)))
    return failure();
  return checkTypes();
}

LogicalResult cleave::placement::checkRankClasses(ModuleOp module) {
  auto classes = train::getFunctionClasses(module);
  if (failed(classes) || classes->empty())
    return LogicalResult(classes);
  for (unsigned i = 0; i < classes->front().functions.size(); ++i) {
    Numbering numbering;
    NumberedFunction first(classes->front().functions[i], numbering);
    for (const train::FunctionClass &each : llvm::drop_begin(*classes)) {
      NumberedFunction other(each.functions[i], numbering);
      if (failed(Comparison(first, other, each.ranks).run()))
        return failure();
    }
  }
  return success();
}
