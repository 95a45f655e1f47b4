// Cleave's text form of programs: printer and recursive-descent parser.
#include "lib/schedule/model/Text.h"

#include "lib/schedule/model/Verify.h"
#include "lib/support/Error.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace cleave::schedule;
using cleave::makeError;

void cleave::schedule::printText(const Program &program, llvm::raw_ostream &os) {
  constexpr size_t lineWidth = 100;
  os << "schedule \"" << program.name << "\"\n"
     << "ranks " << program.numRanks() << "\n"
     << "stages " << program.numStages() << "\n"
     << "microbatches " << program.numMicrobatches << "\n"
     << "topology ";
  if (program.topology.style() == TopologyStyle::Custom) {
    os << '[';
    llvm::interleave(program.topology.stageToRank(), os, " ");
    os << "]\n";
  } else {
    os << getStyleName(program.topology.style()) << '\n';
  }
  if (program.forwardOnly)
    os << "forward_only\n";
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    std::string line = "rank " + std::to_string(rank) + ":";
    for (Action action : program.ranks[rank]) {
      std::string text = program.str(action);
      if (line.size() + 1 + text.size() > lineWidth) {
        os << line << '\n';
        line = "   ";
      }
      line += ' ';
      line += text;
    }
    os << line << '\n';
  }
}

namespace {
class Parser {
public:
  Parser(llvm::StringRef text, llvm::StringRef source) : text(text), source(source) {}

  llvm::Expected<Program> run() {
    if (llvm::Error error = parseHeader())
      return error;
    std::vector<bool> seen(program.numRanks(), false);
    while (!atEnd()) {
      size_t start = offset;
      unsigned rank = 0;
      if (!takeWord("rank"))
        return expected("'rank' or an action");
      if (llvm::Error error = parseNumber(rank, "a rank"))
        return error;
      if (rank >= program.numRanks())
        return errorAt(start, "rank {0} is out of range: there are {1} ranks", rank,
                       program.numRanks());
      if (seen[rank])
        return errorAt(start, "rank {0} has a list already", rank);
      seen[rank] = true;
      if (!take(':'))
        return expected("':' after the rank");
      if (llvm::Error error = parseActions(program.ranks[rank], '\0'))
        return error;
    }
    for (unsigned rank = 0; rank < seen.size(); ++rank)
      if (!seen[rank])
        return errorAt(offset, "the file ends without a list for rank {0}", rank);
    return checked();
  }

private:
  // Characters and words.

  void skipSpace() {
    while (offset < text.size()) {
      if (text[offset] == '#')
        offset = std::min(text.find('\n', offset), text.size());
      else if (llvm::isSpace(text[offset]))
        ++offset;
      else
        return;
    }
  }
  bool atEnd() {
    skipSpace();
    return offset == text.size();
  }
  bool peek(char c) {
    skipSpace();
    return offset < text.size() && text[offset] == c;
  }
  bool take(char c) {
    if (!peek(c))
      return false;
    ++offset;
    return true;
  }
  /// The characters from here on that `fn` holds for. (StringRef's take_while calls indirectly,
  /// which files of many megabytes notice.)
  template <typename Fn> llvm::StringRef takeWhile(Fn fn) const {
    size_t end = offset;
    while (end < text.size() && fn(text[end]))
      ++end;
    return text.slice(offset, end);
  }
  /// The letters (and '_') that start here.
  llvm::StringRef peekWord() {
    skipSpace();
    return takeWhile([](char c) { return llvm::isAlpha(c) || c == '_'; });
  }
  bool takeWord(llvm::StringRef word) {
    if (peekWord() != word)
      return false;
    offset += word.size();
    return true;
  }

  template <typename... Args>
  llvm::Error errorAt(size_t at, const char *format, Args &&...args) const {
    llvm::StringRef before = text.take_front(at);
    size_t line = before.count('\n') + 1;
    size_t column = at - (before.rfind('\n') == llvm::StringRef::npos ? 0 : before.rfind('\n') + 1);
    return makeError("{0}:{1}:{2}: {3}", source, line, column + 1,
                     llvm::formatv(/*Validate=*/false, format, std::forward<Args>(args)...).str());
  }
  llvm::Error expected(llvm::StringRef what) {
    skipSpace();
    if (offset == text.size())
      return errorAt(offset, "expected {0}, found the end of the file", what);
    llvm::StringRef found =
        text.substr(offset).take_until([](char c) { return llvm::isSpace(c); }).take_front(32);
    return errorAt(offset, "expected {0}, found '{1}'", what, found);
  }

