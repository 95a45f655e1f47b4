//===- Prover.h - the two programs, and what is known of them -------*- C++ -*-===//

#ifndef CLEAVE_LIB_PROVE_PROVER_H
#define CLEAVE_LIB_PROVE_PROVER_H

#include "dialects/dist/Chunks.h"
#include "dialects/train/Program.h"
#include "dialects/train/Train.h"
#include "lib/prove/Evaluator.h"
#include "lib/prove/ProofLog.h"
#include "lib/prove/Prove.h"

#include <deque>

namespace cleave::prove {

/// A function of a program, and the part of a step to which it belongs.
struct Part {
  enum Kind : uint8_t { Microbatch, Reduce, Update, Plain } kind;
  mlir::func::FuncOp function;
};

/// A result of a program: what it is called, and its tensor type.
struct Result {
  Part part;
  unsigned number;
  /// Of a member of a bucket, what was contributed last.
  mlir::Value returned;
  train::RoleAttr role;
  dist::PlacementAttr placement;
  bool isMember = false;
  Tensor member;
  /// Why a member has no value.
  std::string missing;
  /// Where ranks have functions of their own: what those of each class return.
  llvm::SmallVector<mlir::Value, 2> byClass = {};
};

/// A member of a bucket: its role has its own name, and its type says how it lies.
struct Member {
  std::string name;
  train::RoleAttr role;
  mlir::RankedTensorType type;
};
train::BucketOp getBucket(mlir::Operation *user, mlir::Type type);
/// The members of a bucket that a function takes or returns in `role`.
llvm::SmallVector<Member> getMembers(train::BucketOp bucket, Part part, train::RoleAttr role);

/// The functions of a program with phases, in the order of a step.
llvm::SmallVector<Part> partsOf(const train::ProgramFunctions &program);

/// Whether LOCAL puts parts together in another way than GLOBAL (Concatenation.cpp).
bool joinsParts(mlir::ModuleOp global, mlir::ModuleOp local);
/// Whether what both put together may be parts, though ranks join none of other sizes.
bool mayJoinParts(mlir::ModuleOp global, mlir::ModuleOp local);
/// The sizes of parts that both put together.
std::set<PartSizes> sizesOfBoth(mlir::ModuleOp global, mlir::ModuleOp local);

/// How values are written.
struct Form {
  /// Exponentials, softmax and attention as shares of sums.
  bool takesShares = false;
  /// What is made of parts of values as parts of what is made of the wholes.
  bool takesParts = false;
  /// Concatenations of which both programs have the like as ops, where others are sums of parts.
  bool keepsJoins = false;
  /// Sums over places of what is put together of parts as one for each part.
  bool sumsByPart = false;
  /// Concatenations as sums of parts in any programs: else where ranks join parts of other sizes.
  bool takesPieces = false;
  /// What all products of a sum have as a factor as a factor of the sum.
  bool takesFactors = false;
};

/// The ranks at neighbouring places on one axis, which have functions of their own (Classes.cpp).
struct RankClass {
  int64_t first = 0, count = 0;
  llvm::SmallVector<Part> parts;
  /// The place within the class, and the mesh on which it is the place.
  Var digit = 0;
  std::vector<Axis> axes;
  std::optional<Evaluator> evaluator;
};
/// Whether the ranks of the program have functions of their own.
bool hasClasses(mlir::ModuleOp module);

class Prover {
public:
  /// `cuts`: axes whose places are several digits. `comparesRanks`: GLOBAL is what each rank runs,
  /// too.
  Prover(mlir::ModuleOp global, mlir::ModuleOp local, const AxisCuts &cuts, bool comparesRanks,
         Form form)
      : global(global), local(local), comparesRanks(comparesRanks), cuts(cuts) {
    if (form.takesShares)
      terms.takeShares();
    if (form.sumsByPart)
      terms.sumByParts();
    if (form.takesFactors)
      terms.takeFactors();
    // The ranks of a class have parts of the whole, which may be no multiple of them.
    if (form.takesParts || hasClasses(local))
      terms.takeParts();
    if (!form.takesPieces && !joinsParts(global, local))
      return;
    terms.takePieces();
    if (form.keepsJoins)
      keptJoins = sizesOfBoth(global, local);
  }
  bool keepsJoins() const { return !keptJoins.empty(); }
  const AxisCuts &getMissingCuts() const { return missingCuts; }
  const Proof &getProof() const { return proof; }
  /// Fails if one of them is not a program.
  mlir::LogicalResult run(const ProveOptions &options);
  /// Says where what was not proved goes wrong.
  void explain(const ProveOptions &options);
  /// With a log, again with more digits where values cut an axis's place in two. Null if it fails.
  static std::unique_ptr<Prover> runWithCuts(mlir::ModuleOp global, mlir::ModuleOp local,
                                             const ProveOptions &options, bool comparesRanks,
                                             Form form);
  bool mayBeOfShares();
  /// With exponentials and attention as they are, and where that is no proof as shares of sums:
  /// most programs need no more than the former, which is cheaper to prove and to check.
  static mlir::FailureOr<Proof> runInBothForms(mlir::ModuleOp global, mlir::ModuleOp local,
                                               const ProveOptions &options, bool comparesRanks);

private:
  mlir::ModuleOp global, local;
  bool comparesRanks;
  Terms terms;
  llvm::StringSet<> lookUps;
  std::set<PartSizes> keptJoins;
  AxisCuts cuts, missingCuts;
  llvm::SmallVector<Axis> axes;
  Proof proof;
  llvm::SmallVector<Part> localParts;
  std::optional<Evaluator> globalEvaluator, localEvaluator;
  std::optional<ProofLog> log;

