//===- InstanceFile.cpp - a reader of problems ---------------------------===//

#include "lib/solve/InstanceFile.h"

#include "lib/support/Error.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <zlib.h>

using namespace cleave;
using namespace cleave::solve;

/// In the file, costs from here on mark what is forbidden.
static constexpr int64_t forbiddenInFile = 1'000'000'000'000'000'000;

static llvm::Expected<std::string> inflateText(llvm::StringRef data, llvm::StringRef path) {
  z_stream stream = {};
  // 16: with gzip's header and checksum.
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
    return makeError("{0}: cannot start zlib", path);
  llvm::scope_exit end([&] { inflateEnd(&stream); });
  std::string text;
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
  stream.avail_in = data.size();
  std::vector<char> chunk(1 << 18);
  int status = Z_OK;
  while (true) {
    stream.next_out = reinterpret_cast<Bytef *>(chunk.data());
    stream.avail_out = chunk.size();
    status = inflate(&stream, Z_NO_FLUSH);
    text.append(chunk.data(), chunk.size() - stream.avail_out);
    if (status == Z_STREAM_END) {
      // Files that were appended to each other are one text.
      if (stream.avail_in == 0)
        return text;
      status = inflateReset(&stream);
    }
    if (status != Z_OK)
      break;
  }
  size_t line = llvm::StringRef(text).count('\n') + 1;
  if (status == Z_BUF_ERROR)
    return makeError("{0}:{1}: expected more gzip data, found the end of the file", path, line);
  return makeError("{0}:{1}: expected gzip data, found damage: {2}", path, line,
                   stream.msg ? stream.msg : "wrong checksum");
}

llvm::Expected<std::string> cleave::solve::readText(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path);
  if (!buffer)
    return makeError("cannot read {0}: {1}", path, buffer.getError().message());
  llvm::StringRef data = (*buffer)->getBuffer();
  if (data.starts_with("\x1f\x8b"))
    return inflateText(data, path);
  if (path.ends_with(".gz"))
    return makeError("{0}:1: expected gzip data, found other bytes", path);
  return data.str();
}

namespace {

/// Numbers separated by blanks, a line at a time. The first error stays.
class Parser {
public:
  Parser(llvm::StringRef text, llvm::StringRef name) : rest(text), name(name) {}

  llvm::Expected<Problem> parse();

private:
  template <typename... Args> llvm::Error fail(const char *format, Args &&...args) {
    std::string message = llvm::formatv(/*Validate=*/false, format, std::forward<Args>(args)...);
    return makeError("{0}:{1}: {2}", name, lineNumber, message);
  }
  /// The next line that is not a comment or blank.
  llvm::Error nextLine(const char *expected);
  llvm::Error number(int64_t &value, const char *what, int64_t least, int64_t most = INT64_MAX);
  llvm::Error endLine();
  llvm::Error header(llvm::StringRef word, int64_t &value, int64_t most);
  llvm::Error parseNode(Problem &problem);
  llvm::Error parseMatrix(Problem &problem);
  llvm::Error parseEdge(Problem &problem);
  llvm::Error parseAll(Problem &problem);
  llvm::Error parseValues(std::vector<int64_t> &values, const char *what);

  llvm::StringRef rest, line, name;
  size_t lineNumber = 0;
  std::vector<int64_t> costs, usages;
};

} // namespace

llvm::Error Parser::nextLine(const char *expected) {
  while (!rest.empty()) {
    std::tie(line, rest) = rest.split('\n');
    ++lineNumber;
    line = line.ltrim(" \t\r");
    if (!line.empty() && line.front() != '#')
      return llvm::Error::success();
  }
  ++lineNumber;
  return fail("expected {0}, found the end of the file", expected);
}

llvm::Error Parser::number(int64_t &value, const char *what, int64_t least, int64_t most) {
  line = line.ltrim(" \t\r");
  llvm::StringRef word = line.take_until([](char c) { return c == ' ' || c == '\t' || c == '\r'; });
  if (word.empty())
    return fail("expected {0}, found the end of the line", what);
  line = line.drop_front(word.size());
  // Larger ones than an integer holds are forbidden as costs, and out of range elsewhere.
  if (word.getAsInteger(10, value)) {
    if (most != forbidden || !llvm::all_of(word, llvm::isDigit))
      return fail("expected {0}, found '{1}'", what, word);
    value = forbidden;
  }
  if (value < least || value > most) {
    if (most == INT64_MAX)
      return fail("expected {0} of at least {1}, found {2}", what, least, word);
    return fail("expected {0} from {1} to {2}, found {3}", what, least, most, word);
  }
  return llvm::Error::success();
}

llvm::Error Parser::endLine() {
  line = line.trim(" \t\r");
  return line.empty() ? llvm::Error::success()
                      : fail("expected the end of the line, found '{0}'", line.take_front(40));
}

