//===- RuleText.cpp - sharding rules as short texts ---------------------------===//

#include "dialects/sharding/RuleText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave::sharding;

static constexpr const char *kSaidWhole = "its rule says so";

RuleText::RuleText(StringRef text, std::initializer_list<const char *> wholes) {
  auto [tensors, clauses] = text.split(';');
  auto [left, right] = tensors.split("->");
  if (!tensors.contains("->"))
    error = "expected '->' between operands and results";
  parseTensors(left, operands);
  parseTensors(right, results);
  for (const char *whole : wholes) {
    auto [letters, reason] = StringRef(whole).split(": ");
    if (reason.empty())
      error = "expected a reason for a whole factor";
    for (char letter : letters)
      this->wholes.push_back({letter, reason.data()});
  }
  if (!clauses.empty())
    for (StringRef clause : llvm::split(clauses, ';'))
      parseClause(clause.trim());
}

bool RuleText::hasLetter(ArrayRef<Tensor> tensors, char letter) const {
  return llvm::any_of(tensors, [&](const Tensor &tensor) {
    return llvm::any_of(tensor.dims, [&](StringRef dim) { return dim.contains(letter); });
  });
}

void RuleText::parseClause(StringRef clause) {
  auto [word, rest] = clause.split(' ');
  SmallVector<StringRef> names;
  rest.split(names, ' ', -1, /*KeepEmpty=*/false);
  if (word == "linear") {
    auto &group = linear.emplace_back();
    for (StringRef name : names) {
      unsigned operand = 0;
      if (name.getAsInteger(10, operand) || operand >= operands.size())
        error = "expected numbers of its operands after 'linear', found '" + name.str() + "'";
      else
        group.push_back(operand);
    }
    if (names.empty())
      error = "expected numbers of its operands after 'linear', found none";
    return;
  }
  auto reduction = llvm::StringSwitch<FactorReduction>(word)
                       .Case("sum", FactorReduction::Sum)
                       .Case("avg", FactorReduction::Avg)
                       .Case("max", FactorReduction::Max)
                       .Case("min", FactorReduction::Min)
                       .Case("product", FactorReduction::Product)
                       .Default(FactorReduction::None);
  if (reduction == FactorReduction::None && word != "whole") {
    error = "expected whole, sum, avg, max, min, product or linear, found '" + clause.str() + "'";
    return;
  }
  for (StringRef name : names) {
    if (name.size() != 1 || (!hasLetter(operands, name[0]) && !hasLetter(results, name[0])))
      error =
          "expected letters of its tensors after '" + word.str() + "', found '" + name.str() + "'";
    else if (word == "whole")
      wholes.push_back({name[0], kSaidWhole});
    else
      reductions.push_back({name[0], reduction});
  }
}

void RuleText::parseTensors(StringRef text, SmallVectorImpl<Tensor> &tensors) {
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    Tensor &tensor = tensors.emplace_back();
    for (size_t i = 0; i < part.size(); ++i) {
      char c = part[i];
      if (c == ' ')
        continue;
      if (c == '+')
        tensor.isAddend = true;
      else if (c == '~')
        tensor.broadcasts = true;
      else if (c == '*' || c == '1' || llvm::isAlpha(c))
        tensor.dims.emplace_back(part.substr(i, 1));
      else if (size_t close = part.find(')', i); c == '(' && close != StringRef::npos) {
        tensor.dims.emplace_back(part.slice(i + 1, close));
        i = close;
      } else
        error = std::string("found an unexpected '") + c + "' in its tensors";
    }
  }
}

namespace {

/// The factors of one instance: letters get theirs when a dimension tells their size.
struct Letters {
  RuleBuilder &builder;
  SmallVector<std::pair<char, FactorId>, 8> known;
  std::optional<SmallVector<FactorId>> star;
  bool fits = true;

  std::optional<FactorId> find(char letter) const {
    for (auto [name, factor] : known)
      if (name == letter)
        return factor;
    return std::nullopt;
  }
  /// The factors of a dimension of this size; at most one of its letters may be new.
  DimFactors factors(StringRef dim, int64_t size) {
    DimFactors list;
    if (dim == "1") {
      fits &= size == 1;
      return list;
    }
    int64_t left = size;
    bool unknown = false;
    for (char letter : dim) {
      if (std::optional<FactorId> factor = find(letter))
        left = builder.get().factors[*factor].size ? left / builder.get().factors[*factor].size : 0;
      else
        unknown = true;
    }
    for (char letter : dim) {
      std::optional<FactorId> factor = find(letter);
      if (!factor) {
        fits &= unknown;
        unknown = false;
        factor = builder.factor(left, FactorReduction::Sum);
        builder.get().factors[*factor].name = std::string(1, letter);
        known.push_back({letter, *factor});
      }
      list.push_back(*factor);
    }
    return list;
  }
};

} // namespace