  llvm::Error parseNumber(unsigned &value, const char *what) {
    skipSpace();
    llvm::StringRef digits = takeWhile([](char c) { return llvm::isDigit(c); });
    if (digits.empty())
      return expected(what);
    if (digits.getAsInteger(10, value))
      return errorAt(offset, "expected {0}, found {1}, which is too large", what, digits);
    offset += digits.size();
    return llvm::Error::success();
  }
  llvm::Error parseString(std::string &value, const char *what) {
    if (!take('"'))
      return expected(what);
    size_t end = text.find_first_of("\"\n", offset);
    if (end == llvm::StringRef::npos || text[end] == '\n')
      return errorAt(offset - 1, "this string has no closing '\"' on its line");
    value = text.slice(offset, end).str();
    offset = end + 1;
    return llvm::Error::success();
  }

  // Header.

  llvm::Error parseHeader() {
    std::optional<unsigned> ranks, stages, microbatches;
    std::optional<TopologyStyle> style;
    std::optional<std::vector<unsigned>> map;
    size_t topologyAt = 0;
    while (true) {
      llvm::StringRef key = peekWord();
      size_t start = offset;
      if (key == "rank" || atEnd())
        break;
      auto count = [&](std::optional<unsigned> &into, unsigned most) -> llvm::Error {
        offset += key.size();
        unsigned value = 0;
        if (llvm::Error error = parseNumber(value, "a number"))
          return error;
        if (into)
          return errorAt(start, "'{0}' is given twice", key);
        if (value == 0 || value > most)
          return errorAt(start, "'{0}' must be between 1 and {1}, found {2}", key, most, value);
        into = value;
        return llvm::Error::success();
      };
      llvm::Error error = llvm::Error::success();
      if (key == "schedule") {
        offset += key.size();
        error = parseString(program.name, "the schedule's name in quotes");
      } else if (key == "ranks") {
        error = count(ranks, maxStages);
      } else if (key == "stages") {
        error = count(stages, maxStages);
      } else if (key == "microbatches") {
        error = count(microbatches, maxMicrobatches);
      } else if (key == "forward_only") {
        offset += key.size();
        program.forwardOnly = true;
      } else if (key == "topology") {
        offset += key.size();
        topologyAt = start;
        error = parseTopology(style, map);
      } else {
        error = expected("'schedule', 'ranks', 'stages', 'microbatches', 'topology', "
                         "'forward_only' or 'rank'");
      }
      if (error)
        return error;
    }
    const char *absent = !ranks          ? "ranks"
                         : !stages       ? "stages"
                         : !microbatches ? "microbatches"
                                         : nullptr;
    if (absent)
      return errorAt(offset, "the header has no '{0}'", absent);
    if (map && map->size() != *stages)
      return errorAt(topologyAt, "the topology places {0} stages, but there are {1}", map->size(),
                     *stages);
    auto topology = map ? Topology::fromMap(*ranks, *map)
                        : Topology::get(style.value_or(TopologyStyle::Loop), *ranks, *stages);
    if (!topology)
      return errorAt(topologyAt, "{0}", llvm::toString(topology.takeError()));
    program.topology = std::move(*topology);
    program.numMicrobatches = *microbatches;
    program.ranks.resize(*ranks);
    return llvm::Error::success();
  }

  llvm::Error parseTopology(std::optional<TopologyStyle> &style,
                            std::optional<std::vector<unsigned>> &map) {
    if (take('[')) {
      map.emplace();
      while (!take(']')) {
        unsigned rank = 0;
        if (llvm::Error error = parseNumber(rank, "a rank or ']'"))
          return error;
        map->push_back(rank);
      }
      return llvm::Error::success();
    }
    llvm::StringRef word = peekWord();
    style = parseTopologyStyle(word);
    if (!style)
      return expected("'loop', 'v' or '[' and the rank of each stage");
    offset += word.size();
    return llvm::Error::success();
  }

  // Actions.

  /// Up to the next rank's list, the end, or `close`.
  llvm::Error parseActions(std::vector<Action> &list, char close) {
    while (!atEnd() && !(close && peek(close)) && peekWord() != "rank") {
      Action action;
      if (llvm::Error error = parseAction(action, close))
        return error;
      list.push_back(action);
    }
    return llvm::Error::success();
  }

