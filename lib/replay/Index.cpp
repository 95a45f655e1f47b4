//===- Index.cpp - arithmetic of places -------------------------------------===//

#include "lib/replay/Form.h"

using namespace cleave::replay;

static bool overflowed = false;
bool cleave::replay::hasOverflowed() {
  return overflowed;
}

static int64_t addProduct(int64_t sum, int64_t a, int64_t b) {
  int64_t product = 0, result = 0;
  overflowed |= __builtin_mul_overflow(a, b, &product);
  overflowed |= __builtin_add_overflow(sum, product, &result);
  return result;
}

int64_t Index::at(Var var) const {
  auto found = parts.find(var);
  return found == parts.end() ? 0 : found->second;
}

Index Index::plus(Var var, int64_t factor) const {
  Index result = *this;
  int64_t &part = result.parts[var];
  part = addProduct(part, factor, 1);
  if (part == 0)
    result.parts.erase(var);
  return result;
}

Index Index::plus(const Index &other, int64_t factor) const {
  Index result = *this;
  result.constant = addProduct(constant, other.constant, factor);
  for (auto [var, part] : other.parts) {
    int64_t &own = result.parts[var];
    own = addProduct(own, part, factor);
    if (own == 0)
      result.parts.erase(var);
  }
  return result;
}

Index cleave::replay::replace(const Index &index, const Digits &digits) {
  Index result(index.constant);
  for (auto [var, factor] : index.parts) {
    auto found = digits.find(var);
    result = found == digits.end() ? result.plus(var, factor) : result.plus(found->second, factor);
  }
  return result;
}

void cleave::replay::replace(Form &form, const Digits &digits) {
  for (Summand &summand : form) {
    for (Guard &guard : summand.guards)
      guard.index = replace(guard.index, digits);
    for (Index &index : summand.value.at)
      index = replace(index, digits);
  }
}

std::pair<int64_t, int64_t> Forms::rangeOf(const Index &index) const {
  int64_t least = index.constant, greatest = least;
  for (auto [var, factor] : index.parts) {
    int64_t &end = factor < 0 ? least : greatest;
    end = addProduct(end, factor, sizes[var] - 1);
  }
  return {least, greatest};
}
