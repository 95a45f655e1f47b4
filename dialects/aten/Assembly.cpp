//===- Assembly.cpp - the text form of aten ops ------------------------------===//
//
// One parser and one printer for all ops; the syntax is described in `docs/ir.md`.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/Assembly.h"
#include "dialects/aten/Aten.h"
#include "dialects/aten/ops/Call.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cleave::aten;

//===----------------------------------------------------------------------===//
// Values of attributes
//===----------------------------------------------------------------------===//

/// Lists of one kind become dense arrays, which is what ops store.
static Attribute toDense(ArrayAttr array) {
  Builder b(array.getContext());
  auto all = [&](auto isKind) { return llvm::all_of(array, isKind); };
  if (all([](Attribute a) { return isa<BoolAttr>(a); }) && !array.empty())
    return b.getDenseBoolArrayAttr(
        llvm::map_to_vector(array, [](Attribute a) { return cast<BoolAttr>(a).getValue(); }));
  if (all([](Attribute a) { return isa<IntegerAttr>(a) && isScalar(a); }))
    return b.getDenseI64ArrayAttr(
        llvm::map_to_vector(array, [](Attribute a) { return cast<IntegerAttr>(a).getInt(); }));
  if (all([](Attribute a) { return isa<FloatAttr>(a) && isScalar(a); }))
    return b.getDenseF64ArrayAttr(llvm::map_to_vector(
        array, [](Attribute a) { return cast<FloatAttr>(a).getValueAsDouble(); }));
  return array;
}

ParseResult cleave::aten::parseArgumentValue(OpAsmParser &parser, Attribute &value) {
  if (failed(parser.parseAttribute(value)))
    return failure();
  if (auto array = dyn_cast<ArrayAttr>(value))
    value = toDense(array);
  return success();
}

static void printFloat(OpAsmPrinter &printer, FloatAttr value) {
  // Non-finite values print as hex digits, which need the type to be read as floats.
  if (value.getValue().isFinite())
    printer.printAttributeWithoutType(value);
  else
    printer.printAttribute(value);
}

void cleave::aten::printArgumentValue(OpAsmPrinter &printer, Attribute value) {
  auto list = [&](auto array, auto print) {
    printer << '[';
    llvm::interleaveComma(array, printer.getStream(), print);
    printer << ']';
  };
  if (auto ints = dyn_cast<DenseI64ArrayAttr>(value))
    return list(ints.asArrayRef(), [&](int64_t i) { printer << i; });
  if (auto bools = dyn_cast<DenseBoolArrayAttr>(value))
    return list(bools.asArrayRef(), [&](bool b) { printer << (b ? "true" : "false"); });
  if (auto floats = dyn_cast<DenseF64ArrayAttr>(value))
    return list(floats.asArrayRef(), [&](double d) {
      printFloat(printer, Builder(value.getContext()).getF64FloatAttr(d));
    });
  if (auto real = dyn_cast<FloatAttr>(value); real && real.getType().isF64())
    return printFloat(printer, real);
  if (isScalar(value))
    return printer.printAttributeWithoutType(value);
  printer.printAttribute(value);
}

//===----------------------------------------------------------------------===//
// Typed ops
//===----------------------------------------------------------------------===//

namespace {
using Operand = OpAsmParser::UnresolvedOperand;

/// Operands as they stand in the text, with None at its place.
struct ParsedList {
  SmallVector<Operand, 2> operands;
  SmallVector<bool> present;
};
} // namespace

/// `%a | none`
static ParseResult parseOperandOrNone(OpAsmParser &parser, ParsedList &list) {
  if (succeeded(parser.parseOptionalKeyword("none"))) {
    list.present.push_back(false);
    return success();
  }
  list.present.push_back(true);
  return parser.parseOperand(list.operands.emplace_back());
}

/// `[` (`%a | none`), ... `]`
static ParseResult parseOperandList(OpAsmParser &parser, ParsedList &list) {
  return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square,
                                        [&] { return parseOperandOrNone(parser, list); });
}

/// `{attributes} : (types) -> types`, and resolution of `operands`.
static ParseResult parseTail(OpAsmParser &parser, OperationState &state,
                             ArrayRef<Operand> operands) {
  FunctionType type;
  NamedAttrList discardable;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDict(discardable))
    return failure();
  // MLIR would take an op's own attribute here as well, where it could contradict the argument.
  for (NamedAttribute attribute : discardable)
    if (!attribute.getName().getValue().contains('.'))
      return parser.emitError(location)
             << "'" << attribute.getName().getValue()
             << "' has no dialect prefix: arguments belong inside the parentheses";
  state.attributes.append(discardable.begin(), discardable.end());
  location = parser.getCurrentLocation();
  if (parser.parseColonType(type))
    return failure();
  state.addTypes(type.getResults());
  if (type.getNumInputs() != operands.size())
    return parser.emitError(location)
           << "expected " << operands.size() << " operand types, found " << type.getNumInputs();
  return parser.resolveOperands(operands, type.getInputs(), location, state.operands);
}

