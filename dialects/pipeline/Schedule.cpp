//===- Schedule.cpp - assembly and checks of schedules ---------------------===//

#include "dialects/pipeline/Pipeline.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave::pipeline;

static constexpr int64_t kMaxStages = 1 << 16;
static constexpr int64_t kMaxMicrobatches = 1 << 24;

//===----------------------------------------------------------------------===//
// Topology
//===----------------------------------------------------------------------===//

static bool isLoop(ArrayRef<int32_t> stageRanks, int64_t ranks) {
  for (auto [stage, rank] : llvm::enumerate(stageRanks))
    if (rank != static_cast<int64_t>(stage) % ranks)
      return false;
  return true;
}

/// The first pass over the ranks ascends, the next descends, and so on.
static int32_t getRankInV(int64_t stage, int64_t ranks) {
  int64_t place = stage % ranks;
  return static_cast<int32_t>(stage / ranks % 2 ? ranks - 1 - place : place);
}

static bool isV(ArrayRef<int32_t> stageRanks, int64_t ranks) {
  for (auto [stage, rank] : llvm::enumerate(stageRanks))
    if (rank != getRankInV(stage, ranks))
      return false;
  return true;
}

std::string ScheduleOp::getTopologyText() {
  ArrayRef<int32_t> stageRanks = getStageRanks();
  int64_t ranks = std::max<int64_t>(getNumRanks(), 1);
  if (isLoop(stageRanks, ranks))
    return "loop";
  if (stageRanks.size() % ranks == 0 && isV(stageRanks, ranks))
    return "v";
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleave(stageRanks, os, " ");
  os << ']';
  return text;
}

static ParseResult parseTopology(OpAsmParser &parser, int64_t ranks, int64_t stages,
                                 SmallVectorImpl<int32_t> &stageRanks) {
  SMLoc location = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalLSquare())) {
    while (failed(parser.parseOptionalRSquare())) {
      int32_t rank = 0;
      if (parser.parseInteger(rank))
        return failure();
      stageRanks.push_back(rank);
    }
    if (static_cast<int64_t>(stageRanks.size()) != stages)
      return parser.emitError(location)
             << "expected the ranks of " << stages << " stages, found " << stageRanks.size();
    return success();
  }
  StringRef style;
  if (failed(parser.parseOptionalKeyword(&style, {"loop", "v"})))
    return parser.emitError(location)
           << "expected 'loop', 'v' or the rank of each stage in brackets";
  if (style == "v" && stages % ranks != 0)
    return parser.emitError(location) << "expected as many stages on each rank, found " << stages
                                      << " stages on " << ranks << " ranks";
  for (int64_t stage = 0; stage < stages; ++stage)
    stageRanks.push_back(style == "loop" ? static_cast<int32_t>(stage % ranks)
                                         : getRankInV(stage, ranks));
  return success();
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

std::string ScheduleOp::normalizeList(StringRef text) {
  std::string list;
  list.reserve(text.size());
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    quoted ^= c == '"';
    if (!quoted && text.substr(i).starts_with("//")) {
      i = std::min(text.find('\n', i), text.size());
      c = ' ';
    }
    if (quoted || !llvm::isSpace(c)) {
      if (!quoted && c == '}' && !list.empty() && list.back() == ' ')
        list.pop_back();
      list.push_back(c);
    } else if (!list.empty() && list.back() != ' ' && list.back() != '{') {
      list.push_back(' ');
    }
  }
  if (!list.empty() && list.back() == ' ')
    list.pop_back();
  return list;
}

/// The arguments of `call "log"(2.0)` and of `collective "tied"[0 3]`.
static ParseResult parseNumbers(OpAsmParser &parser) {
  int64_t integer;
  double number;
  if (succeeded(parser.parseOptionalLParen())) {
    OptionalParseResult result = parser.parseOptionalInteger(integer);
    if (result.has_value() ? failed(*result) : failed(parser.parseFloat(number)))
      return failure();
    return parser.parseRParen();
  }
  if (succeeded(parser.parseOptionalLSquare()))
    while (failed(parser.parseOptionalRSquare()))
      if (parser.parseInteger(integer))
        return failure();
  return success();
}