  /// By name: the argument as both programs see it.
  struct Argument {
    Tensor global, local;
    dist::PlacementAttr placement;
  };
  llvm::StringMap<Argument> arguments;
  llvm::StringMap<mlir::RankedTensorType> globalTypes;
  llvm::StringMap<Tensor> globalResults;
  /// Of the program that is walked.
  llvm::StringMap<Tensor> stageSums;
  llvm::DenseMap<mlir::Value, Tensor> localValues, globalValues;
  llvm::DenseMap<mlir::Operation *, std::string> unknowns;
  /// Values that pass from one function to another, of LOCAL: the argument, and what was returned.
  llvm::DenseMap<mlir::Value, mlir::Value> passed;

  /// The values of a bucket's members.
  struct BucketState {
    llvm::StringMap<Tensor> members;
    llvm::StringMap<mlir::Value> contributions;
    bool isReduced = false;
  };
  llvm::DenseMap<mlir::Value, BucketState> buckets;

  void outOfScope(const llvm::Twine &reason) {
    if (proof.outOfScope.empty())
      proof.outOfScope = reason.str();
  }
  // Of ranks with microbatches of their own (OwnBatches.cpp).
  /// How an argument lies on the axes over which roles divide the batch: the same on all ranks, of
  /// each rank's own microbatch, or a rank's term of a sum.
  enum class ByRole : uint8_t { Same, Own, Term };
  llvm::StringMap<ByRole> byRole;
  std::vector<Axis> batchAxes;
  llvm::StringSet<> updatedBuffers;
  bool hasOwnBuffers = false;
  mlir::ArrayAttr findBatchAxes(llvm::ArrayRef<Part> parts);
  static ByRole byRoleOf(Part part, train::RoleAttr role, const llvm::StringSet<> &updated,
                         const llvm::StringSet<> &reduced);
  void readBatchAxes(llvm::ArrayRef<Part> globalParts, llvm::ArrayRef<Part> parts);
  void checkParts(train::RoleAttr role, dist::PlacementAttr placement);
  llvm::SmallVector<Var> scatteredPlaces(dist::PlacementAttr placement);
  void addBatchPlaces(llvm::StringRef name, llvm::SmallVectorImpl<Index> &indices,
                      llvm::SmallVectorImpl<int64_t> &sizes, llvm::SmallVectorImpl<Var> &summed);
  void accumulateForCaller();
  llvm::StringSet<> statesOfMicrobatches();
  void checkOwnBatches();

  /// Whether GLOBAL has a function of phase reduce.
  bool globalReduces = false;
  /// Whether LOCAL is a program of ranks, of which attributes say how values lie, and not one of
  /// one device, where they say how values will lie; and whether GLOBAL is such a one too.
  bool communicates = false, globalCommunicates = false, mayBeOfOneDevice = false;
  bool doesCommunicate(mlir::func::FuncOp function);

  // Of two programs of ranks (Ranks.cpp).
  struct Signed {
    mlir::RankedTensorType type;
    dist::PlacementAttr placement;
  };
  /// What GLOBAL takes and returns.
  llvm::StringMap<Signed> globalArguments, globalReturns;
  void readBefore(llvm::ArrayRef<Part> parts);
  bool readOfRanks(llvm::StringRef name, mlir::RankedTensorType type, dist::PlacementAttr placement,
                   mlir::func::FuncOp function);
  std::optional<Tensor> toWhole(Tensor value, dist::PlacementAttr placement);

