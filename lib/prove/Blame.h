//===- Blame.h - where what was not proved goes wrong ---------------*- C++ -*-===//
//
// This only explains what was not proved.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_BLAME_H
#define CLEAVE_LIB_PROVE_BLAME_H

#include "lib/prove/Prover.h"

#include "llvm/ADT/SetVector.h"

namespace cleave::prove {

class Blame {
public:
  /// After both programs were walked.
  Blame(Prover &prover, bool triesRepairs);

  /// Names an op for each result that `failed`, in the finding with its number; `proved` are values
  /// that are right.
  void explain(llvm::ArrayRef<std::pair<const Result *, size_t>> failed,
               std::vector<Finding> &findings, llvm::ArrayRef<const Result *> proved);

private:
  /// What a value of LOCAL is to the values of GLOBAL: no tensor of numbers; one of them, however
  /// it lies; that, times a number; or no such value.
  enum class Likeness : uint8_t { Means, Alike, Scaled, Unlike };
  struct Status {
    Likeness likeness = Likeness::Unlike;
    Rational factor = Rational(1);
    /// For each axis the dimension that it shards, or one of these.
    llvm::SmallVector<int, 4> layout;
    static constexpr int kSame = -1, kTerm = -2;

    /// Which of them.
    mlir::Value counterpart;
    /// The same on all ranks, divided by as many: ranks' shares of a sum.
    bool isShare = false;

    bool isFine() const { return likeness == Likeness::Means || likeness == Likeness::Alike; }
    bool isTermOn(unsigned axis) const {
      return likeness == Likeness::Alike && axis < layout.size() && layout[axis] == kTerm;
    }
  };
  using Ops = llvm::SetVector<mlir::Operation *>;
  using Values = llvm::SetVector<mlir::Value>;

  Prover &prover;
  Terms &terms;
  bool triesRepairs, comparesTotals = true;
  /// The float values of GLOBAL by what they are made of, whatever their places and factor.
  llvm::StringMap<llvm::SmallVector<mlir::Value, 2>> counterparts;
  llvm::DenseMap<mlir::Value, Status> known;
  llvm::DenseMap<mlir::Operation *, unsigned> places;
  /// The first op of GLOBAL of each line and name.
  llvm::DenseMap<std::pair<const void *, const void *>, mlir::Operation *> opsOfLines;

  /// The tensor of numbers, of which indices and marks are none.
  static mlir::RankedTensorType numbersOf(mlir::Value value);
  mlir::Value sourceOf(mlir::Value value) const;
  Status statusOf(mlir::Value value);
  void compareBackwards(llvm::ArrayRef<mlir::Value> values);
  Status compare(const Tensor &found, mlir::RankedTensorType type);
  Status compareToWholes(const Tensor &found, mlir::RankedTensorType type);
  bool liesAs(const Tensor &found, llvm::ArrayRef<int64_t> shape, const Tensor &expected,
              llvm::SmallVector<int64_t> whole, Rational factor,
              llvm::SmallVectorImpl<int> &layout);
  bool isInner(const Tensor &found) const;
  bool isNew(const Meaning &meaning) const;

  Values collectSlice(llvm::ArrayRef<mlir::Value> values);
  static Ops producersOf(const Values &values);
  Ops findCandidates(mlir::Value value, bool allowsShares, const Values &believed);
  mlir::Operation *settleFactor(mlir::Operation *op);
  mlir::Operation *findMissingReduction(mlir::Operation *op);
  mlir::Operation *userOfTerm(mlir::Operation *user, mlir::Value value, unsigned axis);
  mlir::Operation *findChangeOfLayout(const Result &result);
  std::vector<mlir::Value> findMissing(llvm::ArrayRef<mlir::func::FuncOp> globalFunctions,
                                       llvm::ArrayRef<mlir::func::FuncOp> localFunctions);
  llvm::SmallVector<mlir::Operation *> findSuspects(llvm::ArrayRef<const Result *> wrong);
  void tryRepairs(llvm::ArrayRef<std::pair<const Result *, size_t>> failed,
                  std::vector<Finding> &findings, llvm::ArrayRef<const Result *> proved);
  void describe(mlir::Operation *op, Finding &finding);
};

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_BLAME_H
