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
  for (Summand &summand : form)
    forEachIndex(summand, [&](Index &index) { index = replace(index, digits); });
}

Digits cleave::replay::digitsAt(ArrayRef<Index> indices) {
  Digits digits;
  for (auto [i, index] : llvm::enumerate(indices))
    digits[i] = index;
  return digits;
}

bool cleave::replay::mentions(const Summand &summand, Var var) {
  bool is = false;
  forEachIndex(summand, [&](const Index &index) { is |= index.at(var) != 0; });
  return is;
}

Form cleave::replay::formOf(Reference value, Rational factor) {
  Summand summand;
  summand.factor = factor;
  summand.value = std::move(value);
  return {std::move(summand)};
}

Summand cleave::replay::within(Summand part, const Summand &whole) {
  part.factor *= whole.factor;
  llvm::append_range(part.bound, whole.bound);
  llvm::append_range(part.guards, whole.guards);
  return part;
}

Form cleave::replay::where(Form form, ArrayRef<Guard> guards) {
  for (Summand &summand : form)
    llvm::append_range(summand.guards, guards);
  return form;
}

std::pair<int64_t, int64_t> Forms::rangeOf(const Index &index) const {
  int64_t least = index.constant, greatest = least;
  for (auto [var, factor] : index.parts) {
    int64_t &end = factor < 0 ? least : greatest;
    end = addProduct(end, factor, sizes[var] - 1);
  }
  return {least, greatest};
}