  // Of ranks with parts of different sizes (Classes.cpp, ClassWalk.cpp): the axis on which classes
  // are, and the values that are not one function of the place on it.
  std::deque<RankClass> classes;
  size_t classAxis = 0;
  llvm::DenseSet<mlir::Value> ownValues;
  mlir::LogicalResult readClasses();
  void makeClassEvaluators();
  void readClassArguments();
  bool readClassArgument(const RankClass &of, mlir::Value argument, llvm::StringRef name,
                         dist::PlacementAttr placement, mlir::func::FuncOp function);
  /// A value over the place within the class.
  Tensor valueIn(const RankClass &of, mlir::Value value);
  bool isSameInAll(llvm::ArrayRef<mlir::Value> values);
  std::optional<Tensor> valueByPlace(llvm::ArrayRef<mlir::Value> values);
  std::optional<dist::Chunk> chunkIn(const RankClass &of, int64_t whole);
  bool putInOneDigit(Tensor &value, unsigned dim);
  /// The part of a whole along a dimension, and by a placement, that a rank of the class has.
  std::optional<Tensor> takeChunk(const RankClass &of, Tensor value, unsigned dim);
  std::optional<Tensor> toClass(const RankClass &of, Tensor value, dist::PlacementAttr placement);
  std::optional<Tensor> putInZeros(const RankClass &of, Tensor value, unsigned dim, int64_t whole);
  bool crossesClasses(mlir::Operation *op);
  void setOpaque(RankClass &of, mlir::Operation *op, const llvm::Twine &why);
  bool convertInClass(RankClass &of, dist::ConvertOp op, bool isOwn);
  void evaluateInClass(RankClass &of, mlir::Operation *op);
  std::optional<Tensor> gatherClasses(llvm::ArrayRef<mlir::Value> values, unsigned dim,
                                      int64_t whole);
  std::optional<Tensor> joinClasses(llvm::ArrayRef<mlir::Operation *> ops, unsigned result,
                                    std::optional<int64_t> &scattered);
  void crossClasses(llvm::ArrayRef<mlir::Operation *> ops);
  void walkClasses();
  void returnFromClasses(unsigned number, llvm::ArrayRef<mlir::Operation *> ends,
                         std::vector<llvm::StringMap<mlir::Value>> &returned);
  bool isRightInClasses(const Result &result, Finding &finding);

  dist::PlacementAttr placementOf(mlir::BlockArgument argument);
  dist::PlacementAttr resultPlacement(mlir::func::FuncOp function, unsigned result);
  mlir::FailureOr<llvm::SmallVector<Part>> getParts(mlir::ModuleOp module);
  void readMesh();
  void readArguments(llvm::ArrayRef<Part> parts);
  bool readArgument(llvm::StringRef name, mlir::RankedTensorType type,
                    dist::PlacementAttr placement, mlir::func::FuncOp function,
                    mlir::RankedTensorType globalType);
  bool readNamed(llvm::StringRef name, mlir::RankedTensorType type, dist::PlacementAttr placement,
                 mlir::func::FuncOp function);
  void checkTies(llvm::ArrayRef<Part> parts);
  /// Gives axes the digits that values lack, and says of all that is known what it is in these.
  bool splitAxes();
  std::optional<Tensor> toLocal(Tensor value, dist::PlacementAttr placement);
  void takeReduced(Part part);
  void walk(llvm::ArrayRef<Part> parts, bool isLocal, std::vector<Result> *results);
  std::optional<Tensor> contributionOf(mlir::Operation *op, Evaluator &evaluator,
                                       const llvm::DenseMap<mlir::Value, Tensor> &values);
  void walkBucket(mlir::Operation *op, Evaluator &evaluator,
                  llvm::DenseMap<mlir::Value, Tensor> &values, std::string &unknown);
  void returnBucket(Part part, unsigned number, mlir::Value returned,
                    llvm::SmallVectorImpl<Result> &results);
  /// What the programs say of whole steps.
  void fail(const llvm::Twine &what, const llvm::Twine &relation);
  void checkStep(llvm::ArrayRef<Part> globalParts);
  void addStageTerm(llvm::StringMap<Tensor> &sums, train::RoleAttr role, Tensor term,
                    Evaluator &evaluator, mlir::Type type);
  bool areGradientsFreeOfOrder();
  /// Fails if the schedule cannot be read.
  mlir::LogicalResult checkSchedule();
  std::optional<Tensor> expect(const Result &result, Tensor &value, std::string &why,
                               bool *isNew = nullptr, const RankClass *of = nullptr);
  void compare(const Result &result);
  std::vector<Result> results;
  /// Those that were not proved, each with the number of its finding, and those that were.
  llvm::SmallVector<std::pair<const Result *, size_t>> wrong;
  llvm::SmallVector<const Result *> proved;
  size_t numGlobalTerms = 0;
  void explain(const Tensor &found, const Tensor &expected, const Result &result, Finding &finding);
  friend class Blame;
  friend class Repair;
};

llvm::StringRef nameOf(Part::Kind kind);
/// Whether the value passes from one function of a microbatch to another.
bool passesOn(train::RoleAttr role);
/// Whether stages give terms of the value, and updates take their sum.
bool isStageSum(train::RoleAttr role);
/// The size that the parts of `local`, with these placements, have together in each dimension.
llvm::SmallVector<int64_t> wholeShape(mlir::RankedTensorType local, dist::PlacementAttr placement,
                                      llvm::ArrayRef<Axis> axes);
/// Whether values with these placements are the same on each rank.
bool lieAlike(dist::PlacementAttr a, dist::PlacementAttr b, llvm::ArrayRef<Axis> axes);
/// Whether ranks have terms of a sum, or values that do not belong together.
bool isCutInTerms(dist::PlacementAttr placement, llvm::ArrayRef<Axis> axes);
/// Whether the program is one of ranks: it communicates.
bool hasCommunication(mlir::ModuleOp module);
/// The name of a value with this role, in all functions of both programs.
std::string nameOf(train::RoleAttr role);
/// The same, for a value that the part takes: of gradients each part has its own.
std::string nameOf(Part part, train::RoleAttr role, unsigned number);
/// The same, for a result.
std::string nameOf(const Result &result);

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_PROVER_H
