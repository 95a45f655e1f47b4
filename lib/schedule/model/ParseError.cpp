// Errors of texts: lines and columns are counted only when there is something to report.
#include "lib/schedule/model/ParseError.h"

using namespace cleave::schedule;

char ParseError::ID = 0;

ParseError::ParseError(std::string reason, llvm::StringRef source, llvm::StringRef input,
                       size_t offset, std::optional<Place> place)
    : reason(std::move(reason)), source(source.str()), byte(offset), action(place) {
  llvm::StringRef before = input.take_front(offset);
  lineNumber = static_cast<unsigned>(before.count('\n') + 1);
  // npos + 1 is 0: the first line.
  columnNumber = static_cast<unsigned>(offset - (before.rfind('\n') + 1) + 1);
}

void ParseError::log(llvm::raw_ostream &os) const {
  os << source << ':';
  if (lineNumber)
    os << lineNumber << ':' << columnNumber << ':';
  os << ' ' << reason;
}
