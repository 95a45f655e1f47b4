//===- Signatures.cpp - functions with an argument a line --------------------===//

#include "tools/cleave-opt/Signatures.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"

#include <optional>

using namespace llvm;

/// Longer lines are broken up: of real programs all, of small ones few.
static constexpr size_t kWidth = 1000;
/// What broken lines are filled to.
static constexpr size_t kFill = 100;

/// The end of the string that starts at `begin`.
static size_t skipString(StringRef text, size_t begin) {
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '"')
      return i;
    i += text[i] == '\\';
  }
  return text.size();
}

/// Splits a list that `text` begins with at its commas: up to the bracket that closes it, or to the
/// end, or to what `ends` finds at the outermost level. `text` is what is left.
static SmallVector<StringRef> takeList(StringRef &text, StringRef ends = "") {
  SmallVector<StringRef> parts;
  unsigned depth = 0;
  size_t begin = 0, i = 0;
  for (; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      i = skipString(text, i);
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      ++depth;
    } else if (c == '-' && text.substr(i).starts_with("->")) {
      ++i;
    } else if (c == ')' || c == ']' || c == '}' || c == '>') {
      if (depth == 0)
        break;
      --depth;
    } else if (depth == 0 && c == ',') {
      parts.push_back(text.slice(begin, i).trim());
      begin = i + 1;
    } else if (depth == 0 && !ends.empty() && text.substr(i).starts_with(ends)) {
      break;
    }
  }
  i = std::min(i, text.size());
  if (StringRef last = text.slice(begin, i).trim(); !last.empty())
    parts.push_back(last);
  text = text.drop_front(i);
  return parts;
}

static void appendLines(std::string &out, ArrayRef<StringRef> parts, StringRef indent) {
  for (size_t i = 0; i < parts.size(); ++i)
    out += (Twine("\n") + indent + parts[i] + (i + 1 < parts.size() ? "," : ")")).str();
}

/// `func.func @f(..., ...) -> (..., ...) attributes {...} {`
static std::optional<std::string> breakFunction(StringRef line, StringRef indent) {
  size_t open = line.find('@');
  if (open != StringRef::npos && line.substr(open).starts_with("@\""))
    open = skipString(line, open + 1);
  open = line.find('(', open);
  if (open == StringRef::npos)
    return std::nullopt;
  std::string inner = (indent + "    ").str();
  std::string result = line.take_front(open + 1).str();
  StringRef rest = line.drop_front(open + 1);
  SmallVector<StringRef> arguments = takeList(rest);
  if (!rest.consume_front(")"))
    return std::nullopt;
  if (arguments.empty())
    result += ")";
  appendLines(result, arguments, inner);
  if (rest.consume_front(" -> (")) {
    SmallVector<StringRef> results = takeList(rest);
    if (!rest.consume_front(")") || results.empty())
      return std::nullopt;
    result += "\n" + inner + "-> (";
    appendLines(result, results, inner);
  }
  if (rest.starts_with(" attributes "))
    result += "\n" + inner + rest.ltrim().str();
  else
    result += rest;
  return result;
}

static void fill(std::string &out, ArrayRef<StringRef> parts, StringRef indent, size_t column) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (column + parts[i].size() + 2 > kFill && i > 0) {
      out += (Twine("\n") + indent).str();
      column = indent.size();
    } else {
      out += " ";
      ++column;
    }
    out += parts[i].str() + (i + 1 < parts.size() ? "," : "");
    column += parts[i].size() + 1;
  }
}

/// `return %0, %1 : tensor<f32>, tensor<f32>`
static std::optional<std::string> breakReturn(StringRef line, StringRef indent) {
  size_t begin = indent.size() + StringRef("return").size();
  StringRef rest = line.drop_front(begin);
  SmallVector<StringRef> values = takeList(rest, " : ");
  if (!rest.consume_front(" : "))
    return std::nullopt;
  SmallVector<StringRef> types = takeList(rest, " loc(");
  if (values.size() != types.size() || !(rest.empty() || rest.starts_with(" loc(")))
    return std::nullopt;
  std::string inner = (indent + "    ").str();
  std::string result = line.take_front(begin).str();
  fill(result, values, inner, begin);
  result += "\n" + inner + ":";
  fill(result, types, inner, inner.size() + 1);
  return result + rest.str();
}

std::string cleave::breakSignatures(StringRef text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    bool ends = line.size() < text.size();
    std::optional<std::string> broken;
    if (line.size() > kWidth) {
      StringRef op = line.ltrim(' '), indent = line.take_front(line.size() - op.size());
      if (op.starts_with("func.func "))
        broken = breakFunction(line, indent);
      else if (op.starts_with("return "))
        broken = breakReturn(line, indent);
    }
    if (broken)
      result += *broken;
    else
      result += line;
    if (ends)
      result += '\n';
    text = rest;
  }
  return result;
}
