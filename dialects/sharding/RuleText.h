//===- RuleText.h - sharding rules as short texts ---------------------*- C++ -*-===//
//
//     "mk, kn -> mn"                    a letter is a factor: kept if it stands in the result,
//                                       else summed
//     "ve, * -> *e"                     `*`: any number of dimensions, the same wherever it stands
//     "b(gr)le, bgse, ... -> b(gr)le"   a dimension of two factors, major first
//     "+~mn, mk, kn -> mn"              `~`: broadcasts to these dimensions; `+`: added to the sum
//                                       over k
//     "nc, n1 -> n"                     `1`: a dimension of size 1
//
// Tensors stand in the order of the op's arguments; one that is absent has a place all the same.
// Letters that must be whole are listed with their reason: "v: an index may name any row". Texts
// that stand in programs have clauses for that, and for what else a rule says:
//
//     "bsv, ve -> bse; whole s v"       factors that must not be sharded
//     "bs -> b; max s"                  how a factor is reduced: sum, avg, max, min, product
//     "bs, bs, b -> bs; linear 0 1"     in which operands, counted in the text, the op is linear
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_SHARDING_RULETEXT_H
#define CLEAVE_DIALECTS_SHARDING_RULETEXT_H

#include "dialects/sharding/RuleBuilder.h"

#include <string>

namespace cleave::sharding {

/// A parsed text. What is wrong with it makes the op opaque.
class RuleText {
public:
  /// The reasons among `wholes` live as long as rules do: they are literals.
  RuleText(llvm::StringRef text, std::initializer_list<const char *> wholes = {});

  /// What is wrong with the text itself, whatever op it is for; empty if nothing is.
  llvm::StringRef getError() const { return error; }
  /// Writes the factors to `builder`. `operands` gives for each operand of the text the op's
  /// operand number, or none if it is absent; results of type `none` are passed over. Returns why
  /// the text does not fit the op, which is opaque then; empty if it does.
  std::string apply(RuleBuilder &builder, llvm::ArrayRef<std::optional<unsigned>> operands) const;

private:
  struct Tensor {
    bool broadcasts = false, isAddend = false;
    /// A dimension each: letters, "1", or "*".
    llvm::SmallVector<llvm::SmallString<2>, 4> dims;
  };
  llvm::SmallVector<Tensor, 4> operands, results;
  llvm::SmallVector<std::pair<char, const char *>, 2> wholes;
  llvm::SmallVector<std::pair<char, FactorReduction>, 2> reductions;
  /// Operands of the text in which the op is linear together.
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 2> linear;
  std::string error;

  void parseTensors(llvm::StringRef text, llvm::SmallVectorImpl<Tensor> &tensors);
  void parseClause(llvm::StringRef clause);
  bool hasLetter(llvm::ArrayRef<Tensor> tensors, char letter) const;
};

} // namespace cleave::sharding

#endif // CLEAVE_DIALECTS_SHARDING_RULETEXT_H
