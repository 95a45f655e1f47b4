//===- Schedule.cpp - assembly and checks of schedules ---------------------===//
//
// What a schedule says is text of the schedule library's language, which reads it: here is only
// what stands around it.
//
//===----------------------------------------------------------------------===//

#include "dialects/pipeline/Pipeline.h"

#include "lib/schedule/model/ParseError.h"
#include "lib/schedule/model/Text.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;

//===----------------------------------------------------------------------===//
// From programs and back
//===----------------------------------------------------------------------===//

static ArrayAttr printLists(Builder &b, const schedule::Schedule &program) {
  SmallVector<Attribute> lists;
  for (unsigned rank = 0; rank < program.numRanks(); ++rank)
    lists.push_back(b.getStringAttr(schedule::printList(program, rank)));
  return b.getArrayAttr(lists);
}

static SmallVector<int32_t> listStageRanks(const schedule::Schedule &program) {
  return SmallVector<int32_t>(program.topology.stageToRank());
}

void ScheduleOp::build(OpBuilder &b, OperationState &state, StringRef symbol,
                       const schedule::Schedule &program, Transfers transfers) {
  build(b, state, symbol, program.name, listStageRanks(program), program.numMicrobatches,
        program.forwardOnly, transfers, printLists(b, program), /*axis=*/StringAttr());
}

/// Reads all but the lists; emits an error if the op is not sound.
static LogicalResult readHeader(ScheduleOp op, schedule::Schedule &program) {
  int64_t microbatches = op.getMicrobatches();
  if (microbatches < 1 || microbatches > schedule::maxMicrobatches)
    return op.emitOpError("expects from 1 to ")
           << schedule::maxMicrobatches << " microbatches, found " << microbatches;
  for (auto [stage, rank] : llvm::enumerate(op.getStageRanks()))
    if (rank < 0)
      return op.emitOpError("expects a non-negative rank for stage ")
             << stage << ", found " << rank;
  auto topology =
      schedule::Topology::fromMap(op.getNumRanks(), SmallVector<unsigned>(op.getStageRanks()));
  if (!topology)
    return op.emitOpError() << llvm::toString(topology.takeError());
  program.name = op.getName().str();
  program.topology = std::move(*topology);
  program.numMicrobatches = static_cast<unsigned>(microbatches);
  program.forwardOnly = op.getForwardOnly();
  program.ranks.resize(op.getNumRanks());
  return success();
}

/// Reads the list of `rank` into `program`; emits an error if it is not in canonical form.
static LogicalResult readList(ScheduleOp op, unsigned rank, schedule::Schedule &program) {
  schedule::TextOptions options;
  options.name = "the list";
  options.allowTransfers = op.hasTransfers();
  LogicalResult result = success();
  llvm::handleAllErrors(schedule::parseList(op.getList(rank), rank, program, options),
                        [&](const schedule::ParseError &error) {
                          result = op.emitOpError("list of rank ")
                                   << rank << ", position " << error.place()->position << ": "
                                   << error.text();
                        });
  return result;
}

FailureOr<schedule::Schedule> ScheduleOp::read() {
  schedule::Schedule program;
  if (failed(readHeader(*this, program)))
    return failure();
  for (unsigned rank = 0; rank < getNumRanks(); ++rank)
    if (failed(readList(*this, rank, program)))
      return failure();
  return program;
}