llvm::Error Parser::header(llvm::StringRef word, int64_t &value, int64_t most) {
  std::string expected = llvm::formatv("'{0}' and a number", word);
  if (llvm::Error error = nextLine(expected.c_str()))
    return error;
  llvm::StringRef found = line.take_until([](char c) { return c == ' ' || c == '\t'; });
  if (found != word)
    return fail("expected '{0}' and a number, found '{1}'", word, line.take_front(40));
  line = line.drop_front(found.size());
  if (llvm::Error error = number(value, "a number", 0, most))
    return error;
  return endLine();
}

llvm::Error Parser::parseValues(std::vector<int64_t> &values, const char *what) {
  for (int64_t &value : values) {
    if (llvm::Error error = number(value, what, 0))
      return error;
    if (value >= forbiddenInFile)
      value = forbidden;
  }
  return llvm::Error::success();
}

llvm::Error Parser::parseNode(Problem &problem) {
  int64_t start, end, size;
  if (llvm::Error error = nextLine("a node"))
    return error;
  if (llvm::Error error = number(start, "a start", INT64_MIN, INT64_MAX - 1))
    return error;
  if (llvm::Error error = number(end, "an end", start, INT64_MAX - 1))
    return error;
  if (llvm::Error error = number(size, "a number of choices", 1, 1'000'000))
    return error;
  costs.resize(size);
  usages.resize(size);
  if (llvm::Error error = parseValues(costs, "a cost"))
    return error;
  for (int64_t &usage : usages)
    if (llvm::Error error = number(usage, "a usage", 0, INT64_MAX - 1))
      return error;
  problem.addNode(start, end, costs, usages);
  return endLine();
}

llvm::Error Parser::parseMatrix(Problem &problem) {
  int64_t rows, columns;
  if (llvm::Error error = nextLine("a matrix"))
    return error;
  if (llvm::Error error = number(rows, "a number of rows", 1, 1'000'000))
    return error;
  if (llvm::Error error = number(columns, "a number of columns", 1, 1'000'000))
    return error;
  // A value takes two characters: what does not fit the line is not allocated.
  if (static_cast<size_t>(rows * columns) > line.size())
    return fail("expected {0} costs, found a line of {1} characters", rows * columns, line.size());
  costs.resize(rows * columns);
  if (llvm::Error error = parseValues(costs, "a cost"))
    return error;
  problem.addMatrix({static_cast<unsigned>(rows), static_cast<unsigned>(columns), costs});
  return endLine();
}

llvm::Error Parser::parseEdge(Problem &problem) {
  if (llvm::Error error = nextLine("an edge"))
    return error;
  int64_t first, second, number_;
  int64_t nodes = problem.getNodes().size();
  if (llvm::Error error = number(first, "a node", 0, nodes - 1))
    return error;
  if (llvm::Error error = number(second, "a node", 0, nodes - 1))
    return error;
  if (llvm::Error error = number(number_, "a matrix", 0, int64_t(problem.getMatrices().size()) - 1))
    return error;
  const Matrix &matrix = problem.getMatrices()[number_];
  unsigned rows = problem.getNodes()[first].size, columns = problem.getNodes()[second].size;
  if (matrix.rows != rows || matrix.columns != columns)
    return fail("expected a matrix of {0} x {1} for nodes {2} and {3}, found {4} x {5}", rows,
                columns, first, second, matrix.rows, matrix.columns);
  problem.addEdge(first, second, number_);
  return endLine();
}

llvm::Error Parser::parseAll(Problem &problem) {
  if (llvm::Error error = nextLine("'name'"))
    return error;
  if (!line.starts_with("name"))
    return fail("expected 'name', found '{0}'", line.take_front(40));
  if (llvm::Error error = header("usage_limit", problem.limit, INT64_MAX - 1))
    return error;
  int64_t count;
  constexpr int64_t most = 100'000'000;
  if (llvm::Error error = header("nodes", count, most))
    return error;
  for (; count > 0; --count)
    if (llvm::Error error = parseNode(problem))
      return error;
  if (llvm::Error error = header("matrices", count, most))
    return error;
  for (; count > 0; --count)
    if (llvm::Error error = parseMatrix(problem))
      return error;
  if (llvm::Error error = header("edges", count, most))
    return error;
  for (; count > 0; --count)
    if (llvm::Error error = parseEdge(problem))
      return error;
  if (rest.trim().empty())
    return llvm::Error::success();
  if (llvm::Error error = nextLine("the end of the file")) {
    llvm::consumeError(std::move(error));
    return llvm::Error::success();
  }
  return fail("expected the end of the file, found '{0}'", line.take_front(40));
}

llvm::Expected<Problem> Parser::parse() {
  Problem problem;
  if (llvm::Error error = parseAll(problem))
    return error;
  problem.mergeEdges();
  return problem;
}

llvm::Expected<Problem> cleave::solve::parseProblem(llvm::StringRef text, llvm::StringRef name) {
  return Parser(text, name).parse();
}

llvm::Expected<Problem> cleave::solve::readProblem(llvm::StringRef path) {
  auto text = readText(path);
  if (!text)
    return text.takeError();
  return parseProblem(*text, path);
}
