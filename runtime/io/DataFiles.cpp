//===- DataFiles.cpp - what a --data argument names -----------------------===//

#include "runtime/io/DataSources.h"
#include "runtime/io/Files.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include <cmath>
#include <filesystem>
#include <glob.h>

using namespace cleave::runtime;

static constexpr llvm::StringLiteral kKinds[] = {"text", "u16", "u32", "safetensors"};
static constexpr llvm::StringLiteral kMixture = "mix:";

bool cleave::runtime::isMixture(llvm::StringRef source) {
  return source.starts_with(kMixture);
}

/// Reads `KIND:PATH[,PATH...]` into a term.
static llvm::Error parseTerm(llvm::StringRef text, SourceTerm &term) {
  auto [kind, rest] = text.split(':');
  term.text = text.str();
  term.kind = kind.str();
  if (llvm::is_contained(kKinds, kind))
    for (llvm::StringRef path : llvm::split(rest, ','))
      if (!path.empty())
        term.paths.push_back(path.str());
  if (term.paths.empty())
    return makeError("expected data as text:PATH, u16:PATH, u32:PATH or safetensors:PATH, "
                     "several paths separated by commas, or mix:WEIGHT=SOURCE;..., found \"{0}\"",
                     text);
  return llvm::Error::success();
}

static llvm::Error parseWeighted(llvm::StringRef weight, llvm::StringRef source, SourceTerm &term) {
  if (weight.trim().getAsDouble(term.weight) || !std::isfinite(term.weight) || term.weight <= 0)
    return makeError("expected a weight above 0 before a source, found \"{0}\"", weight.trim());
  if (isMixture(source.trim()))
    return makeError("expected a source that is not itself a mixture, found \"{0}\"",
                     source.trim());
  return parseTerm(source.trim(), term);
}

/// A line `WEIGHT SOURCE` for each term; `#` begins a comment.
static llvm::Expected<std::vector<SourceTerm>> readTerms(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  std::vector<SourceTerm> terms;
  size_t number = 0;
  for (llvm::StringRef line : llvm::split(llvm::toStringRef((*file)->bytes()), '\n')) {
    ++number;
    line = line.split('#').first.trim();
    if (line.empty())
      continue;
    auto [weight, source] = line.split(' ');
    SourceTerm &term = terms.emplace_back();
    term.place = llvm::formatv("{0}:{1}", path, number).str();
    if (llvm::Error error = parseWeighted(weight, source, term))
      return makeError("{0}: {1}", term.place, llvm::toString(std::move(error)));
  }
  if (terms.empty())
    return makeError("{0}: expected lines with a weight and a source, found none", path);
  return terms;
}

llvm::Expected<std::vector<SourceTerm>> cleave::runtime::parseSource(llvm::StringRef source) {
  std::vector<SourceTerm> terms;
  llvm::StringRef rest = source;
  if (!rest.consume_front(kMixture)) {
    if (llvm::Error error = parseTerm(source, terms.emplace_back()))
      return error;
    return terms;
  }
  if (rest.consume_front("@"))
    return readTerms(rest);
  for (llvm::StringRef text : llvm::split(rest, ';')) {
    if (text.trim().empty())
      continue;
    auto [weight, from] = text.split('=');
    if (llvm::Error error = parseWeighted(weight, from, terms.emplace_back()))
      return error;
  }
  if (terms.empty())
    return makeError("expected mix:WEIGHT=SOURCE;WEIGHT=SOURCE..., found \"{0}\"", source);
  return terms;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static llvm::Expected<std::vector<std::string>> listDirectory(llvm::StringRef path,
                                                              llvm::StringRef extension) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::recursive_directory_iterator it(path.str(), error), end;
  for (; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_symlink(ignored) && it->is_regular_file(ignored) &&
        llvm::StringRef(it->path().native()).ends_with(extension))
      files.push_back(it->path().string());
  }
  if (error)
    return makeError("{0}: cannot read the directory: {1}", path, error.message());
  llvm::sort(files);
  return files;
}

/// Whether a path is a pattern, not the name of a file.
static bool isPattern(llvm::StringRef path) {
  return path.find_first_of("*?[") != llvm::StringRef::npos && !llvm::sys::fs::exists(path);
}

/// What matches a pattern, sorted.
static std::vector<std::string> expand(llvm::StringRef pattern) {
  glob_t matches{};
  llvm::scope_exit release([&] { ::globfree(&matches); });
  std::vector<std::string> paths;
  if (::glob(pattern.str().c_str(), GLOB_NOSORT, nullptr, &matches) == 0)
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  llvm::sort(paths); // by bytes, whatever the locale
  return paths;
}

llvm::Expected<std::vector<std::string>> cleave::runtime::listFiles(const SourceTerm &term) {
  llvm::StringRef extension = term.kind == "text"          ? ""
                              : term.kind == "safetensors" ? ".safetensors"
                                                           : ".bin";
  std::vector<std::string> files;
  for (const std::string &path : term.paths) {
    std::vector<std::string> found = {path};
    if (isPattern(path)) {
      found = expand(path);
      if (found.empty())
        return makeError("{0}: expected files that match, found none", path);
    }
    for (const std::string &name : found) {
      if (!llvm::sys::fs::is_directory(name)) {
        files.push_back(name);
        continue;
      }
      llvm::Expected<std::vector<std::string>> listed = listDirectory(name, extension);
      if (!listed)
        return listed.takeError();
      if (listed->empty())
        return makeError("{0}: expected {1} files in the directory, found none", name,
                         extension.empty() ? "regular" : extension);
      llvm::append_range(files, *listed);
    }
  }
  return files;
}

std::vector<std::string> cleave::runtime::listDataPaths(llvm::StringRef source) {
  std::vector<std::string> paths;
  llvm::Expected<std::vector<SourceTerm>> terms = parseSource(source);
  if (!terms) {
    llvm::consumeError(terms.takeError());
    return paths;
  }
  if (llvm::StringRef list = source; list.consume_front(kMixture) && list.consume_front("@"))
    paths.push_back(list.str());
  for (const SourceTerm &term : *terms)
    for (const std::string &path : term.paths)
      llvm::append_range(paths, isPattern(path) ? expand(path) : std::vector<std::string>{path});
  return paths;
}