ParseResult cleave::aten::parseAtenOp(OpAsmParser &parser, OperationState &state,
                                      ArrayRef<ArgumentSpec> specs) {
  Builder b(parser.getContext());
  auto tensors = llvm::to_vector(
      llvm::make_filter_range(specs, [](ArgumentSpec spec) { return spec.kind != 'A'; }));
  SmallVector<Operand> operands;
  SmallVector<int32_t> segments(tensors.size(), 0);
  unsigned next = 0;
  auto parseArgument = [&]() -> ParseResult {
    SMLoc location = parser.getCurrentLocation();
    StringRef name;
    // A keyword is the name of an attribute, or `none`.
    if (succeeded(parser.parseOptionalKeyword(&name)) && name != "none") {
      const ArgumentSpec *spec =
          llvm::find_if(specs, [&](ArgumentSpec spec) { return spec.name == name; });
      if (spec == specs.end() || spec->isPresenceMask())
        return parser.emitError(location) << "has no argument named '" << name << "'";
      if (spec->kind != 'A')
        return parser.emitError(location)
               << "argument '" << name << "' is a tensor: it is given by position";
      if (state.attributes.get(name))
        return parser.emitError(location) << "argument '" << name << "' is given twice";
      Attribute value;
      if (parser.parseEqual() || parseArgumentValue(parser, value))
        return failure();
      state.addAttribute(name, value);
      return success();
    }
    if (next == tensors.size())
      return parser.emitError(location)
             << "takes " << tensors.size() << " tensor arguments, found more";
    ArgumentSpec spec = tensors[next++];
    if (name == "none") {
      if (spec.kind != 'O')
        return parser.emitError(location) << "argument '" << spec.name << "' cannot be none";
      return success();
    }
    ParsedList list;
    if (spec.kind == 'L') {
      if (parseOperandList(parser, list))
        return failure();
      if (llvm::is_contained(list.present, false)) {
        std::string mask = (Twine(spec.name) + "_present").str();
        if (llvm::none_of(specs, [&](ArgumentSpec s) { return s.name == mask; }))
          return parser.emitError(location) << "list '" << spec.name << "' cannot be none";
        state.addAttribute(mask, b.getDenseBoolArrayAttr(list.present));
      }
    } else if (parser.parseOperand(list.operands.emplace_back())) {
      return failure();
    }
    segments[next - 1] = list.operands.size();
    operands.append(list.operands);
    return success();
  };
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseArgument))
    return failure();
  for (unsigned i = next; i < tensors.size(); ++i)
    if (tensors[i].kind != 'O')
      return parser.emitError(location) << "lacks the tensor argument '" << tensors[i].name << "'";
  if (llvm::count_if(tensors, [](ArgumentSpec spec) { return spec.kind != 'T'; }) > 1)
    state.addAttribute("operandSegmentSizes", b.getDenseI32ArrayAttr(segments));
  // Else an attribute of the wrong kind would be dropped, and the call run with the default.
  std::optional<RegisteredOperationName> op = state.name.getRegisteredInfo();
  if (failed(op->verifyInherentAttrs(state.attributes, [&] { return parser.emitError(location); })))
    return failure();
  return parseTail(parser, state, operands);
}

static void printOperandList(OpAsmPrinter &printer, ArrayRef<Value> values) {
  printer << '[';
  llvm::interleaveComma(values, printer.getStream(), [&](Value value) {
    if (value)
      printer << value;
    else
      printer << "none";
  });
  printer << ']';
}

static void printTail(OpAsmPrinter &printer, Operation *op) {
  SmallVector<NamedAttribute> attributes(op->getDiscardableAttrs());
  printer.printOptionalAttrDict(attributes);
  printer << " : ";
  printer.printFunctionalType(op);
}

void cleave::aten::printAtenOp(Operation *op, OpAsmPrinter &printer) {
  printer << '(';
  llvm::interleaveComma(collectArguments(op), printer.getStream(), [&](const Argument &argument) {
    if (argument.kind == 'A') {
      printer << argument.name << " = ";
      printArgumentValue(printer, argument.attribute);
    } else if (argument.kind == 'L') {
      printOperandList(printer, argument.values);
    } else if (argument.values.empty()) {
      printer << "none";
    } else {
      printer << argument.values.front();
    }
  });
  printer << ')';
  printTail(printer, op);
}

//===----------------------------------------------------------------------===//
// aten.call
//===----------------------------------------------------------------------===//

