//===- Assembly.cpp - the parts of ops' text that tablegen cannot say --------===//

#include "dialects/dist/Assembly.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cleave::dist;

ParseResult cleave::dist::parseReduction(OpAsmParser &parser, ReductionAttr &reduction) {
  FailureOr<ReductionAttr> parsed = ReductionAttr::parseBare(parser);
  if (failed(parsed))
    return failure();
  reduction = *parsed;
  return success();
}

void cleave::dist::printReduction(OpAsmPrinter &printer, Operation *, ReductionAttr reduction) {
  reduction.printBare(printer);
}

ParseResult cleave::dist::parseTransition(OpAsmParser &parser, Type &source, Type &destination) {
  if (parser.parseType(source))
    return failure();
  destination = source;
  return succeeded(parser.parseOptionalArrow()) ? parser.parseType(destination) : success();
}

ParseResult cleave::dist::parseTransition(OpAsmParser &parser, SmallVectorImpl<Type> &sources,
                                          SmallVectorImpl<Type> &destinations) {
  if (parser.parseTypeList(sources))
    return failure();
  if (succeeded(parser.parseOptionalArrow()))
    return parser.parseTypeList(destinations);
  destinations.assign(sources.begin(), sources.end());
  return success();
}

void cleave::dist::printTransition(OpAsmPrinter &printer, Operation *, Type source,
                                   Type destination) {
  printer << source;
  if (source != destination)
    printer << " -> " << destination;
}

void cleave::dist::printTransition(OpAsmPrinter &printer, Operation *, TypeRange sources,
                                   TypeRange destinations) {
  printer << sources;
  if (sources != destinations)
    printer << " -> " << destinations;
}

ParseResult cleave::dist::parseFutureOf(OpAsmParser &parser, Type &future, Type &value) {
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseType(value))
    return failure();
  future = FutureType::getChecked([&] { return parser.emitError(location); }, value);
  return success(bool(future));
}

void cleave::dist::printFutureOf(OpAsmPrinter &printer, Operation *, Type, Type value) {
  printer << value;
}

ParseResult cleave::dist::parseHostOf(OpAsmParser &parser, Type &host, Type &value) {
  SMLoc location = parser.getCurrentLocation();
  RankedTensorType tensor;
  if (parser.parseType(tensor))
    return failure();
  value = tensor;
  host = HostType::getChecked([&] { return parser.emitError(location); }, tensor);
  return success(bool(host));
}

void cleave::dist::printHostOf(OpAsmPrinter &printer, Operation *, Type, Type value) {
  printer << value;
}

ParseResult cleave::dist::parsePairs(OpAsmParser &parser, DenseI64ArrayAttr &sources,
                                     DenseI64ArrayAttr &destinations) {
  SmallVector<int64_t> from, to;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&]() -> ParseResult {
        return failure(parser.parseInteger(from.emplace_back()) || parser.parseArrow() ||
                       parser.parseInteger(to.emplace_back()));
      }))
    return failure();
  sources = parser.getBuilder().getDenseI64ArrayAttr(from);
  destinations = parser.getBuilder().getDenseI64ArrayAttr(to);
  return success();
}

void cleave::dist::printPairs(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr sources,
                              DenseI64ArrayAttr destinations) {
  printer << '[';
  llvm::interleaveComma(
      llvm::zip(sources.asArrayRef(), destinations.asArrayRef()), printer.getStream(),
      [&](auto pair) { printer << std::get<0>(pair) << " -> " << std::get<1>(pair); });
  printer << ']';
}
