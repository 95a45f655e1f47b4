//===- Index.cpp - places in tensors as sums of digits ----------------------===//

#include "lib/prove/Index.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::prove;

Index Index::of(Var var, int64_t coefficient) {
  Index index;
  if (coefficient)
    index.parts.push_back({var, coefficient});
  return index;
}

int64_t Index::getCoefficient(Var var) const {
  for (const Part &part : parts)
    if (part.var == var)
      return part.coefficient;
  return 0;
}

Index Index::operator+(const Index &other) const {
  Index sum(constant + other.constant);
  auto left = parts.begin(), right = other.parts.begin();
  while (left != parts.end() || right != other.parts.end()) {
    if (right == other.parts.end() || (left != parts.end() && left->var < right->var)) {
      sum.parts.push_back(*left++);
    } else if (left == parts.end() || right->var < left->var) {
      sum.parts.push_back(*right++);
    } else {
      if (int64_t coefficient = left->coefficient + right->coefficient)
        sum.parts.push_back({left->var, coefficient});
      ++left, ++right;
    }
  }
  return sum;
}

Index Index::operator*(int64_t factor) const {
  Index product(constant * factor);
  if (factor)
    for (const Part &part : parts)
      product.parts.push_back({part.var, part.coefficient * factor});
  return product;
}

Index cleave::prove::substitute(const Index &index, const Substitution &substitution) {
  bool changes = llvm::any_of(
      index.getParts(), [&](const Index::Part &part) { return substitution.contains(part.var); });
  if (!changes)
    return index;
  Index result(index.getConstant());
  for (const Index::Part &part : index.getParts()) {
    auto found = substitution.find(part.var);
    result = result + (found == substitution.end() ? Index::of(part.var, part.coefficient)
                                                   : found->second * part.coefficient);
  }
  return result;
}

std::pair<int64_t, int64_t> Variables::getRange(const Index &index) const {
  int64_t least = index.getConstant(), greatest = least;
  for (const Index::Part &part : index.getParts()) {
    int64_t span = part.coefficient * (getSize(part.var) - 1);
    (span < 0 ? least : greatest) += span;
  }
  return {least, greatest};
}

llvm::SmallVector<Digit, 2> cleave::prove::digitsOf(llvm::ArrayRef<Var> vars,
                                                    const Variables &variables) {
  llvm::SmallVector<Digit, 2> digits;
  int64_t stride = 1;
  for (Var var : llvm::reverse(vars)) {
    digits.push_back({var, variables.getSize(var), stride});
    stride *= variables.getSize(var);
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::optional<llvm::SmallVector<int64_t, 4>> cleave::prove::chainOf(llvm::ArrayRef<int64_t> cuts,
                                                                    int64_t size) {
  llvm::SmallVector<int64_t, 4> chain(cuts);
  chain.push_back(1);
  llvm::sort(chain);
  chain.erase(llvm::unique(chain), chain.end());
  while (!chain.empty() && chain.back() == size)
    chain.pop_back();
  int64_t last = 1;
  for (int64_t stride : chain) {
    if (stride <= 0 || stride % last)
      return std::nullopt;
    last = stride;
  }
  if (size % last || last > size)
    return std::nullopt;
  return chain;
}

std::optional<Index> cleave::prove::expressDigit(const Digit &digit, llvm::ArrayRef<Digit> finer) {
  Index index;
  int64_t covered = 1;
  // Finer digits are a chain without gaps: one that begins where `digit` does, and as many values.
  bool begins = digit.size == 1;
  for (const Digit &part : finer) {
    if (part.size == 1 || part.stride < digit.stride || part.stride >= digit.stride * digit.size)
      continue;
    if (part.stride % digit.stride)
      return std::nullopt;
    begins |= part.stride == digit.stride;
    index = index + Index::of(part.var, part.stride / digit.stride);
    covered *= part.size;
  }
  if (!begins || covered != digit.size)
    return std::nullopt;
  return index;
}
