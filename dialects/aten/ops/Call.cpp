//===- Call.cpp - calls of operators without a typed op ----------------------===//

#include "dialects/aten/ops/Call.h"
#include "dialects/aten/Schema.h"
#include "dialects/aten/ops/OpsImpl.h"
#include "dialects/sharding/RuleText.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Call.cpp.inc"

void cleave::aten::addCallOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Call.cpp.inc"
      >(dialect);
}

/// Of the dispatcher's operator, or the one that the call brings.
static std::optional<Schema> schemaOf(CallOp call) {
  if (std::optional<Schema> known = lookupSchema(call.getCallee()))
    return known;
  std::optional<StringRef> own = call.getSchema();
  return own ? parseSchema(call.getCallee(), *own) : std::nullopt;
}

StringRef CallOp::getSchemaName() {
  return getCallee();
}

ArrayRef<ArgumentSpec> CallOp::getArgumentSpecs() {
  return {};
}

SmallVector<Argument> CallOp::getArguments() {
  SmallVector<Argument> arguments;
  std::optional<Schema> schema = schemaOf(*this);
  if (!schema)
    return arguments;
  auto resolve = [&](Attribute value) -> Value {
    auto reference = dyn_cast<OperandAttr>(value);
    return reference ? getOperand(reference.getIndex()) : Value();
  };
  for (const SchemaValue &declared : schema->arguments) {
    Attribute value = getArgs().get(declared.name);
    if (!value)
      continue;
    auto list = dyn_cast<ArrayAttr>(value);
    if (!declared.isTensorLike() && isa<OperandAttr>(value)) {
      arguments.push_back({declared.name, 'N', {resolve(value)}, {}});
    } else if (!declared.isTensorLike()) {
      // None of an optional constant is the same as its absence: the default is None.
      if (!isa<UnitAttr>(value))
        arguments.push_back({declared.name, 'A', {}, value});
    } else if (isa<UnitAttr>(value)) {
      arguments.push_back({declared.name, 'O', {}, {}});
    } else if (isa<OperandAttr>(value)) {
      arguments.push_back({declared.name, 'T', {resolve(value)}, {}});
    } else {
      Argument argument{declared.name, 'L', {}, {}};
      if (list)
        for (Attribute element : list)
          argument.values.push_back(resolve(element));
      arguments.push_back(std::move(argument));
    }
  }
  return arguments;
}

Value CallOp::getViewedOperand(unsigned result) {
  std::optional<Schema> schema = schemaOf(*this);
  if (!schema || schema->returns.empty())
    return {};
  // A list return `Tensor(a)[]` gives all results.
  const SchemaValue &declared =
      schema->returns[std::min<size_t>(result, schema->returns.size() - 1)];
  if (declared.alias.empty())
    return {};
  for (const SchemaValue &argument : schema->arguments)
    if (!argument.alias.empty() &&
        argument.alias.split(' ').first == declared.alias.split(' ').first)
      if (auto reference = dyn_cast_or_null<OperandAttr>(getArgs().get(argument.name)))
        return getOperand(reference.getIndex());
  return {};
}

SmallVector<std::optional<unsigned>> CallOp::getTensorOperands() {
  SmallVector<std::optional<unsigned>> operands;
  std::optional<Schema> schema = schemaOf(*this);
  if (!schema)
    return operands;
  auto add = [&](Attribute value) {
    auto reference = dyn_cast_or_null<OperandAttr>(value);
    operands.push_back(reference ? std::optional<unsigned>(reference.getIndex()) : std::nullopt);
  };
  for (const SchemaValue &declared : schema->arguments) {
    if (!declared.isTensorLike())
      continue;
    Attribute value = getArgs().get(declared.name);
    if (auto list = dyn_cast_or_null<ArrayAttr>(value))
      llvm::for_each(list, add);
    else if (value && !isa<DenseI64ArrayAttr>(value))
      add(value);
    else if (!value)
      add({});
  }
  return operands;
}

/// The rule of `text`; `misfit` says why it does not fit the call, which is opaque then.
static cleave::sharding::ShardingRule ruleOf(CallOp call, StringRef text, std::string &misfit) {
  cleave::sharding::RuleBuilder builder(call);
  misfit = cleave::sharding::RuleText(text).apply(builder, call.getTensorOperands());
  return builder.finish();
}

