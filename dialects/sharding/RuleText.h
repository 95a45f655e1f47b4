//===- RuleText.h - sharding rules as short texts ---------------------*- C++ -*-===//
//
//     "mk, kn -> mn"                       a letter is a factor: kept if it stands in the result,
//     else summed "ve, * -> *e"                        `*`: any number of dimensions, the same
//     wherever it stands "b(gr)le, bgse, ... -> b(gr)le"      a dimension of two factors, major
//     first
//     "+~mn, mk, kn -> mn"                 `~`: broadcasts to these dimensions; `+`: added to the
//     sum over k "nc, n1 -> n"                        `1`: a dimension of size 1
//
// Tensors stand in the order of the op's arguments; one that is absent has a place all the same.
// Letters that must be whole are listed with their reason: "v: an index may name any row".
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_SHARDING_RULETEXT_H
#define CLEAVE_DIALECTS_SHARDING_RULETEXT_H

#include "dialects/sharding/RuleBuilder.h"

namespace cleave::sharding {

/// A parsed text. It is part of a program that is written once per op: what is wrong with it
/// makes the op opaque, with `error` as reason.
class RuleText {
public:
  /// The strings live as long as rules do: they are literals.
  RuleText(const char *text, std::initializer_list<const char *> wholes = {});

  /// Writes the factors to `builder`. `operands` gives for each operand of the text the op's
  /// operand number, or none if it is absent; results of type `none` are passed over.
  void apply(RuleBuilder &builder, llvm::ArrayRef<std::optional<unsigned>> operands) const;

private:
  struct Tensor {
    bool broadcasts = false, isAddend = false;
    /// A dimension each: letters, "1", or "*".
    llvm::SmallVector<llvm::SmallString<2>, 4> dims;
  };
  llvm::SmallVector<Tensor, 4> operands, results;
  llvm::SmallVector<std::pair<char, const char *>, 2> wholes;
  const char *error = nullptr;

  void parseTensors(llvm::StringRef text, llvm::SmallVectorImpl<Tensor> &tensors);
};

} // namespace cleave::sharding

#endif // CLEAVE_DIALECTS_SHARDING_RULETEXT_H
