//===- JsonCheck.cpp - what llvm::json lets pass --------------------------===//

#include "runtime/io/JsonCheck.h"
#include "llvm/ADT/StringSet.h"
#include <vector>

using namespace cleave::runtime;

/// Position just after the string that starts at `begin`; npos if it does not end.
static size_t findEndOfString(llvm::StringRef text, size_t begin) {
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      return i + 1;
  }
  return llvm::StringRef::npos;
}

/// Walks over brackets and strings only: malformed text is left for the parser to report.
static llvm::Error checkDepthAndKeys(llvm::StringRef text, unsigned maxDepth) {
  std::vector<llvm::StringSet<>> keys;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '{' || c == '[') {
      if (keys.size() == maxDepth)
        return makeError("expected JSON nested at most {0} deep, found more at byte {1}", maxDepth,
                         i);
      keys.emplace_back();
    } else if (c == '}' || c == ']') {
      if (!keys.empty())
        keys.pop_back();
    } else if (c == '"') {
      size_t end = findEndOfString(text, i);
      if (end == llvm::StringRef::npos)
        return llvm::Error::success();
      size_t next = text.find_first_not_of(" \t\r\n", end);
      if (next != llvm::StringRef::npos && text[next] == ':' && !keys.empty()) {
        // Decoded, because one key can be spelled in several ways.
        llvm::Expected<llvm::json::Value> key = llvm::json::parse(text.slice(i, end));
        if (!key)
          return key.takeError();
        llvm::StringRef name = key->getAsString().value_or("");
        if (!keys.back().insert(name).second)
          return makeError("expected unique keys, found \"{0}\" twice (again at byte {1})", name,
                           i);
      }
      i = end - 1;
    }
  }
  return llvm::Error::success();
}

llvm::Expected<llvm::json::Value> cleave::runtime::parseJsonStrictly(llvm::StringRef text,
                                                                     unsigned maxDepth) {
  if (llvm::Error error = checkDepthAndKeys(text, maxDepth))
    return error;
  return llvm::json::parse(text);
}