/// Up to the next `rank` or the brace that closes the schedule, taken from the source as it is.
static ParseResult parseList(OpAsmParser &parser, std::string &list, bool &isLast) {
  const char *begin = parser.getCurrentLocation().getPointer();
  bool inGroup = false;
  while (true) {
    SMLoc location = parser.getCurrentLocation();
    const char *end = location.getPointer();
    StringRef word;
    std::string name;
    if (succeeded(parser.parseOptionalRBrace())) {
      if (inGroup) {
        inGroup = false;
        continue;
      }
      isLast = true;
    } else if (succeeded(parser.parseOptionalLBrace())) {
      if (inGroup)
        return parser.emitError(location) << "groups do not nest";
      inGroup = true;
      continue;
    } else if (succeeded(parser.parseOptionalString(&name))) {
      if (parseNumbers(parser))
        return failure();
      continue;
    } else if (failed(parser.parseOptionalKeyword(&word))) {
      return parser.emitError(location) << "expected an action, 'rank' or '}'";
    } else if (word != "rank") {
      continue;
    } else if (inGroup) {
      return parser.emitError(location) << "expected an action or '}', found 'rank' in a group";
    } else {
      isLast = false;
    }
    list = ScheduleOp::normalizeList(StringRef(begin, end - begin));
    return success();
  }
}

/// In lines of at most 100 columns, broken where there is a space outside of quotes.
static void printList(OpAsmPrinter &printer, StringRef list, size_t used) {
  constexpr size_t kWidth = 100;
  while (!list.empty()) {
    // A word, with the name in quotes behind it: names may have spaces in them.
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

ParseResult ScheduleOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &b = parser.getBuilder();
  auto &properties = result.getOrAddProperties<Properties>();
  std::string name;
  int64_t ranks, stages, microbatches;
  auto parseCount = [&](StringRef keyword, int64_t most, int64_t &count) -> ParseResult {
    if (parser.parseKeyword(keyword))
      return failure();
    SMLoc location = parser.getCurrentLocation();
    if (parser.parseInteger(count))
      return failure();
    if (count < 1 || count > most)
      return parser.emitError(location)
             << "expected from 1 to " << most << " " << keyword << ", found " << count;
    return success();
  };
  SmallVector<int32_t> stageRanks;
  if (parser.parseSymbolName(properties.sym_name) || parser.parseString(&name) ||
      parseCount("ranks", kMaxStages, ranks) || parseCount("stages", kMaxStages, stages) ||
      parseCount("microbatches", kMaxMicrobatches, microbatches) ||
      parser.parseKeyword("topology") || parseTopology(parser, ranks, stages, stageRanks))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("forward_only")))
    properties.forward_only = b.getUnitAttr();
  std::string axis;
  if (succeeded(parser.parseOptionalKeyword("over"))) {
    if (parser.parseString(&axis))
      return failure();
    properties.axis = b.getStringAttr(axis);
  }
  StringRef transfers;
  if (parser.parseKeyword("transfers"))
    return failure();
  SMLoc kindLocation = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword(&transfers, {"implied", "explicit"})))
    return parser.emitError(kindLocation) << "expected 'implied' or 'explicit'";
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) || parser.parseLBrace())
    return failure();

  SmallVector<Attribute> lists;
  bool isLast = succeeded(parser.parseOptionalRBrace());
  SMLoc location = parser.getCurrentLocation();
  if (!isLast && parser.parseKeyword("rank"))
    return failure();
  while (!isLast) {
    int64_t rank;
    location = parser.getCurrentLocation();
    if (parser.parseInteger(rank))
      return failure();
    if (rank != static_cast<int64_t>(lists.size()))
      return parser.emitError(location)
             << "expected the list of rank " << lists.size() << ", found that of rank " << rank;
    std::string list;
    if (parser.parseColon() || parseList(parser, list, isLast))
      return failure();
    lists.push_back(b.getStringAttr(list));
  }
  if (static_cast<int64_t>(lists.size()) != ranks)
    return parser.emitError(location)
           << "expected the lists of " << ranks << " ranks, found " << lists.size();
  properties.name = b.getStringAttr(name);
  properties.stage_ranks = b.getDenseI32ArrayAttr(stageRanks);
  properties.microbatches = b.getI64IntegerAttr(microbatches);
  properties.transfers = TransfersAttr::get(b.getContext(), *symbolizeTransfers(transfers));
  properties.lists = b.getArrayAttr(lists);
  return success();
}

void ScheduleOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << ' ';
  printer.printString(getName());
  printer << " ranks " << getNumRanks() << " stages " << getNumStages() << " microbatches "
          << getMicrobatches() << " topology " << getTopologyText();
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

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

namespace {
/// Goes over a list once. What it accepts is printed such that it parses as the same list.
class ListChecker {
public:
  ListChecker(ScheduleOp op, unsigned rank) : op(op), rank(rank), rest(op.getList(rank)) {}

