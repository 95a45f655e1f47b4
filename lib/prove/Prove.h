//===- Prove.h - whether a program of many ranks is one of one device -*- C++ -*-===//
//
// GLOBAL is the program of one device, LOCAL what each rank of a mesh runs. If LOCAL's arguments
// lie as its signature says, then its results do, and are GLOBAL's: over the reals, for all
// arguments.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_PROVE_H
#define CLEAVE_LIB_PROVE_PROVE_H

#include "lib/prove/Lemma.h"

#include "mlir/IR/BuiltinOps.h"

#include <chrono>
#include <string>
#include <vector>

namespace cleave::prove {

/// A result that was not proved.
struct Finding {
  /// The function of LOCAL and the result's role, or its number.
  std::string function, result;
  /// What is known of the result against what was expected.
  std::string relation;
  /// The first op of LOCAL on which the result depends and that has no counterpart in GLOBAL; null
  /// if there is none.
  mlir::Operation *op = nullptr;
  /// An op of GLOBAL from the same line of the model, if there is one.
  mlir::Operation *counterpart = nullptr;
  /// What an operand of the op, or its value, is to what was expected, if that was found.
  std::string operand;
  /// A change of the op with which the result would be right, if one was found: "without it".
  std::string repair;
  /// Why the op has no meaning, if that is so.
  std::string reason;
  /// The relation says that the result is another value, as far as the expected one is not 0.
  bool differs = false;
  /// Only LOCAL has such a result.
  bool isNew = false;
};

struct Proof {
  /// All results were compared, and each is proved.
  bool isProved = false;
  /// The time was over before the end.
  bool isLate = false;
  /// Why nothing can be proved of these programs; empty if they were compared.
  std::string outOfScope;
  std::vector<Finding> findings;
  /// What was met that is only right where something is assumed; empty if there is nothing.
  std::string note;
  unsigned numResults = 0, numTerms = 0;
};

struct ProveOptions {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  /// For tests of the tests: a lemma that is made wrong.
  std::optional<Lemma> broken;
  /// For tests: the only form in which a proof is tried, of those in Forms.cpp.
  std::optional<unsigned> form;
  /// Where the proof is written for lib/replay; it is one if the programs are proved.
  std::string *log = nullptr;
  /// Whether no rank receives more rows than it has room for.
  bool hasRoomForRows = false;
  /// Whether buffers may be each rank's own, made of the microbatches that it runs.
  bool hasOwnBuffers = false;
  /// Whether LOCAL may be a program of one device, of which attributes say how values will lie:
  /// what a pass left.
  bool mayBeOfOneDevice = false;
  /// Whether changes are tried with which what is not proved would be right.
  bool triesRepairs = true;
};

/// Compares the programs. Failure if one of them is not a program, or they are not of one model;
/// the error is emitted.
mlir::FailureOr<Proof> prove(mlir::ModuleOp global, mlir::ModuleOp local,
                             const ProveOptions &options);

/// Whether `after` is still the step that `before` is: GLOBAL is `before`, which may itself be what
/// each rank of the mesh runs. Then each result is, on each rank, what it was; or the whole value
/// is, where signatures say that it lies in another way.
mlir::FailureOr<Proof> provePreserved(mlir::ModuleOp before, mlir::ModuleOp after,
                                      const ProveOptions &options);

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_PROVE_H