  llvm::Error parseAction(Action &action, bool inGroup) {
    size_t start = offset;
    if (peek('{')) {
      start = offset;
      if (inGroup)
        return errorAt(start, "groups do not nest");
      ++offset;
      std::vector<Action> members;
      if (llvm::Error error = parseActions(members, '}'))
        return error;
      if (!take('}'))
        return errorAt(start, "this group has no closing brace");
      if (members.empty())
        return errorAt(start, "a group needs at least one action");
      action = program.addGroup(members);
      return llvm::Error::success();
    }
    llvm::StringRef word = peekWord();
    start = offset;
    if (word == "call")
      return parseCustom(action);
    if (word == "collective") {
      if (inGroup)
        return errorAt(start, "a group holds no collectives");
      return parseCollective(action);
    }
    auto kind = llvm::StringSwitch<std::optional<ActionKind>>(word)
                    .Case("F", ActionKind::Forward)
                    .Case("B", ActionKind::Backward)
                    .Case("I", ActionKind::BackwardInput)
                    .Case("W", ActionKind::BackwardWeight)
                    .Case("sendF", ActionKind::SendForward)
                    .Case("recvF", ActionKind::RecvForward)
                    .Case("sendB", ActionKind::SendBackward)
                    .Case("recvB", ActionKind::RecvBackward)
                    .Case("unshard", ActionKind::Unshard)
                    .Case("reshard", ActionKind::Reshard)
                    .Case("reduce", ActionKind::ReduceGrad)
                    .Case("step", ActionKind::OptimizerStep)
                    .Default(std::nullopt);
    if (!kind)
      return expected("an action (F, B, I, W, sendF, recvF, sendB, recvB, unshard, reshard, "
                      "reduce, step, call, collective, '{')");
    offset += word.size();
    unsigned stage = 0, index = 0;
    if (llvm::Error error = parseNumber(stage, "a stage"))
      return error;
    if (stage >= program.numStages())
      return errorAt(start, "stage {0} is out of range: there are {1} stages", stage,
                     program.numStages());
    if (hasMicrobatch(*kind) || *kind == ActionKind::ReduceGrad) {
      const char *what = hasMicrobatch(*kind) ? "a microbatch" : "a bucket";
      if (!take('.'))
        return expected(hasMicrobatch(*kind) ? "'.' and a microbatch" : "'.' and a bucket");
      if (llvm::Error error = parseNumber(index, what))
        return error;
      if (hasMicrobatch(*kind) && index >= program.numMicrobatches)
        return errorAt(start, "microbatch {0} is out of range: there are {1} microbatches", index,
                       program.numMicrobatches);
      if (*kind == ActionKind::ReduceGrad && index >= maxBuckets)
        return errorAt(start, "bucket {0} is out of range: at most {1} buckets", index, maxBuckets);
    }
    action = Action(*kind, stage, index);
    return llvm::Error::success();
  }

  llvm::Error parseCustom(Action &action) {
    offset += llvm::StringRef("call").size();
    CustomAction custom;
    if (llvm::Error error = parseString(custom.name, "the function's name in quotes"))
      return error;
    if (take('(')) {
      if (llvm::Error error = parseNumber(custom.stage, "a stage"))
        return error;
      if (take('.'))
        if (llvm::Error error = parseNumber(custom.microbatch, "a microbatch"))
          return error;
      if (!take(')'))
        return expected("')'");
    }
    action = program.addCustom(std::move(custom));
    return llvm::Error::success();
  }

  llvm::Error parseCollective(Action &action) {
    offset += llvm::StringRef("collective").size();
    CollectiveAction collective;
    if (llvm::Error error = parseString(collective.name, "the collective's name in quotes"))
      return error;
    if (!take('['))
      return expected("'[' and the ranks that take part");
    while (!take(']')) {
      unsigned rank = 0;
      if (llvm::Error error = parseNumber(rank, "a rank or ']'"))
        return error;
      collective.ranks.push_back(rank);
    }
    action = program.addCollective(std::move(collective));
    return llvm::Error::success();
  }

  llvm::Expected<Program> checked() {
    if (std::optional<Problem> problem = checkStructure(program))
      return makeError("{0}: {1}", source, problem->str());
    return std::move(program);
  }

  llvm::StringRef text, source;
  size_t offset = 0;
  Program program;
};
} // namespace

llvm::Expected<Program> cleave::schedule::parseText(llvm::StringRef text, llvm::StringRef source) {
  return Parser(text, source).run();
}
