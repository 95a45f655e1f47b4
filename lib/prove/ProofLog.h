//===- ProofLog.h - what a proof says, for a checker ----------------*- C++ -*-===//
//
// The terms, and each value of both programs by the step that makes it. lib/replay checks it
// without the prover; docs/proof.md describes it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_PROOFLOG_H
#define CLEAVE_LIB_PROVE_PROOFLOG_H

#include "lib/prove/Evaluator.h"

#include "llvm/ADT/DenseSet.h"

namespace cleave::prove {

class ProofLog {
public:
  ProofLog(const Terms &terms, llvm::ArrayRef<Axis> axes, std::string &text);
  void beginProgram(bool isLocal);
  void beginFunction(llvm::StringRef name);
  /// A value that this step makes; one that is like nothing else says so.
  void add(llvm::StringRef step, const Tensor &value);
  void end();

private:
  const Terms &terms;
  llvm::raw_string_ostream os;
  llvm::SmallVector<Var> rankDigits;
  llvm::DenseSet<TermId> unknowns;
  size_t numTerms = 2;

  void writeTerms();
};

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_PROOFLOG_H
