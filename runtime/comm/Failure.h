//===- Failure.h - What a rank reports when its peers fail it ---*- C++ -*-===//
//
// Errors that concern several ranks at once. The launcher tells them from a rank's own errors: the
// rank that started a failure is reported as its cause, the others as its victims.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_FAILURE_H
#define CLEAVE_RUNTIME_COMM_FAILURE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace cleave::runtime {

/// An operation could not complete because of other ranks: they died, stopped, failed, or did not
/// reach it within the timeout.
class PeerFailure : public llvm::ErrorInfo<PeerFailure> {
public:
  static char ID;

  PeerFailure(std::string message, std::vector<int> missing, bool isReported = false,
              std::string operation = {})
      : text(std::move(message)), missing(std::move(missing)), reported(isReported),
        waiting(std::move(operation)) {}

  /// The world ranks at fault, ascending; empty if every rank is present but data did not
  /// arrive.
  llvm::ArrayRef<int> missingRanks() const { return missing; }
  /// Whether another rank has told this reason, and so reports it itself.
  bool isReported() const { return reported; }
  /// The operation that is incomplete; empty if the rank was in none.
  llvm::StringRef operation() const { return waiting; }

  void log(llvm::raw_ostream &os) const override { os << text; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string text;
  std::vector<int> missing;
  bool reported;
  std::string waiting;
};

/// The ranks together found that they must not go on. Every rank has this same error, so that one
/// of them is enough to print it.
class CollectiveRefusal : public llvm::ErrorInfo<CollectiveRefusal> {
public:
  static char ID;

  explicit CollectiveRefusal(std::string message) : text(std::move(message)) {}

  void log(llvm::raw_ostream &os) const override { os << text; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string text;
};

/// A signal ended the run in good order, on all ranks at the same step. Every rank has this same
/// error.
class Interruption : public llvm::ErrorInfo<Interruption> {
public:
  static char ID;

  Interruption(int signal, std::string message) : number(signal), text(std::move(message)) {}

  int signal() const { return number; }

  void log(llvm::raw_ostream &os) const override { os << text; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  int number;
  std::string text;
};

/// "signal 15 (Terminated)"
std::string describeSignal(int signal);

/// "rank 3", "ranks 0, 2-5": how every message lists ranks. `ranks` is ascending and not empty.
std::string describeRanks(llvm::ArrayRef<int> ranks);

/// "2 s", "0.25 s".
std::string describeSeconds(double seconds);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_FAILURE_H
