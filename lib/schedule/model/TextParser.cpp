// Reads Cleave's text form of programs: a recursive-descent parser.
#include "lib/schedule/model/ActionWords.h"
#include "lib/schedule/model/ParseError.h"
#include "lib/schedule/model/Text.h"
#include "lib/schedule/model/Verify.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave::schedule;

namespace {
class Parser {
public:
  Parser(llvm::StringRef text, Schedule &program, const TextOptions &options,
         bool isCanonical = false)
      : text(text), program(program), options(options), isCanonical(isCanonical) {}

  /// Up to the first list or the end.
  llvm::Error parseHeader();

  /// The lists of all ranks, up to the end.
  llvm::Error parseLists() {
    std::vector<bool> seen(program.numRanks(), false);
    if (options.offsets)
      options.offsets->resize(program.numRanks());
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
      currentRank = rank;
      if (llvm::Error error = parseActions(program.ranks[rank], '\0'))
        return error;
      currentRank.reset();
    }
    for (unsigned rank = 0; rank < seen.size(); ++rank)
      if (!seen[rank])
        return expected("the list of rank " + std::to_string(rank));
    return llvm::Error::success();
  }

  /// The list of one rank, without its heading.
  llvm::Error parseList(unsigned rank) {
    currentRank = rank;
    if (options.offsets)
      options.offsets->resize(program.numRanks());
    if (llvm::Error error = parseActions(program.ranks[rank], '\0'))
      return error;
    return atEnd() ? llvm::Error::success() : expected(anAction());
  }

  /// Fails unless all has been read.
  llvm::Error finish() {
    return atEnd() ? llvm::Error::success() : expected(llvm::Twine(options.name) + " to end");
  }
  bool atEnd() {
    skipSpace();
    return offset == text.size();
  }

private:
  static std::string anAction() {
    return "an action (" + llvm::join(llvm::ArrayRef(actionWords), ", ") +
           ", call, collective, '{')";
  }

  // Characters and words.

  void skipSpace() {
    while (offset < text.size() && !isCanonical) {
      if (text.substr(offset, options.comment.size()) == options.comment)
        offset = std::min(text.find_first_of("\r\n", offset), text.size());
      else if (llvm::isSpace(text[offset]))
        ++offset;
      else
        return;
    }
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
    std::optional<Place> place;
    if (currentRank)
      place = Place{*currentRank, program.ranks[*currentRank].size()};
    return llvm::make_error<ParseError>(
        llvm::formatv(/*Validate=*/false, format, std::forward<Args>(args)...).str(),
        options.source, text, at, place);
  }
  llvm::Error expected(const llvm::Twine &what) {
    skipSpace();
    if (isCanonical && isBadlySpaced())
      return errorAt(offset, "expected single spaces between actions, and none elsewhere");
    if (offset == text.size())
      return errorAt(offset, "expected {0}, found the end of {1}", what.str(), options.name);
    llvm::StringRef found =
        text.substr(offset).take_until([](char c) { return llvm::isSpace(c); }).take_front(32);
    return errorAt(offset, "expected {0}, found '{1}'", what.str(), found);
  }

  // The canonical form is what `printList` prints. Nothing skips spaces there.

  /// Whether there is a space before or at the current place that should not be there.
  bool isBadlySpaced() const {
    bool isAtEnd = offset == text.size() || text[offset] == '}' || text[offset] == ']';
    return isAtEnd ? offset > 0 && text[offset - 1] == ' ' : llvm::isSpace(text[offset]);
  }
  /// Takes what stands between two words: anything or nothing, or exactly one space.
  llvm::Error separate(const llvm::Twine &before) {
    if (!isCanonical || take(' '))
      return llvm::Error::success();
    return expected(before);
  }

