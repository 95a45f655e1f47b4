//===- Nesting.cpp - how deep brackets of a text are nested -------------------===//

#include "lib/support/Nesting.h"

using namespace llvm;

/// The position just after the string that starts at `begin`.
static size_t skipString(StringRef text, size_t begin) {
  for (size_t i = begin + 1;;) {
    i = text.find_first_of("\"\\\n", i);
    if (i == StringRef::npos)
      return text.size();
    // No string of either language goes over the end of a line; the parser reports such ones.
    if (text[i] != '\\')
      return i + 1;
    i += 2;
  }
}

Error cleave::support::checkNesting(StringRef text, StringRef name) {
  unsigned depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
    case '\0':
      // Neither text nor bytecode: no parser goes on here.
      return Error::success();
    case '"':
      i = skipString(text, i) - 1;
      break;
    case '/':
      if (text.substr(i).starts_with("//"))
        i = std::min(text.find('\n', i), text.size());
      break;
    case '(':
    case '[':
    case '{':
    case '<':
      if (++depth > kMaxNesting)
        return createStringError(name + ":" + Twine(text.take_front(i).count('\n') + 1) +
                                 ": expected brackets nested at most " + Twine(kMaxNesting) +
                                 " deep, found more");
      break;
    case '-':
      // An arrow closes nothing.
      i += text.substr(i).starts_with("->");
      break;
    case ')':
    case ']':
    case '}':
    case '>':
      depth -= depth > 0;
      break;
    default:
      break;
    }
  }
  return Error::success();
}
