//===- Repair.h - a change of one op that makes wrong results right --*- C++ -*-===//
//
// Where values that only the local program has go wrong, nothing says at which of them. So changes
// of single ops are tried: an op that can be changed so that all results are proved is the one that
// is wrong; of several one that the program of one device has as it then is, and then the one with
// which most other values are those of that program.
// This only explains what was not proved.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_REPAIR_H
#define CLEAVE_LIB_PROVE_REPAIR_H

#include "lib/prove/Counterparts.h"

#include <set>

namespace cleave::prove {

class Repair {
public:
  /// Of two that are as good the first is preferred.
  enum class Kind : uint8_t { Without, Operand, Attribute, Sum, Function, Communication, Value };
  struct Found {
    mlir::Operation *op = nullptr;
    /// "without it", "with dim = 1".
    std::string change;
    Kind kind = Kind::Without;
  };
  /// What is tried: changes of ops with which they may have a counterpart; all, of which those are
  /// preferred; or whatever their counterparts, and with the shapes that values have.
  enum class Search : uint8_t { Likely, Aligned, ByValues };

  /// Whether a value of LOCAL is one that GLOBAL has, or would be if it were this tensor.
  using IsFine = llvm::function_ref<bool(mlir::Value, const Tensor *)>;

  /// Of these functions of both programs; `missing` are values of GLOBAL that LOCAL has not.
  Repair(Prover &prover, const Counterparts &counterparts,
         llvm::ArrayRef<mlir::func::FuncOp> global, llvm::ArrayRef<mlir::func::FuncOp> local,
         llvm::ArrayRef<mlir::Value> missing, IsFine isFine,
         std::chrono::steady_clock::time_point until);

  /// One of these ops, which are in the order of the program, that can be changed so that each of
  /// the `wrong` results is right, and each of the `right` ones stays so.
  std::optional<Found> find(llvm::ArrayRef<mlir::Operation *> ops,
                            llvm::ArrayRef<const Result *> wrong,
                            llvm::ArrayRef<const Result *> right, Search search);

private:
  Prover &prover;
  Terms &terms;
  const Counterparts &counterparts;
  llvm::ArrayRef<mlir::Value> missing;
  IsFine isFine;
  /// LOCAL's ops in order, and for what a function returns the arguments that take it.
  std::vector<mlir::Operation *> order;
  llvm::DenseMap<mlir::Operation *, unsigned> places;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 1>> takers;
  /// Ops of one operand, each once.
  std::vector<mlir::Operation *> functions;
  /// Numbers of GLOBAL's ops.
  std::set<double> numbers;

  /// The results that are asked about, by the value that is returned, and whether they are wrong.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<std::pair<const Result *, bool>, 1>> asked;
  unsigned numWrong = 0;
  /// So many ops more may be evaluated in a round.
  static constexpr unsigned kEvaluated = 4'000;
  unsigned left = kEvaluated;
  /// What is tried in this round: by how many ops more have a counterpart with the change.
  int wantedGain = 0;
  bool isByValues = false;
  std::chrono::steady_clock::time_point until;
  bool isOver() const { return !left || std::chrono::steady_clock::now() > until; }

  using Changed = llvm::DenseMap<mlir::Value, Tensor>;
  using Use = llvm::function_ref<bool(Changed, Kind, const llvm::Twine &)>;

  const Tensor &valueOf(mlir::Value value) const;
  std::vector<Tensor> evaluate(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);
  std::vector<Tensor> evaluateOn(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                                 llvm::function_ref<void(mlir::Operation *)> change = {});
  bool mayGain(bool hadCounterpart, bool hasCounterpart) const;
  bool mayGain(mlir::Operation *op, unsigned operand, unsigned number) const;
  std::optional<Changed> withOperand(mlir::Operation *op, unsigned operand, const Tensor &value,
                                     bool isForAll);
  bool makesRight(Changed &changed);
  int numUnlike(const Changed &changed) const;
  /// Changes by what LOCAL has, and by what it has not. `use` returns whether that was one.
  bool tryOwn(mlir::Operation *op, Use use);
  bool tryOperands(mlir::Operation *op, bool areAlike, Use use);
  bool tryAttributes(mlir::Operation *op, Use use);
  std::optional<Changed> evaluateOther(mlir::Operation *op,
                                       llvm::function_ref<void(mlir::Operation *)> change);
  bool tryCommunication(mlir::Operation *op, bool isSum, Use use);
  bool tryValue(mlir::Operation *op, unsigned operand, const Tensor &value, Kind kind,
                const llvm::Twine &what, Use use);
  bool tryFunctions(mlir::Operation *op, Use use);
  bool tryMissing(mlir::Operation *op, Use use);
  std::vector<Tensor> partsOf(mlir::Value value, mlir::RankedTensorType type);
};

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_REPAIR_H
