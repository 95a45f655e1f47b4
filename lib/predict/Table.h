//===- Table.h - tables of comma-separated values -------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_TABLE_H
#define CLEAVE_LIB_PREDICT_TABLE_H

#include "lib/support/Error.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace cleave::predict {

/// A header and rows with as many fields. Lines that start with '#' are comments, kept apart.
struct Table {
  std::vector<std::string> comments;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;

  /// Fields with commas, quotes or line ends are quoted, as RFC 4180 has it.
  void print(llvm::raw_ostream &os) const;
};

/// Reads a file; a row with another number of fields than the header is an error with its line.
llvm::Expected<Table> readTable(llvm::StringRef path);

/// One row by column name.
class Row {
public:
  Row(const Table &table, size_t row) : table(table), row(row) {}

  /// Empty if the table has no such column.
  llvm::StringRef get(llvm::StringRef column) const;
  /// A whole number of at least `minimum` and at most ten million ("16.0" is one), or `otherwise`
  /// where the field is empty. Errors name the column.
  llvm::Expected<int64_t> integer(llvm::StringRef column, int64_t minimum,
                                  std::optional<int64_t> otherwise = std::nullopt) const;
  /// The value of KEY in a field of "KEY=VALUE;KEY=VALUE"; empty if it has none.
  llvm::StringRef find(llvm::StringRef column, llvm::StringRef key) const;

private:
  const Table &table;
  size_t row;
};

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_TABLE_H
