// Why a text is not a schedule, and where: for callers that have a better way of saying so than a
// line.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_PARSEERROR_H
#define CLEAVE_LIB_SCHEDULE_MODEL_PARSEERROR_H

#include "lib/schedule/model/Schedule.h"

#include "llvm/Support/Error.h"

#include <optional>

namespace cleave::schedule {

/// Logged as "<source>:<line>:<column>: <text>".
class ParseError : public llvm::ErrorInfo<ParseError> {
public:
  static char ID;

  /// An error at `offset`, a byte of `input`.
  ParseError(std::string reason, llvm::StringRef source, llvm::StringRef input, size_t offset,
             std::optional<Place> place = std::nullopt);
  /// An error of the whole text.
  ParseError(std::string reason, llvm::StringRef source)
      : reason(std::move(reason)), source(source.str()) {}

  /// What was expected, and what was found.
  const std::string &text() const { return reason; }
  /// From 1; 0 where the error is about the whole text.
  unsigned line() const { return lineNumber; }
  unsigned column() const { return columnNumber; }
  /// The same place in bytes from the start of the text.
  size_t offset() const { return byte; }
  /// The action that could not be read, where the error is in a rank's list.
  std::optional<Place> place() const { return action; }

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string reason, source;
  unsigned lineNumber = 0, columnNumber = 0;
  size_t byte = 0;
  std::optional<Place> action;
};

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_PARSEERROR_H