/// Constraint 5.
static LogicalResult verifySharding(CallOp call) {
  std::optional<StringRef> text = call.getSharding();
  if (!text)
    return success();
  std::string misfit;
  cleave::sharding::ShardingRule rule = ruleOf(call, *text, misfit);
  if (misfit.empty())
    misfit = rule.check(call);
  for (auto [id, factor] : llvm::enumerate(rule.factors))
    if (misfit.empty() && !factor.isWhole() && factor.size != 1 &&
        llvm::none_of(rule.operands, [&](const cleave::sharding::TensorFactors &operand) {
          return cleave::sharding::ShardingRule::contains(operand, id);
        }))
      misfit = "no operand has factor " + factor.name + " of its results, which must be whole";
  if (misfit.empty())
    return success();
  return call.emitOpError("expects a sharding rule that fits its operands and results, found \"")
         << *text << "\": " << misfit;
}

/// Any element of a tensor in memory may be one of `as_strided`, whatever dimension it is in.
cleave::sharding::ShardingRule CallOp::getShardingRule() {
  if (std::optional<StringRef> text = getSharding()) {
    std::string misfit;
    return ruleOf(*this, *text, misfit);
  }
  if (getCallee().starts_with("aten::as_strided"))
    return cleave::sharding::ShardingRule::opaque(
        *this, "it picks elements by their place in the memory of the whole tensor");
  return sharding::ShardingRuleOpInterface::Trait<CallOp>::getShardingRule();
}

/// For contractions that exporters leave as calls; only their names are known.
int64_t CallOp::countFlops() {
  if (getNumOperands() < 2 || getNumResults() == 0)
    return 0;
  StringRef name = getCallee().rsplit("::").second.split('.').first;
  Value first = getOperand(0), second = getOperand(1), result = getResult(0);
  if (name.starts_with("_scaled_dot_product") || name == "scaled_dot_product_attention") {
    // Gradients of attention take that of the result first.
    if (!name.ends_with("_backward"))
      return countAttentionFlops(first, second);
    return getNumOperands() > 2 ? countAttentionBackwardFlops(second, getOperand(2)) : 0;
  }
  if (llvm::is_contained({"mm", "bmm", "matmul", "_grouped_mm", "linear"}, name))
    return countProductFlops(first, result);
  if (llvm::is_contained({"addmm", "baddbmm", "addbmm"}, name))
    return countProductFlops(second, result);
  if (llvm::is_contained({"convolution", "_convolution", "conv2d"}, name))
    return countConvolutionFlops(result, second);
  return 0;
}

/// Of an operator without a record, it is not known that it does not.
bool CallOp::mixesElements() {
  return true;
}

/// There is nothing to cut, and it is linear in nothing: the operand is whole.
cleave::sharding::ShardingRule ItemOp::getShardingRule() {
  return cleave::sharding::RuleBuilder(*this).finish();
}

/// What kind of value a schema type takes, and whether `value` is one.
static bool accepts(StringRef type, Attribute value) {
  if (type.consume_back("?") && isa<UnitAttr>(value))
    return true;
  auto isReference = [](Attribute a) { return isa<OperandAttr>(a); };
  if (type == "Tensor")
    return isReference(value);
  if (isReference(value))
    return type == "Scalar";
  if (type == "Tensor[]" || type == "Tensor?[]") {
    auto list = dyn_cast<ArrayAttr>(value);
    if (!list) {
      auto empty = dyn_cast<DenseI64ArrayAttr>(value);
      return empty && empty.empty();
    }
    return llvm::all_of(list, [&](Attribute a) {
      return isReference(a) || (type == "Tensor?[]" && isa<UnitAttr>(a));
    });
  }
  if (auto integer = dyn_cast<IntegerAttr>(value); integer && !isa<BoolAttr>(value))
    return isScalar(value) &&
           (type == "int" || type == "SymInt" || type == "Scalar" || type == "float" ||
            type.starts_with("int[") || type.starts_with("SymInt["));
  if (isa<BoolAttr>(value))
    return type == "bool" || type == "Scalar";
  if (isa<FloatAttr>(value))
    return isScalar(value) && (type == "float" || type == "Scalar");
  if (isa<ComplexAttr>(value))
    return type == "Scalar";
  if (isa<StringAttr>(value))
    return type == "str" || type == "MemoryFormat";
  if (isa<TypeAttr>(value))
    return type == "ScalarType";
  if (auto ints = dyn_cast<DenseI64ArrayAttr>(value))
    return ints.empty() ? type.ends_with("]")
                        : type.starts_with("int[") || type.starts_with("SymInt[");
  if (isa<DenseBoolArrayAttr>(value))
    return type.starts_with("bool[");
  if (isa<DenseF64ArrayAttr>(value))
    return type.starts_with("float[");
  return false;
}

