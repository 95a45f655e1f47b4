//===- Sharding.cpp - writing the sharding rules of aten ops ------------------===//

#include "dialects/aten/Sharding.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave::aten;

bool cleave::aten::isZero(Attribute scalar) {
  if (auto complex = dyn_cast<ComplexAttr>(scalar))
    return isZero(complex.getReal()) && isZero(complex.getImag());
  if (auto integer = dyn_cast<IntegerAttr>(scalar))
    return integer.getValue().isZero();
  auto real = dyn_cast<FloatAttr>(scalar);
  return real && real.getValue().isZero();
}

bool cleave::aten::isFinite(Attribute scalar) {
  if (auto complex = dyn_cast<ComplexAttr>(scalar))
    return isFinite(complex.getReal()) && isFinite(complex.getImag());
  auto real = dyn_cast<FloatAttr>(scalar);
  return !real || real.getValue().isFinite();
}

RuleBuilder::RuleBuilder(Operation *op)
    : sharding::RuleBuilder(op), specs(cast<AtenOpInterface>(op).getArgumentSpecs()),
      segments(operandSegments(op, specs)) {
  if (isa<ViewLikeOpInterface>(op))
    kind(sharding::OpKind::View);
}

std::optional<unsigned> RuleBuilder::operand(StringRef name) const {
  unsigned number = 0, segment = 0;
  for (ArgumentSpec spec : specs) {
    if (spec.kind == 'A')
      continue;
    int32_t count = segments[segment++];
    if (spec.name == name)
      return count ? std::optional(number) : std::nullopt;
    number += count;
  }
  return std::nullopt;
}

void RuleBuilder::text(const sharding::RuleText &text) {
  SmallVector<std::optional<unsigned>> numbers;
  unsigned number = 0, segment = 0;
  for (ArgumentSpec spec : specs) {
    if (spec.kind == 'A')
      continue;
    if (spec.kind == 'L')
      return opaque("its rule is text, which does not support lists of tensors");
    int32_t count = segments[segment++];
    numbers.push_back(count ? std::optional(number) : std::nullopt);
    number += count;
  }
  text.apply(*this, numbers);
}

/// False if the group names an argument that the op's record has not.
bool RuleBuilder::readGroup(StringRef group, SmallVectorImpl<unsigned> &operands,
                            SmallVectorImpl<unsigned> &results) {
  auto [names, numbers] = group.split("->");
  for (StringRef name : llvm::split(names, ',')) {
    name = name.trim();
    unsigned number = 0, segment = 0;
    bool found = false;
    for (ArgumentSpec spec : specs) {
      if (spec.kind == 'A')
        continue;
      int32_t count = segments[segment++];
      for (int32_t i = 0; i < count && spec.name == name; ++i)
        operands.push_back(number + i);
      found |= spec.name == name;
      number += count;
    }
    if (!found) {
      opaque("its rule names an operand that it does not have");
      return false;
    }
  }
  for (StringRef text : llvm::split(numbers, ',')) {
    unsigned result;
    if (!text.trim().getAsInteger(10, result))
      results.push_back(result);
  }
  return true;
}

void RuleBuilder::linear(StringRef group) {
  SmallVector<unsigned> operands, results;
  if (readGroup(group, operands, results))
    linear(operands, results);
}

void RuleBuilder::moves(StringRef group) {
  SmallVector<unsigned> operands, results;
  if (readGroup(group, operands, results))
    moves(operands, results);
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

void RuleBuilder::reduce(ArrayRef<int64_t> dims, bool keepDims,
                         std::optional<FactorReduction> reduction, const char *reason) {
  ArrayRef<int64_t> shape = operandShape(0);
  int64_t rank = shape.size(), at = 0;
  auto isReduced = [&](int64_t dim) {
    return dims.empty() ||
           llvm::any_of(dims, [&](int64_t other) { return wrapped(other, rank) == dim; });
  };
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (!isReduced(dim)) {
      keep(0, dim, 0, at++);
      continue;
    }
    operandDim(0, dim, reduction ? factor(shape[dim], *reduction) : whole(shape[dim], reason));
    if (keepDims)
      resultDim(0, at++, {});
  }
}

void RuleBuilder::allBut(int64_t dim, const char *reason) {
  int64_t rank = resultShape(0).size();
  for (int64_t at = 0; at < rank; ++at) {
    bool isWhole = at == wrapped(dim, rank);
    std::optional<FactorId> shared;
    auto factorOf = [&](int64_t size) {
      if (!shared || rule.factors[*shared].size != size)
        shared = isWhole ? whole(size, reason) : factor(size);
      return *shared;
    };
    for (unsigned i = 0; i < rule.operands.size(); ++i)
      if (at < int64_t(rule.operands[i].size()))
        operandDim(i, at, factorOf(operandShape(i)[at]));
    for (unsigned i = 0; i < rule.results.size(); ++i)
      resultDim(i, at, factorOf(resultShape(i)[at]));
  }
}

void RuleBuilder::sameDims(ArrayRef<int64_t> dropped, ArrayRef<int64_t> added, const char *reason) {
  ArrayRef<int64_t> shape = operandShape(0);
  SmallVector<FactorId> kept;
  for (int64_t dim = 0; dim < int64_t(shape.size()); ++dim) {
    if (llvm::is_contained(dropped, dim)) {
      wholeOperandDim(0, dim, reason);
      continue;
    }
    kept.push_back(factor(shape[dim]));
    operandDim(0, dim, kept.back());
  }
  for (unsigned result = 0; result < rule.results.size(); ++result) {
    size_t next = 0;
    for (int64_t dim = 0; dim < int64_t(rule.results[result].size()); ++dim) {
      if (llvm::is_contained(added, dim))
        wholeResultDim(result, dim, reason);
      else if (next < kept.size())
        resultDim(result, dim, kept[next++]);
    }
  }
}
