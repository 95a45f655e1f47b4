//===- Pattern.cpp - patterns of module paths and parameter names -----------===//

#include "lib/placement/plan/Plan.h"

#include "llvm/Support/GlobPattern.h"

using namespace cleave;

/// Whether a component matches; most are plain names, for which no pattern is built.
static bool matchesPart(llvm::StringRef pattern, llvm::StringRef part) {
  if (pattern == "*")
    return true;
  if (pattern.find_first_of("*?[{\\") == llvm::StringRef::npos)
    return pattern == part;
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern, 64);
  if (!glob) {
    llvm::consumeError(glob.takeError());
    return false;
  }
  return glob->match(part);
}

static bool matches(llvm::ArrayRef<llvm::StringRef> pattern, llvm::ArrayRef<llvm::StringRef> path) {
  if (pattern.empty())
    return path.empty();
  if (pattern.front() == "**") {
    for (size_t taken = 0; taken <= path.size(); ++taken)
      if (matches(pattern.drop_front(), path.drop_front(taken)))
        return true;
    return false;
  }
  return !path.empty() && matchesPart(pattern.front(), path.front()) &&
         matches(pattern.drop_front(), path.drop_front());
}

static llvm::SmallVector<llvm::StringRef> components(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, '.');
  return parts;
}

bool placement::matchesPath(llvm::StringRef pattern, llvm::StringRef path) {
  return matches(components(pattern), components(path));
}

std::string placement::checkPattern(llvm::StringRef pattern) {
  unsigned manyWild = 0;
  for (llvm::StringRef part : components(pattern)) {
    if (part.empty())
      return "an empty component between dots";
    // Each doubles the ways to match; more are never needed.
    if (part == "**" && ++manyWild > 4)
      return "more than four components '**'";
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(part, 64);
    if (!glob)
      return llvm::toString(glob.takeError());
  }
  return "";
}