/// Whether a call draws from the global generator; attention does only where it drops out.
static bool drawsRandomNumbers(const Schema &schema, DictionaryAttr arguments) {
  if (!schema.drawsRandomNumbers || !schema.findArgument("dropout_p"))
    return schema.drawsRandomNumbers;
  Attribute p = arguments.get("dropout_p");
  if (auto real = dyn_cast_or_null<FloatAttr>(p))
    return !real.getValue().isZero();
  if (auto integer = dyn_cast_or_null<IntegerAttr>(p))
    return !integer.getValue().isZero();
  return false; // the schemas' default is 0
}

LogicalResult CallOp::verify() {
  // 1.
  std::optional<Schema> schema = schemaOf(*this);
  if (!schema && getSchema())
    return emitOpError("expects a `schema` as in \"(Tensor x) -> Tensor\", found ")
           << getSchemaAttr();
  if (!schema)
    return emitOpError("calls '")
           << getCallee()
           << "', which PyTorch's dispatcher does not have; an operator of another library needs "
              "its `schema`";
  auto withSchema = [&](InFlightDiagnostic diagnostic) {
    diagnostic.attachNote() << "the schema is " << schema->name << schema->text;
    return diagnostic;
  };
  if (getSchema() && *getSchema() != schema->text)
    return withSchema(emitOpError("has another schema than the dispatcher's '")
                      << getCallee() << "'");
  if (drawsRandomNumbers(*schema, getArgs()))
    return emitOpError("calls '")
           << getCallee()
           << "', which draws from the global generator; use an aten.rng_* op, "
              "whose numbers are given by its seed and offset";
  // 2.
  for (NamedAttribute argument : getArgs()) {
    const SchemaValue *declared = schema->findArgument(argument.getName().getValue());
    if (!declared)
      return withSchema(emitOpError("has no argument named '")
                        << argument.getName().getValue() << "'");
    if (!accepts(declared->type, argument.getValue()))
      return withSchema(emitOpError("argument '")
                        << declared->name << "' expects " << declared->type << ", found "
                        << argument.getValue());
  }
  SmallVector<unsigned> uses(getNumOperands(), 0);
  WalkResult walk = getArgs().walk([&](OperandAttr reference) {
    if (reference.getIndex() >= uses.size())
      return WalkResult::interrupt();
    ++uses[reference.getIndex()];
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return emitOpError("refers to an operand that it does not have");
  // 6.
  for (const Argument &argument : getArguments()) {
    bool isNumber = argument.kind == 'N';
    for (Value value : argument.values)
      if (value && isa<RankedTensorType>(value.getType()) == isNumber)
        return withSchema(emitOpError("argument '")
                          << argument.name << "' expects "
                          << (isNumber ? "a number, f64 or i1" : "a tensor") << ", found "
                          << value.getType());
  }
  if (llvm::is_contained(uses, 0u))
    return emitOpError("has an operand that none of its arguments refers to");
  for (const SchemaValue &declared : schema->arguments) {
    if (!declared.hasDefault && !declared.type.ends_with("?") && !getArgs().get(declared.name))
      return withSchema(emitOpError("lacks the argument '") << declared.name << "'");
    // 4.
    if (declared.isMutated())
      return withSchema(emitOpError("mutates its argument '")
                        << declared.name << "'; programs are pure, call the functional overload");
  }
  // 3.
  bool isList = schema->returns.size() == 1 && schema->returns.front().type == "Tensor[]";
  for (const SchemaValue &value : schema->returns)
    if (!value.isTensorLike())
      return withSchema(emitOpError("returns a ") << value.type << ", which is not a tensor");
  if (!isList && schema->returns.size() != getNumResults())
    return withSchema(emitOpError("expects ")
                      << schema->returns.size() << " results, found " << getNumResults());
  // 5.
  return verifySharding(*this);
}
