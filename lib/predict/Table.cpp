//===- Table.cpp - reading and writing comma-separated values -----------------===//

#include "lib/predict/Table.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace cleave;
using namespace cleave::predict;

/// Of any field: products of a few of them are whole in doubles.
static constexpr double maxInteger = 1e7;

static void printField(llvm::raw_ostream &os, llvm::StringRef field) {
  if (field.find_first_of(",\"\n\r") == llvm::StringRef::npos) {
    os << field;
    return;
  }
  os << '"';
  for (char c : field) {
    if (c == '"')
      os << '"';
    os << c;
  }
  os << '"';
}

static void printLine(llvm::raw_ostream &os, llvm::ArrayRef<std::string> fields) {
  llvm::interleave(fields, os, [&](const std::string &field) { printField(os, field); }, ",");
  os << '\n';
}

void Table::print(llvm::raw_ostream &os) const {
  for (const std::string &comment : comments)
    os << comment << '\n';
  printLine(os, header);
  for (const std::vector<std::string> &row : rows)
    printLine(os, row);
}

/// Takes one record off the front of `text`, which may span lines within quotes. Fails at a quote
/// that is never closed.
static bool takeRecord(llvm::StringRef &text, std::vector<std::string> &fields, unsigned &lines) {
  fields.assign(1, "");
  bool quoted = false;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    char c = text[at];
    if (c == '\n')
      ++lines;
    if (quoted) {
      if (c != '"')
        fields.back() += c;
      else if (at + 1 < text.size() && text[at + 1] == '"')
        fields.back() += text[++at];
      else
        quoted = false;
    } else if (c == '"' && fields.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      ++at;
      break;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  text = text.drop_front(at);
  return !quoted;
}

llvm::Expected<Table> predict::readTable(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError("{0}: {1}", path, buffer.getError().message());
  llvm::StringRef text = (*buffer)->getBuffer();
  Table table;
  unsigned line = 1;
  while (!text.empty()) {
    if (text.starts_with("#")) {
      auto [comment, rest] = text.split('\n');
      table.comments.push_back(comment.rtrim('\r').str());
      text = rest;
      ++line;
      continue;
    }
    unsigned begin = line;
    std::vector<std::string> fields;
    if (!takeRecord(text, fields, line))
      return makeError("{0}:{1}: expected a closing quote, found the end of the file", path, begin);
    if (fields.size() == 1 && fields.front().empty())
      continue;
    if (table.header.empty()) {
      table.header = std::move(fields);
      for (size_t i = 0; i < table.header.size(); ++i)
        if (llvm::is_contained(llvm::ArrayRef(table.header).take_front(i), table.header[i]))
          return makeError("{0}:{1}: expected one column \"{2}\", found two", path, begin,
                           table.header[i]);
      continue;
    }
    if (fields.size() != table.header.size())
      return makeError("{0}:{1}: expected {2} fields as in the header, found {3}", path, begin,
                       table.header.size(), fields.size());
    table.rows.push_back(std::move(fields));
  }
  if (table.header.empty())
    return makeError("{0}: expected a header with the names of columns, found none", path);
  return table;
}

llvm::StringRef Row::get(llvm::StringRef column) const {
  auto found = llvm::find(table.header, column);
  if (found == table.header.end())
    return "";
  return table.rows[row][size_t(found - table.header.begin())];
}

llvm::Expected<int64_t> Row::integer(llvm::StringRef column, int64_t minimum,
                                     std::optional<int64_t> otherwise) const {
  llvm::StringRef text = get(column);
  if (text.empty() && otherwise)
    return *otherwise;
  double value = 0;
  if (text.empty())
    return makeError("{0}: expected a number, the field is empty", column);
  if (text.getAsDouble(value) || value != static_cast<double>(static_cast<int64_t>(value)) ||
      value < static_cast<double>(minimum) || value > maxInteger)
    return makeError("{0}: expected a whole number from {1} to {2:F0}, found '{3}'", column,
                     minimum, maxInteger, text);
  return static_cast<int64_t>(value);
}

llvm::StringRef Row::find(llvm::StringRef column, llvm::StringRef key) const {
  for (llvm::StringRef part : llvm::split(get(column), ';')) {
    auto [name, value] = part.split('=');
    if (name.trim() == key)
      return value.trim();
  }
  return "";
}