  LogicalResult run() {
    bool inGroup = false;
    char previous = '{';
    while (!rest.empty()) {
      if (rest.consume_front(" ")) {
        if (previous == ' ' || previous == '{' || rest.empty() || rest.front() == '}')
          return error() << "expects single spaces, and none at its ends or inside of braces";
        previous = ' ';
        continue;
      }
      previous = rest.front();
      if (rest.starts_with("{") == inGroup && (rest.front() == '{' || rest.front() == '}'))
        return error() << (inGroup ? "has a group in a group" : "has a '}' without a '{'");
      if (rest.consume_front("{") || rest.consume_front("}")) {
        inGroup = !inGroup;
        continue;
      }
      if (failed(checkWord()))
        return failure();
    }
    if (inGroup)
      return error() << "has a '{' without a '}'";
    return success();
  }

private:
  InFlightDiagnostic error() { return op.emitOpError("list of rank ") << rank << " "; }

  LogicalResult checkWord() {
    StringRef start = rest;
    auto getWord = [&] { return start.take_until([](char c) { return c == ' ' || c == '}'; }); };
    auto expectedAction = [&] {
      return error() << "expects an action, found '" << getWord() << "'";
    };
    StringRef letters = take([](char c) { return llvm::isAlpha(c); });
    if (letters.empty() || letters == "rank")
      return expectedAction();
    if (letters == "call" || letters == "collective")
      return checkNamed(letters);
    if ((letters.starts_with("send") || letters.starts_with("recv")) && !op.hasTransfers())
      return error() << "has '" << getWord() << "', but transfers are implied";
    if (take([](char c) { return llvm::isDigit(c); }).empty())
      return expectedAction();
    while (rest.consume_front("."))
      if (take([](char c) { return llvm::isDigit(c); }).empty())
        return expectedAction();
    if (!rest.empty() && !StringRef(" }").contains(rest.front()))
      return expectedAction();
    return success();
  }

  /// `call "log"`, `call "log"(2)`, `call "log"(2.0)`, `collective "tied"[0 3]`
  LogicalResult checkNamed(StringRef word) {
    rest.consume_front(" ");
    size_t close = rest.find('"', 1);
    if (!rest.starts_with("\"") || close == StringRef::npos)
      return error() << "expects a name in quotes after '" << word << "'";
    StringRef name = rest.slice(1, close);
    if (!llvm::all_of(name, llvm::isPrint) || name.contains('\\'))
      return error() << "expects printable characters without backslashes in the name after '"
                     << word << "'";
    rest = rest.drop_front(close + 1);
    char open = rest.empty() ? ' ' : rest.front();
    if (open != '(' && open != '[')
      return success();
    rest = rest.drop_front();
    StringRef numbers =
        take([&](char c) { return llvm::isDigit(c) || c == (open == '(' ? '.' : ' '); });
    // `(` takes one or two numbers, `[` any, each of them with digits.
    SmallVector<StringRef> parts;
    numbers.split(parts, open == '(' ? '.' : ' ');
    bool sound = llvm::none_of(parts, [](StringRef part) { return part.empty(); });
    if ((open == '(' && parts.size() > 2) || (!sound && !(open == '[' && numbers.empty())) ||
        !rest.consume_front(open == '(' ? ")" : "]"))
      return error() << "expects numbers in " << (open == '(' ? "parentheses" : "brackets")
                     << " after \"" << name << "\"";
    return success();
  }

  /// The characters that start here. (Not take_while, whose calls are indirect: lists are long.)
  template <typename Fn> StringRef take(Fn fn) {
    size_t size = 0;
    while (size < rest.size() && fn(rest[size]))
      ++size;
    StringRef taken = rest.take_front(size);
    rest = rest.drop_front(taken.size());
    return taken;
  }

  ScheduleOp op;
  unsigned rank;
  StringRef rest;
};
} // namespace

LogicalResult ScheduleOp::verify() {
  // 1.
  int64_t microbatches = getMicrobatches(), stages = getNumStages(), ranks = getNumRanks();
  if (microbatches < 1 || microbatches > kMaxMicrobatches)
    return emitOpError("expects from 1 to ")
           << kMaxMicrobatches << " microbatches, found " << microbatches;
  if (stages < 1 || stages > kMaxStages)
    return emitOpError("expects from 1 to ") << kMaxStages << " stages, found " << stages;
  // 2.
  std::vector<bool> holds(std::max<int64_t>(ranks, 0), false);
  for (auto [stage, rank] : llvm::enumerate(getStageRanks())) {
    // 3. The number of lists is that of the ranks.
    if (rank < 0 || rank >= ranks)
      return emitOpError("places stage ")
             << stage << " on rank " << rank << ", but has the lists of " << ranks << " ranks";
    holds[rank] = true;
  }
  if (auto idle = llvm::find(holds, false); idle != holds.end())
    return emitOpError("places no stage on rank ") << idle - holds.begin();
  // 4., 5.
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (failed(ListChecker(*this, rank).run()))
      return failure();
  return success();
}
