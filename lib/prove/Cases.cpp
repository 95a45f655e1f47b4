//===- Cases.cpp - values that differ by a rank's place ---------------------===//

#include "lib/prove/Cases.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;

bool cleave::prove::isOnDigit(const Guard &guard, ArrayRef<Var> digits) {
  ArrayRef<Index::Part> parts = guard.index.getParts();
  return parts.size() == 1 && parts[0].coefficient == 1 && guard.index.getConstant() == 0 &&
         llvm::is_contained(digits, parts[0].var);
}

std::optional<std::vector<Case>>
cleave::prove::listCases(Terms &terms, ArrayRef<const Meaning *> meanings, ArrayRef<Var> digits) {
  SmallVector<std::pair<Var, SmallVector<int64_t>>> cuts;
  for (const Meaning *meaning : meanings)
    for (const Summand &summand : *meaning)
      for (const Guard &guard : summand.guards) {
        if (!isOnDigit(guard, digits))
          continue;
        Var digit = guard.index.getParts()[0].var;
        auto *found = llvm::find_if(cuts, [&](const auto &cut) { return cut.first == digit; });
        if (found == cuts.end()) {
          cuts.push_back({digit, {0, terms.variables.getSize(digit)}});
          found = &cuts.back();
        }
        for (int64_t bound : {guard.low, guard.high})
          if (bound > 0 && bound < terms.variables.getSize(digit))
            found->second.push_back(bound);
      }
  std::vector<Case> regions(1);
  // As many as a ring has steps, and of two rings their product.
  constexpr size_t kMost = 4096;
  for (auto &[digit, bounds] : cuts) {
    llvm::sort(bounds);
    bounds.erase(llvm::unique(bounds), bounds.end());
    std::vector<Case> finer;
    for (const Case &region : regions)
      for (unsigned i = 0; i + 1 < bounds.size(); ++i) {
        finer.push_back(region);
        finer.back().push_back({Index::of(digit), bounds[i], bounds[i + 1]});
      }
    regions = std::move(finer);
    if (regions.size() > kMost)
      return std::nullopt;
  }
  return regions;
}

Meaning cleave::prove::within(Terms &terms, const Meaning &meaning, const Case &region) {
  if (region.empty())
    return meaning;
  Meaning result;
  for (const Summand &summand : meaning) {
    Summand kept = summand;
    bool holds = true;
    llvm::erase_if(kept.guards, [&](const Guard &guard) {
      const auto *there =
          llvm::find_if(region, [&](const Guard &part) { return part.index == guard.index; });
      if (there == region.end())
        return false;
      if (guard.low <= there->low && there->high <= guard.high)
        return true;
      holds &= guard.low < there->high && there->low < guard.high;
      return false;
    });
    if (holds)
      result.push_back(std::move(kept));
  }
  return terms.normalize(std::move(result));
}

std::pair<int64_t, int64_t> cleave::prove::rangeWithin(const Index &index, const Case &region,
                                                       const Variables &variables) {
  int64_t least = index.getConstant(), greatest = least;
  for (const Index::Part &part : index.getParts()) {
    int64_t low = 0, high = variables.getSize(part.var) - 1;
    for (const Guard &guard : region)
      if (guard.index == Index::of(part.var)) {
        low = std::max(low, guard.low);
        high = std::min(high, guard.high - 1);
      }
    least += part.coefficient * (part.coefficient < 0 ? high : low);
    greatest += part.coefficient * (part.coefficient < 0 ? low : high);
  }
  return {least, greatest};
}

void cleave::prove::limitTo(Meaning &meaning, const Case &region) {
  for (Summand &summand : meaning)
    summand.guards.append(region.begin(), region.end());
}
