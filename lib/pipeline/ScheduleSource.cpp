//===- ScheduleSource.cpp - where a schedule's actions were read ---------------===//

#include "lib/pipeline/ScheduleSource.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;

//===----------------------------------------------------------------------===//
// Finding the text
//===----------------------------------------------------------------------===//

/// Where the line and column, from 1, are in the text.
static size_t findOffset(StringRef text, unsigned line, unsigned column) {
  size_t offset = 0;
  for (unsigned i = 1; i < line && offset != StringRef::npos; ++i) {
    offset = text.find('\n', offset);
    offset += offset != StringRef::npos;
  }
  return offset == StringRef::npos ? text.size() : std::min(offset + column - 1, text.size());
}

/// Where the lists of a `pipeline.schedule` begin: after the brace that follows `transfers` and
/// the attributes, if there are any.
static size_t findLists(StringRef text) {
  bool isBehindTransfers = false, isAttributes = false;
  unsigned depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    StringRef rest = text.drop_front(i);
    if (rest.starts_with("//")) {
      i = std::min(text.find('\n', i), text.size());
    } else if (rest.front() == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        i += text[i] == '\\';
    } else if (llvm::isAlpha(rest.front())) {
      StringRef word =
          rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
      isBehindTransfers |= word == "transfers";
      isAttributes |= depth == 0 && word == "attributes";
      i += word.size() - 1;
    } else if (rest.front() == '{') {
      if (isBehindTransfers && !isAttributes)
        return i + 1;
      ++depth;
    } else if (rest.front() == '}' && depth && --depth == 0) {
      isAttributes = false;
    }
  }
  return StringRef::npos;
}

ScheduleSource::ScheduleSource(ScheduleOp op, const schedule::Schedule &current)
    : fallback(op.getLoc()), current(current) {
  auto location = op->getLoc()->findInstanceOf<FileLineColLoc>();
  if (!location)
    return;
  auto file = llvm::MemoryBuffer::getFile(location.getFilename().getValue(), /*IsText=*/true);
  if (!file)
    return;
  buffer = std::move(*file);
  path = location.getFilename();
  StringRef text = buffer->getBuffer();
  size_t start = findOffset(text, location.getLine(), location.getColumn());
  if (text.drop_front(start).starts_with(ScheduleOp::getOperationName()))
    readOp(text.drop_front(start), op.getSymName());
  else if (start == 0)
    readFile(text, path);
}

void ScheduleSource::readOp(StringRef text, StringRef symbol) {
  StringRef head = text.drop_front(ScheduleOp::getOperationName().size()).ltrim();
  if (!head.consume_front("@") || !(head.consume_front(symbol) || head.starts_with("\"")))
    return;
  size_t lists = findLists(text);
  if (lists == StringRef::npos)
    return;
  written.topology = current.topology;
  written.numMicrobatches = current.numMicrobatches;
  written.ranks.resize(current.numRanks());
  schedule::TextOptions options;
  options.comment = "//";
  options.offsets = &offsets;
  // Ends at the closing brace, which is not an action.
  llvm::consumeError(schedule::parseLists(text.drop_front(lists), written, options));
  for (std::vector<size_t> &list : offsets)
    for (size_t &offset : list)
      offset += text.data() + lists - buffer->getBufferStart();
}

void ScheduleSource::readFile(StringRef text, StringRef path) {
  auto read = path.ends_with(".csv") ? schedule::parseCsv(text, path, &offsets)
                                     : schedule::parseText(text, path, &offsets);
  if (read)
    written = std::move(*read);
  else
    llvm::consumeError(read.takeError());
}

//===----------------------------------------------------------------------===//
// Finding an action
//===----------------------------------------------------------------------===//

Location ScheduleSource::locate(const schedule::Place &place) const {
  if (place.rank >= offsets.size() || place.rank >= current.ranks.size() ||
      place.position >= current.ranks[place.rank].size())
    return fallback;
  // Passes insert actions and keep the order of the others: the second F0.0 of the one list is the
  // second of the other.
  ArrayRef<schedule::Action> list = current.ranks[place.rank], text = written.ranks[place.rank];
  schedule::Action action = list[place.position];
  std::string name = schedule::hasStage(action.kind) ? "" : current.str(action);
  auto isSame = [&](const schedule::Schedule &owner, schedule::Action other) {
    return schedule::hasStage(action.kind) ? other == action
                                           : other.kind == action.kind && owner.str(other) == name;
  };
  size_t earlier = llvm::count_if(list.take_front(place.position),
                                  [&](schedule::Action other) { return isSame(current, other); });
  for (size_t position = 0; position < offsets[place.rank].size(); ++position) {
    if (!isSame(written, text[position]) || earlier--)
      continue;
    StringRef before = buffer->getBuffer().take_front(offsets[place.rank][position]);
    size_t lineStart = before.rfind('\n') + 1; // 0 if there is none
    return FileLineColLoc::get(path, before.count('\n') + 1, before.size() - lineStart + 1);
  }
  return fallback;
}
