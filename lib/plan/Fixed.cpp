// What a user fixes, and which of it contradicts itself.
#include "lib/plan/Fixed.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"

using namespace cleave::plan;
using cleave::makeError;

llvm::Expected<Fixed> cleave::plan::parseFixed(llvm::StringRef text) {
  Fixed fixed;
  llvm::SmallVector<llvm::StringRef> entries;
  text.split(entries, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef entry : entries) {
    auto [word, value] = entry.split('=');
    std::optional<Key> key;
    std::vector<llvm::StringRef> words;
    for (unsigned index = 0; index < numKeys; ++index) {
      words.push_back(getName(Key(index)));
      if (words.back() == word)
        key = Key(index);
    }
    if (!key)
      return makeError("--fix: expected {0}, found '{1}'", llvm::join(words, ", "), word);
    std::vector<llvm::StringRef> values = listValues(*key);
    int64_t number = 0;
    if (values.empty() && (value.getAsInteger(10, number) || number < 1))
      return makeError("--fix: expected a number of at least 1 for {0}, found '{1}'", word, value);
    if (!values.empty() && !llvm::is_contained(values, value))
      return makeError("--fix: expected {0} for {1}, found '{2}'", llvm::join(values, ", "), word,
                       value);
    std::optional<std::string> &slot = fixed.values[unsigned(*key)];
    std::string found = values.empty() ? std::to_string(number) : value.str();
    if (slot && *slot != found)
      return makeError("--fix: expected one value for {0}, found '{1}' and '{2}'", word, *slot,
                       found);
    slot = std::move(found);
  }
  return fixed;
}

llvm::Error cleave::plan::checkFixed(const Space &space) {
  if (!space.isEmpty())
    return llvm::Error::success();
  // Sets of what is fixed, the smallest first. With the empty one the
  // program itself is at fault.
  std::vector<unsigned> given, sets;
  for (unsigned index = 0; index < numKeys; ++index)
    if (space.fixed.values[index])
      given.push_back(index);
  for (unsigned set = 0; set < 1u << given.size(); ++set)
    sets.push_back(set);
  llvm::stable_sort(sets,
                    [](unsigned a, unsigned b) { return llvm::popcount(a) < llvm::popcount(b); });
  Space fewer = space;
  for (unsigned set : sets) {
    fewer.fixed = Fixed();
    for (auto [bit, index] : llvm::enumerate(given))
      if (set >> bit & 1)
        fewer.fixed.values[index] = space.fixed.values[index];
    if (fewer.isEmpty())
      break;
  }
  std::vector<std::string> parts;
  for (unsigned index = 0; index < numKeys; ++index)
    if (const std::optional<std::string> &value = fewer.fixed.values[index])
      parts.push_back((getName(Key(index)) + "=" + *value).str());
  std::vector<std::string> batches;
  for (const ProgramFacts &facts : space.programs)
    batches.push_back(llvm::formatv("{0} examples, {1} layers, {2} microbatches", facts.batch,
                                    facts.layers, facts.microbatches));
  if (parts.empty())
    return makeError("no plan for {0} ranks divides the program ({1})", space.ranks,
                     llvm::join(batches, "; "));
  return makeError("--fix: no plan for {0} ranks has {1} (the program: {2}){3}", space.ranks,
                   llvm::join(parts, " and "), llvm::join(batches, "; "),
                   parts.size() > 1 ? "; without one of them there are some" : "");
}