// 1. to 5.
LogicalResult ScheduleOp::verify() {
  schedule::Schedule program;
  if (failed(readHeader(*this, program)))
    return failure();
  for (unsigned rank = 0; rank < getNumRanks(); ++rank) {
    if (failed(readList(*this, rank, program)))
      return failure();
    // Schedules are large: one list at a time.
    program.ranks[rank] = {};
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Parser
//===----------------------------------------------------------------------===//

namespace {
/// A part of the op's assembly that is in the schedule library's language. MLIR's tokens say how
/// far it goes; the library reads its source.
class Excerpt {
public:
  /// Takes tokens while `takeToken` says that it has taken one.
  Excerpt(OpAsmParser &parser, StringRef name,
          llvm::function_ref<FailureOr<bool>(OpAsmParser &)> takeToken)
      : parser(parser), begin(parser.getCurrentLocation().getPointer()) {
    options.name = name;
    options.comment = "//";
    FailureOr<bool> taken = true;
    while (succeeded(taken) && *taken)
      taken = takeToken(parser);
    // Where MLIR's lexer does not know what comes next, it has said so.
    isSound = succeeded(taken);
    text = StringRef(begin, parser.getCurrentLocation().getPointer() - begin);
  }

  /// Emits the error, if any, where it is in the source; at its end with the text of `atEnd`, if
  /// there is one.
  ParseResult report(llvm::Error error, StringRef atEnd = "") const {
    ParseResult result = success();
    llvm::handleAllErrors(std::move(error), [&](const schedule::ParseError &problem) {
      bool isAtEnd = problem.offset() == text.size();
      result = parser.emitError(SMLoc::getFromPointer(begin + problem.offset()))
               << (isAtEnd && !atEnd.empty() ? atEnd : StringRef(problem.text()));
    });
    return result;
  }

  StringRef text;
  schedule::TextOptions options;
  bool isSound;

private:
  OpAsmParser &parser;
  const char *begin;
};
} // namespace

/// A number; MLIR has reported an error where it fails.
static FailureOr<bool> takeNumber(OpAsmParser &parser) {
  APInt integer;
  OptionalParseResult result = parser.parseOptionalInteger(integer);
  if (result.has_value() && failed(*result))
    return failure();
  return result.has_value();
}

/// A token of a header, which ends with the words that only the op has.
static FailureOr<bool> takeOfHeader(OpAsmParser &parser) {
  StringRef word;
  if (succeeded(parser.parseOptionalKeyword("topology"))) {
    (void)parser.parseOptionalKeyword(&word);
    return true;
  }
  if (succeeded(parser.parseOptionalLSquare()) || succeeded(parser.parseOptionalRSquare()) ||
      succeeded(
          parser.parseOptionalKeyword(&word, {"ranks", "stages", "microbatches", "forward_only"})))
    return true;
  return takeNumber(parser);
}

/// A token of lists. `groups` counts the open braces.
static FailureOr<bool> takeOfLists(OpAsmParser &parser, unsigned &groups) {
  StringRef word;
  std::string name;
  if (succeeded(parser.parseOptionalKeyword(&word))) {
    // No group goes on into the next list.
    if (word == "rank")
      groups = 0;
    return true;
  }
  if (succeeded(parser.parseOptionalLBrace())) {
    ++groups;
    return true;
  }
  if (groups && succeeded(parser.parseOptionalRBrace())) {
    --groups;
    return true;
  }
  if (succeeded(parser.parseOptionalString(&name)) || succeeded(parser.parseOptionalColon()) ||
      succeeded(parser.parseOptionalLSquare()) || succeeded(parser.parseOptionalRSquare()) ||
      succeeded(parser.parseOptionalRParen()))
    return true;
  bool isOpened = succeeded(parser.parseOptionalLParen());
  FailureOr<bool> taken = takeNumber(parser);
  if (failed(taken) || *taken || !isOpened || succeeded(parser.parseOptionalRParen()))
    return failed(taken) ? taken : FailureOr<bool>(*taken || isOpened);
  // `(2.0)`, stage and microbatch, is a floating-point number to MLIR.
  double number;
  if (parser.parseFloat(number))
    return failure();
  return true;
}

/// The lists in braces.
static ParseResult parseLists(OpAsmParser &parser, schedule::Schedule &program, bool hasTransfers) {
  unsigned groups = 0;
  if (parser.parseLBrace())
    return failure();
  Excerpt lists(parser, "the schedule",
                [&](OpAsmParser &parser) { return takeOfLists(parser, groups); });
  if (!lists.isSound)
    return failure();
  lists.options.allowTransfers = hasTransfers;
  SMLoc end = parser.getCurrentLocation();
  bool isClosed = succeeded(parser.parseOptionalRBrace());
  StringRef unknown = isClosed ? "" : "expected an action, 'rank' or '}'";
  if (lists.report(schedule::parseLists(lists.text, program, lists.options), unknown))
    return failure();
  if (!isClosed)
    return parser.emitError(end) << unknown;
  return success();
}

ParseResult ScheduleOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &b = parser.getBuilder();
  auto &properties = result.getOrAddProperties<Properties>();
  std::string name, axis;
  if (parser.parseSymbolName(properties.sym_name) || parser.parseString(&name))
    return failure();
  Excerpt header(parser, "the header", takeOfHeader);
  if (!header.isSound)
    return failure();
  auto program = schedule::parseHeader(header.text, header.options);
  if (!program)
    return header.report(program.takeError());
  if (succeeded(parser.parseOptionalKeyword("over"))) {
    if (parser.parseString(&axis))
      return failure();
    properties.axis = b.getStringAttr(axis);
  }
  StringRef transfers;
  if (parser.parseKeyword("transfers"))
    return failure();
  SMLoc location = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword(&transfers, {"implied", "explicit"})))
    return parser.emitError(location) << "expected 'implied' or 'explicit'";
  Transfers kind = *symbolizeTransfers(transfers);
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parseLists(parser, *program, kind == Transfers::Explicit))
    return failure();
  properties.name = b.getStringAttr(name);
  properties.stage_ranks = b.getDenseI32ArrayAttr(listStageRanks(*program));
  properties.microbatches = b.getI64IntegerAttr(program->numMicrobatches);
  if (program->forwardOnly)
    properties.forward_only = b.getUnitAttr();
  properties.transfers = TransfersAttr::get(b.getContext(), kind);
  properties.lists = printLists(b, *program);
  return success();
}