/// `"aten::cat"(tensors = [%a, %b], dim = 1) : (types) -> types`
ParseResult CallOp::parse(OpAsmParser &parser, OperationState &state) {
  Builder b(parser.getContext());
  StringAttr callee;
  if (parser.parseAttribute(callee, "callee", state.attributes))
    return failure();
  // After the name of an operator of a library.
  StringAttr schema;
  if (OptionalParseResult own = parser.parseOptionalAttribute(schema); own.has_value()) {
    if (failed(*own))
      return failure();
    state.addAttribute("schema", schema);
  }
  if (StringAttr sharding; succeeded(parser.parseOptionalKeyword("sharded")) &&
                           parser.parseAttribute(sharding, "sharding", state.attributes))
    return failure();
  NamedAttrList args;
  SmallVector<Operand> operands;
  auto append = [&](const ParsedList &list) {
    SmallVector<Attribute> references;
    unsigned next = 0;
    for (bool present : list.present) {
      if (!present) {
        references.push_back(b.getUnitAttr());
        continue;
      }
      references.push_back(OperandAttr::get(parser.getContext(), operands.size()));
      operands.push_back(list.operands[next++]);
    }
    return references;
  };
  auto parseArgument = [&]() -> ParseResult {
    SMLoc location = parser.getCurrentLocation();
    std::string name;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual())
      return failure();
    if (args.get(name))
      return parser.emitError(location) << "argument '" << name << "' is given twice";
    // `[` may open a list of tensors or of constants: what follows tells.
    ParsedList list;
    Operand operand;
    OptionalParseResult single = parser.parseOptionalOperand(operand);
    if (single.has_value()) {
      if (failed(*single))
        return failure();
      list.operands.push_back(operand);
      list.present.push_back(true);
      args.set(name, append(list).front());
      return success();
    }
    if (succeeded(parser.parseOptionalKeyword("none"))) {
      args.set(name, b.getUnitAttr());
      return success();
    }
    if (failed(parser.parseOptionalLSquare())) {
      Attribute value;
      if (parseArgumentValue(parser, value))
        return failure();
      args.set(name, value);
      return success();
    }
    SmallVector<Attribute> constants;
    if (succeeded(parser.parseOptionalRSquare())) {
      args.set(name, b.getDenseI64ArrayAttr({}));
      return success();
    }
    do {
      Operand element;
      OptionalParseResult isOperand = parser.parseOptionalOperand(element);
      if (isOperand.has_value()) {
        if (failed(*isOperand))
          return failure();
        list.operands.push_back(element);
        list.present.push_back(true);
      } else if (succeeded(parser.parseOptionalKeyword("none"))) {
        list.present.push_back(false);
      } else if (parser.parseAttribute(constants.emplace_back())) {
        return failure();
      }
    } while (succeeded(parser.parseOptionalComma()));
    if (parser.parseRSquare())
      return failure();
    if (!constants.empty() && !list.present.empty())
      return parser.emitError(location) << "list '" << name << "' mixes tensors and constants";
    args.set(name,
             constants.empty() ? b.getArrayAttr(append(list)) : toDense(b.getArrayAttr(constants)));
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseArgument))
    return failure();
  state.addAttribute("args", args.getDictionary(parser.getContext()));
  return parseTail(parser, state, operands);
}

void CallOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printAttribute(getCalleeAttr());
  if (StringAttr schema = getSchemaAttr()) {
    printer << ' ';
    printer.printAttribute(schema);
  }
  if (StringAttr sharding = getShardingAttr()) {
    printer << " sharded ";
    printer.printAttribute(sharding);
  }
  printer << '(';
  auto printReference = [&](Attribute value) {
    if (auto reference = dyn_cast<OperandAttr>(value)) {
      if (reference.getIndex() < getNumOperands())
        printer << getOperand(reference.getIndex());
      else
        printer << "<<operand " << reference.getIndex() << ">>";
    } else {
      printer << "none";
    }
  };
  // The types stand in the order of the operands, and so must the arguments that name them.
  auto firstOperand = [&](NamedAttribute argument) {
    unsigned first = getNumOperands();
    argument.getValue().walk(
        [&](OperandAttr reference) { first = std::min(first, reference.getIndex()); });
    return first;
  };
  SmallVector<NamedAttribute> arguments(getArgs().getValue());
  llvm::stable_sort(arguments, [&](NamedAttribute a, NamedAttribute b) {
    return firstOperand(a) < firstOperand(b);
  });
  llvm::interleaveComma(arguments, printer.getStream(), [&](NamedAttribute argument) {
    printer.printKeywordOrString(argument.getName().getValue());
    printer << " = ";
    Attribute value = argument.getValue();
    auto list = dyn_cast<ArrayAttr>(value);
    if (isa<OperandAttr, UnitAttr>(value)) {
      printReference(value);
    } else if (list &&
               llvm::all_of(list, [](Attribute a) { return isa<OperandAttr, UnitAttr>(a); })) {
      printer << '[';
      llvm::interleaveComma(list, printer.getStream(), printReference);
      printer << ']';
    } else {
      printArgumentValue(printer, value);
    }
  });
  printer << ')';
  printTail(printer, *this);
}