std::string RuleText::apply(RuleBuilder &builder, ArrayRef<std::optional<unsigned>> numbers) const {
  if (!error.empty()) {
    builder.opaque("the text of its rule is malformed");
    return error;
  }
  constexpr const char *noFit = "the text of its rule does not fit its operands";
  ShardingRule &rule = builder.get();
  if (numbers.size() != operands.size() || results.size() != rule.results.size()) {
    builder.opaque(noFit);
    return llvm::formatv("it is for {0} operands and {1} results, of which the op has {2} and {3}",
                         operands.size(), results.size(), numbers.size(), rule.results.size());
  }
  Letters letters{builder, {}, {}};
  std::string misfit;
  auto assign = [&](const char *what, size_t number, const Tensor &tensor, ArrayRef<int64_t> shape,
                    TensorFactors &dims, bool compoundOnly) {
    bool hasStar = llvm::is_contained(tensor.dims, "*");
    size_t starred = shape.size() + (hasStar ? 1 : 0) - tensor.dims.size();
    if (starred > shape.size() || (!hasStar && starred != 0)) {
      letters.fits = false;
      misfit = llvm::formatv("{0} {1} has {2} dimensions, and {3} in its text", what, number,
                             shape.size(), tensor.dims.size());
      return;
    }
    size_t at = 0;
    for (StringRef dim : tensor.dims) {
      if (dim != "*") {
        if (compoundOnly == (dim.size() > 1))
          dims[at] = letters.factors(dim, shape[at]);
        ++at;
        continue;
      }
      if (!letters.star) {
        letters.star.emplace();
        for (size_t i = 0; i < starred; ++i)
          letters.star->push_back(builder.factor(shape[at + i], FactorReduction::Sum));
      }
      letters.fits &= letters.star->size() == starred;
      for (size_t i = 0; i < starred && letters.fits; ++i)
        dims[at + i] = {(*letters.star)[i]};
      at += starred;
    }
  };
  // Dimensions of one letter first: they give the sizes by which those of several are divided.
  for (bool compoundOnly : {false, true}) {
    for (size_t i = 0; letters.fits && i < operands.size(); ++i)
      if (numbers[i] && !operands[i].broadcasts)
        assign("operand", i, operands[i], builder.operandShape(*numbers[i]),
               rule.operands[*numbers[i]], compoundOnly);
    for (size_t i = 0; letters.fits && i < results.size() && i < rule.results.size(); ++i)
      if (!results[i].dims.empty() && !rule.results[i].empty())
        assign("result", i, results[i], builder.resultShape(i), rule.results[i], compoundOnly);
  }
  if (!letters.fits) {
    builder.opaque(noFit);
    return misfit.empty() ? "its dimensions have other sizes" : misfit;
  }

  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].broadcasts || !numbers[i])
      continue;
    TensorFactors to;
    for (StringRef dim : operands[i].dims)
      to.push_back(letters.factors(dim, 1));
    builder.broadcastOperand(*numbers[i], to);
  }
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].isAddend && numbers[i])
      for (auto [id, factor] : llvm::enumerate(rule.factors)) {
        bool contracted = llvm::any_of(rule.results, [&](const TensorFactors &result) {
          return !ShardingRule::contains(result, id);
        });
        // A dimension of size 1 that stretches over a kept factor is not an addend of it.
        if (contracted && !ShardingRule::contains(rule.operands[*numbers[i]], id))
          factor.addends.push_back(*numbers[i]);
      }
  for (auto [letter, reduction] : reductions)
    if (std::optional<FactorId> factor = letters.find(letter))
      rule.factors[*factor].reduction = reduction;
  for (auto [letter, reason] : wholes)
    if (std::optional<FactorId> factor = letters.find(letter))
      builder.makeWhole(*factor, reason);
  for (ArrayRef<unsigned> group : linear) {
    SmallVector<unsigned> present;
    for (unsigned operand : group)
      if (numbers[operand])
        present.push_back(*numbers[operand]);
    if (!present.empty())
      builder.linear(present);
  }
  return "";
}
