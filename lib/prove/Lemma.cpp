//===- Lemma.cpp - what a proof rests on, by name ---------------------------===//

#include "lib/prove/Lemma.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::prove;

llvm::ArrayRef<LemmaInfo> cleave::prove::getLemmas() {
  static constexpr LemmaInfo lemmas[] = {
#define CLEAVE_PROVE_LEMMA(id, name, claim) {Lemma::id, name, claim},
      CLEAVE_PROVE_LEMMAS(CLEAVE_PROVE_LEMMA)
#undef CLEAVE_PROVE_LEMMA
  };
  return lemmas;
}

std::optional<Lemma> cleave::prove::findLemma(llvm::StringRef name) {
  const auto *found =
      llvm::find_if(getLemmas(), [&](const LemmaInfo &info) { return info.name == name; });
  return found == getLemmas().end() ? std::nullopt : std::optional(found->lemma);
}