//===----------------------------------------------------------------------===//
// Printer
//===----------------------------------------------------------------------===//

/// "loop", "v", or the rank of each stage: "[0 1 1 0]".
static void printTopology(OpAsmPrinter &printer, ScheduleOp op) {
  // An op that is not verified may have any map.
  auto topology =
      schedule::Topology::fromMap(op.getNumRanks(), SmallVector<unsigned>(op.getStageRanks()));
  if (topology) {
    printer << topology->str();
    return;
  }
  llvm::consumeError(topology.takeError());
  printer << '[';
  llvm::interleave(op.getStageRanks(), printer.getStream(), " ");
  printer << ']';
}

/// In lines of at most 100 columns, broken where there is a space outside of quotes.
static void printList(OpAsmPrinter &printer, StringRef list, size_t used) {
  constexpr size_t kWidth = 100;
  while (!list.empty()) {
    // A word, with the name in quotes after it: names may have spaces in them.
    size_t end = 0;
    for (bool quoted = false; end < list.size(); ++end) {
      if (list[end] == ' ' && !quoted && !list.substr(end).starts_with(" \""))
        break;
      quoted ^= list[end] == '"';
    }
    if (used + 1 + end > kWidth) {
      printer.printNewline();
      printer << "   ";
      used = 7;
    }
    printer << ' ' << list.take_front(end);
    used += 1 + end;
    list = list.drop_front(std::min(end + 1, list.size()));
  }
}

void ScheduleOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << ' ';
  printer.printString(getName());
  printer << " ranks " << getNumRanks() << " stages " << getNumStages() << " microbatches "
          << getMicrobatches() << " topology ";
  printTopology(printer, *this);
  if (getForwardOnly())
    printer << " forward_only";
  if (getAxis()) {
    printer << " over ";
    printer.printString(*getAxis());
  }
  printer << " transfers " << stringifyTransfers(getTransfers());
  printer.printOptionalAttrDictWithKeyword((*this)->getDiscardableAttrDictionary().getValue());
  printer << " {";
  for (unsigned rank = 0; rank < getNumRanks(); ++rank) {
    printer.printNewline();
    std::string head = "  rank " + std::to_string(rank) + ":";
    printer << head;
    printList(printer, getList(rank), head.size());
  }
  printer.printNewline();
  printer << '}';
}
