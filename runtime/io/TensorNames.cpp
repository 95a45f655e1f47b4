//===- TensorNames.cpp - files that name tensors otherwise ----------------===//

#include "runtime/io/TensorNames.h"
#include "runtime/io/Files.h"
#include "runtime/io/JsonCheck.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <map>

using namespace cleave::runtime;
namespace json = llvm::json;

namespace {

struct Pattern {
  std::string from, to;
  bool isUsed = false;
};

/// The contents of a file of names.
class NameMap {
public:
  static llvm::Expected<NameMap> read(llvm::StringRef path);
  /// The file's name for the program's `name`.
  std::string map(llvm::StringRef name);
  /// An error for what has mapped nothing.
  llvm::Error checkUsed() const;

private:
  std::string path;
  std::map<std::string, Pattern, std::less<>> exact;
  std::vector<Pattern> patterns;
};

} // namespace

/// What each `*` of `pattern` stands for in `name`, the first ones as little as possible; nullopt
/// if the name does not match. (Without backtracking: taking the leftmost place of each piece but
/// the last finds a match if there is one.)
static std::optional<std::vector<std::string>> match(llvm::StringRef pattern,
                                                     llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef> pieces;
  pattern.split(pieces, '*');
  if (!name.consume_front(pieces.front()) || !name.consume_back(pieces.back()))
    return std::nullopt;
  std::vector<std::string> stars;
  for (llvm::StringRef piece : llvm::ArrayRef(pieces).drop_front().drop_back()) {
    size_t place = name.find(piece);
    if (place == llvm::StringRef::npos)
      return std::nullopt;
    stars.push_back(name.take_front(place).str());
    name = name.drop_front(place + piece.size());
  }
  stars.push_back(name.str());
  return stars;
}

llvm::Expected<NameMap> NameMap::read(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  auto value = parseJsonStrictly(llvm::toStringRef((*file)->bytes()), /*maxDepth=*/2);
  if (!value)
    return makeError("{0}: {1}", path, llvm::toString(value.takeError()));
  const json::Object *object = value->getAsObject();
  if (!object)
    return makeError("{0}: expected a JSON object from names of the program to names of the file",
                     path);
  NameMap map;
  map.path = path.str();
  for (const auto &[key, target] : *object) {
    llvm::StringRef from = key;
    std::optional<llvm::StringRef> to = target.getAsString();
    if (!to)
      return makeError("{0}: expected a string for \"{1}\", found {2}", path, from, target);
    size_t stars = from.count('*');
    if (stars != to->count('*'))
      return makeError("{0}: \"{1}\" has {2} *, but \"{3}\" has {4}: expected as many", path, from,
                       stars, *to, to->count('*'));
    if (stars == 0)
      map.exact[from.str()] = {from.str(), to->str()};
    else
      map.patterns.push_back({from.str(), to->str()});
  }
  // The most particular first; of equally long ones by name, so that no hash table decides.
  llvm::sort(map.patterns, [](const Pattern &a, const Pattern &b) {
    return a.from.size() != b.from.size() ? a.from.size() > b.from.size() : a.from < b.from;
  });
  return map;
}

std::string NameMap::map(llvm::StringRef name) {
  if (auto it = exact.find(name); it != exact.end()) {
    it->second.isUsed = true;
    return it->second.to;
  }
  for (Pattern &pattern : patterns) {
    std::optional<std::vector<std::string>> stars = match(pattern.from, name);
    if (!stars)
      continue;
    pattern.isUsed = true;
    std::string result;
    size_t next = 0;
    for (char c : pattern.to)
      c == '*' ? result += (*stars)[next++] : result += c;
    return result;
  }
  return name.str();
}

llvm::Error NameMap::checkUsed() const {
  for (const auto &[name, pattern] : exact)
    if (!pattern.isUsed)
      return makeError("{0}: the program has no weight \"{1}\"", path, name);
  for (const Pattern &pattern : patterns)
    if (!pattern.isUsed)
      return makeError("{0}: no weight of the program matches \"{1}\" (or a longer pattern takes "
                       "all that do)",
                       path, pattern.from);
  return llvm::Error::success();
}

namespace {

class RenamedTensors final : public TensorSet {
public:
  explicit RenamedTensors(std::unique_ptr<TensorSet> tensors) : tensors(std::move(tensors)) {}

  llvm::Error fill(const TensorNames &names, llvm::ArrayRef<std::string> wanted);
  llvm::StringRef path() const override { return tensors->path(); }
  std::string nameInFiles(llvm::StringRef name) const override {
    auto it = inFiles.find(name);
    return it == inFiles.end() ? name.str() : it->second;
  }

private:
  llvm::Error readBox(size_t index, llvm::ArrayRef<IndexRange> box, uint8_t *to) const override {
    return tensors->read(*sources[index], box, to);
  }
  bool isSame(size_t a, size_t b) const override { return sources[a] == sources[b]; }

  std::unique_ptr<TensorSet> tensors;
  /// By entry.
  std::vector<const TensorEntry *> sources;
  llvm::StringMap<std::string> inFiles;
};

} // namespace

llvm::Error RenamedTensors::fill(const TensorNames &names, llvm::ArrayRef<std::string> wanted) {
  NameMap map;
  if (!names.file.empty())
    if (llvm::Error error = NameMap::read(names.file).moveInto(map))
      return error;
  llvm::StringSet<> taken;
  auto addAs = [&](llvm::StringRef name, const TensorEntry &source) -> llvm::Error {
    if (!add({name.str(), source.dtype, source.shape}))
      return makeError(
          "{0}: no weight takes the file's \"{1}\", while the program's weight with that "
          "name takes \"{2}\"",
          names.file, source.name, nameInFiles(name));
    sources.push_back(&source);
    return llvm::Error::success();
  };
  for (const std::string &name : wanted) {
    if (inFiles.contains(name))
      continue;
    std::string &inFile = inFiles[name] = names.prefix + map.map(name);
    if (const TensorEntry *source = tensors->findEntry(inFile)) {
      taken.insert(inFile);
      if (llvm::Error error = addAs(name, *source))
        return error;
    }
  }
  if (llvm::Error error = map.checkUsed())
    return error;
  bool hasAny = false;
  for (const TensorEntry &source : tensors->entries()) {
    if (!llvm::StringRef(source.name).starts_with(names.prefix))
      continue;
    hasAny = true;
    if (!taken.contains(source.name))
      if (llvm::Error error = addAs(source.name, source))
        return error;
  }
  if (!hasAny)
    return makeError("{0}: expected tensors whose names begin with \"{1}\", found none", path(),
                     names.prefix);
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<TensorSet>>
cleave::runtime::renameTensors(std::unique_ptr<TensorSet> tensors, const TensorNames &names,
                               llvm::ArrayRef<std::string> wanted) {
  auto renamed = std::make_unique<RenamedTensors>(std::move(tensors));
  if (llvm::Error error = renamed->fill(names, wanted))
    return error;
  return renamed;
}