  llvm::Error parseNumber(unsigned &value, const char *what) {
    skipSpace();
    llvm::StringRef digits = takeWhile([](char c) { return llvm::isDigit(c); });
    if (digits.empty())
      return expected(what);
    if (digits.getAsInteger(10, value))
      return errorAt(offset, "expected {0}, found {1}, which is too large", what, digits);
    if (isCanonical && digits.size() > 1 && digits.front() == '0')
      return errorAt(offset, "expected {0} without leading zeros, found {1}", what, digits);
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
  /// The name of a function or collective, which is quoted wherever it is printed.
  llvm::Error parseName(std::string &name, const char *what) {
    if (llvm::Error error = separate(what))
      return error;
    size_t start = (skipSpace(), offset);
    if (llvm::Error error = parseString(name, what))
      return error;
    if (!llvm::all_of(name, llvm::isPrint) || llvm::StringRef(name).contains('\\'))
      return errorAt(start, "expected printable ASCII characters without backslashes in a name");
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
    auto isListEnd = [&] {
      return atEnd() || (close && peek(close)) || (!isCanonical && peekWord() == "rank");
    };
    for (bool isFirst = true; !isListEnd(); isFirst = false) {
      if (llvm::Error error = isFirst ? llvm::Error::success() : separate("a space"))
        return error;
      Action action;
      size_t start = (skipSpace(), offset);
      if (llvm::Error error = parseAction(action, close))
        return error;
      list.push_back(action);
      if (options.offsets && !close)
        (*options.offsets)[*currentRank].push_back(start);
    }
    return llvm::Error::success();
  }

  llvm::Error parseAction(Action &action, bool inGroup) {
    bool isGroup = peek('{');
    size_t start = offset;
    if (isGroup) {
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
    if (word == "call")
      return parseCustom(action);
    if (word == "collective") {
      if (inGroup)
        return errorAt(start, "a group holds no collectives");
      return parseCollective(action);
    }
    const auto *found = llvm::find(actionWords, word);
    if (found == std::end(actionWords))
      return expected(anAction());
    auto kind = static_cast<ActionKind>(found - std::begin(actionWords));
    offset += word.size();
    unsigned stage = 0, index = 0;
    if (llvm::Error error = parseNumber(stage, "a stage"))
      return error;
    if (stage >= program.numStages())
      return errorAt(start, "stage {0} is out of range: there are {1} stages", stage,
                     program.numStages());
    if (hasMicrobatch(kind) || kind == ActionKind::ReduceGrad) {
      const char *what = hasMicrobatch(kind) ? "a microbatch" : "a bucket";
      if (!take('.'))
        return expected(hasMicrobatch(kind) ? "'.' and a microbatch" : "'.' and a bucket");
      if (llvm::Error error = parseNumber(index, what))
        return error;
      if (hasMicrobatch(kind) && index >= program.numMicrobatches)
        return errorAt(start, "microbatch {0} is out of range: there are {1} microbatches", index,
                       program.numMicrobatches);
      if (kind == ActionKind::ReduceGrad && index >= maxBuckets)
        return errorAt(start, "bucket {0} is out of range: at most {1} buckets", index, maxBuckets);
    }
    action = Action(kind, stage, index);
    if (isP2P(kind) && !options.allowTransfers)
      return errorAt(start, "expected no sends and receives, as transfers are implied, found '{0}'",
                     program.str(action));
    return llvm::Error::success();
  }

  llvm::Error parseCustom(Action &action) {
    offset += llvm::StringRef("call").size();
    CustomAction custom;
    if (llvm::Error error = parseName(custom.name, "the function's name in quotes"))
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
    if (llvm::Error error = parseName(collective.name, "the collective's name in quotes"))
      return error;
    if (!take('['))
      return expected("'[' and the ranks that take part");
    while (!take(']')) {
      if (!collective.ranks.empty())
        if (llvm::Error error = separate("a space or ']'"))
          return error;
      unsigned rank = 0;
      if (llvm::Error error = parseNumber(rank, "a rank or ']'"))
        return error;
      if (isCanonical && !collective.ranks.empty() && rank < collective.ranks.back())
        return errorAt(offset, "expected ascending ranks, found {0} behind {1}", rank,
                       collective.ranks.back());
      collective.ranks.push_back(rank);
    }
    action = program.addCollective(std::move(collective));
    return llvm::Error::success();
  }

  llvm::StringRef text;
  Schedule &program;
  const TextOptions &options;
  const bool isCanonical;
  size_t offset = 0;
  /// Whose list is being read.
  std::optional<unsigned> currentRank;
};
} // namespace

llvm::Error Parser::parseHeader() {
  std::optional<unsigned> ranks, stages, microbatches;
  std::optional<TopologyStyle> style;
  std::optional<std::vector<unsigned>> map;
  size_t topologyAt = 0;
  while (true) {
    llvm::StringRef key = peekWord();
    size_t start = offset;
    if (key == "rank" || atEnd())
      break;
    auto count = [&](std::optional<unsigned> &into, unsigned maximum) -> llvm::Error {
      offset += key.size();
      unsigned value = 0;
      if (llvm::Error error = parseNumber(value, "a number"))
        return error;
      if (into)
        return errorAt(start, "'{0}' is given twice", key);
      if (value == 0 || value > maximum)
        return errorAt(start, "'{0}' must be between 1 and {1}, found {2}", key, maximum, value);
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

llvm::Expected<Schedule> cleave::schedule::parseHeader(llvm::StringRef text,
                                                       const TextOptions &options) {
  Schedule program;
  Parser parser(text, program, options);
  if (llvm::Error error = parser.parseHeader())
    return error;
  if (llvm::Error error = parser.finish())
    return error;
  return program;
}

llvm::Error cleave::schedule::parseLists(llvm::StringRef text, Schedule &program,
                                         const TextOptions &options) {
  return Parser(text, program, options).parseLists();
}

llvm::Error cleave::schedule::parseList(llvm::StringRef text, unsigned rank, Schedule &program,
                                        const TextOptions &options) {
  return Parser(text, program, options, /*isCanonical=*/true).parseList(rank);
}

llvm::Expected<Schedule> cleave::schedule::parseText(llvm::StringRef text, llvm::StringRef source,
                                                     ActionOffsets *offsets) {
  TextOptions options;
  options.source = source;
  options.offsets = offsets;
  Schedule program;
  Parser parser(text, program, options);
  if (llvm::Error error = parser.parseHeader())
    return error;
  if (llvm::Error error = parser.parseLists())
    return error;
  if (std::optional<Problem> problem = checkStructure(program))
    return llvm::make_error<ParseError>(problem->str(), source);
  return program;
}
