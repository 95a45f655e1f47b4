//===- RankClasses.cpp - programs with a function per class of ranks ---------===//

#include "dialects/train/RankClasses.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/FunctionClasses.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::train;

LogicalResult cleave::train::verifyRanks(Operation *op, Attribute ranks) {
  auto places = dyn_cast<DictionaryAttr>(ranks);
  if (!isa<func::FuncOp>(op) || !places || places.empty())
    return op->emitError() << "expects '" << kRanksAttrName
                           << "' to name mesh axes, as in {tp = array<i64: 0>}, on a function, "
                              "found "
                           << ranks;
  for (NamedAttribute entry : places) {
    auto list = dyn_cast<DenseI64ArrayAttr>(entry.getValue());
    if (!list || list.empty() || !llvm::is_sorted(list.asArrayRef(), std::less_equal<int64_t>()) ||
        list.asArrayRef().front() < 0)
      return op->emitError() << "expects places on axis " << entry.getName()
                             << ", ascending from 0 on, in '" << kRanksAttrName << "', found "
                             << entry.getValue();
  }
  return success();
}

static bool holds(DictionaryAttr ranks, const llvm::StringMap<int64_t> &places) {
  return !ranks || llvm::all_of(ranks, [&](NamedAttribute entry) {
    return llvm::is_contained(cast<DenseI64ArrayAttr>(entry.getValue()).asArrayRef(),
                              places.lookup(entry.getName()));
  });
}

bool ProgramClass::contains(const llvm::StringMap<int64_t> &places) const {
  return holds(ranks, places);
}

//===----------------------------------------------------------------------===//
// Which rank is of which class
//===----------------------------------------------------------------------===//

/// Axes that classes speak of: of the mesh, of known size, with all places on them.
static FailureOr<SmallVector<dist::AxisAttr>> getClassAxes(ModuleOp module,
                                                           ArrayRef<FunctionClass> classes) {
  SmallVector<dist::AxisAttr> axes;
  auto meshes = llvm::to_vector(module.getOps<dist::MeshOp>());
  for (const FunctionClass &each : classes) {
    func::FuncOp function = each.functions.front();
    for (NamedAttribute entry : each.ranks) {
      dist::AxisAttr axis;
      for (dist::MeshOp mesh : meshes)
        for (auto candidate : mesh.getAxes().getAsRange<dist::AxisAttr>())
          if (candidate.getName() == entry.getName().getValue())
            axis = candidate;
      if (!axis || axis.getSize() == 0)
        return function.emitError() << "is for ranks along " << entry.getName()
                                    << ", which is not an axis of known size of the module's mesh";
      if (int64_t last = cast<DenseI64ArrayAttr>(entry.getValue()).asArrayRef().back();
          last >= axis.getSize())
        return function.emitError() << "is for place " << last << " along axis " << entry.getName()
                                    << ", which has " << axis.getSize() << " ranks";
      if (!llvm::is_contained(axes, axis))
        axes.push_back(axis);
    }
  }
  return axes;
}

static std::string describePlaces(ArrayRef<dist::AxisAttr> axes,
                                  const llvm::StringMap<int64_t> &places) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(axes, os, [&](dist::AxisAttr axis) {
    os << axis.getName() << " = " << places.lookup(axis.getName());
  });
  return text;
}

/// Each combination of places is of exactly one class.
static LogicalResult checkCover(ModuleOp module, ArrayRef<FunctionClass> classes) {
  FailureOr<SmallVector<dist::AxisAttr>> axes = getClassAxes(module, classes);
  if (failed(axes))
    return failure();
  int64_t ranks = 1;
  for (dist::AxisAttr axis : *axes)
    ranks *= axis.getSize();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    llvm::StringMap<int64_t> places;
    int64_t rest = rank;
    for (dist::AxisAttr axis : llvm::reverse(*axes)) {
      places[axis.getName()] = rest % axis.getSize();
      rest /= axis.getSize();
    }
    const FunctionClass *owner = nullptr;
    for (const FunctionClass &each : classes) {
      if (!holds(each.ranks, places))
        continue;
      func::FuncOp function = each.functions.front();
      if (owner) {
        InFlightDiagnostic diagnostic = function.emitError()
                                        << "is for the rank with " << describePlaces(*axes, places)
                                        << ", which has other functions already";
        diagnostic.attachNote(func::FuncOp(owner->functions.front()).getLoc())
            << "such as this one";
        return diagnostic;
      }
      owner = &each;
    }
    if (!owner)
      return module.emitError() << "no function of the program is for the rank with "
                                << describePlaces(*axes, places);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Whether classes fit each other
//===----------------------------------------------------------------------===//

bool cleave::train::differInShardsOnly(Type one, Type other) {
  auto a = dyn_cast<RankedTensorType>(one), b = dyn_cast<RankedTensorType>(other);
  if (!a || !b || a.getElementType() != b.getElementType() || a.getRank() != b.getRank() ||
      a.getEncoding() != b.getEncoding())
    return one == other;
  dist::PlacementAttr placement = dist::getPlacement(a);
  for (int64_t dim = 0; dim < a.getRank(); ++dim)
    if (a.getDimSize(dim) != b.getDimSize(dim) &&
        (!placement || placement.getShardingAxes(dim).empty()))
      return false;
  return true;
}

static LogicalResult checkSignatures(func::FuncOp first, func::FuncOp other) {
  auto refuse = [&](const Twine &what, Attribute role, Type found, Type expected) {
    InFlightDiagnostic diagnostic = other.emitError()
                                    << "has " << role << what << found << ", found " << expected
                                    << " for other ranks";
    diagnostic.attachNote(first.getLoc()) << "their function is here";
    return diagnostic;
  };
  auto refuseNumber = [&](StringRef what, unsigned found, unsigned expected) {
    InFlightDiagnostic diagnostic = other.emitError()
                                    << "has " << found << " " << what << ", found " << expected
                                    << " for other ranks";
    diagnostic.attachNote(first.getLoc()) << "their function is here";
    return diagnostic;
  };
  if (first.getNumArguments() != other.getNumArguments())
    return refuseNumber("arguments", other.getNumArguments(), first.getNumArguments());
  if (first.getNumResults() != other.getNumResults())
    return refuseNumber("results", other.getNumResults(), first.getNumResults());
  for (unsigned i = 0; i < first.getNumArguments(); ++i)
    if (getArgumentRole(first, i) != getArgumentRole(other, i) ||
        !differInShardsOnly(first.getArgumentTypes()[i], other.getArgumentTypes()[i]))
      return refuse(" as argument " + Twine(i) + " of type ", getArgumentRole(other, i),
                    other.getArgumentTypes()[i], first.getArgumentTypes()[i]);
  for (unsigned i = 0; i < first.getNumResults(); ++i)
    if (getResultRole(first, i) != getResultRole(other, i) ||
        !differInShardsOnly(first.getResultTypes()[i], other.getResultTypes()[i]))
      return refuse(" as result " + Twine(i) + " of type ", getResultRole(other, i),
                    other.getResultTypes()[i], first.getResultTypes()[i]);
  return success();
}

static SmallVector<Operation *> getCommunication(func::FuncOp function) {
  SmallVector<Operation *> ops;
  function.walk([&](dist::CommunicationOpInterface op) { ops.push_back(op); });
  return ops;
}

/// Ranks that communicate in another order would wait for each other for good.
static LogicalResult checkCommunication(func::FuncOp first, func::FuncOp other) {
  SmallVector<Operation *> expected = getCommunication(first), found = getCommunication(other);
  for (unsigned i = 0; i < std::max(expected.size(), found.size()); ++i) {
    Operation *a = i < expected.size() ? expected[i] : nullptr;
    Operation *b = i < found.size() ? found[i] : nullptr;
    if (a && b && a->getName() == b->getName() &&
        a->getPropertiesAsAttribute() == b->getPropertiesAsAttribute())
      continue;
    InFlightDiagnostic diagnostic = (b ? b : other.getOperation())->emitError();
    if (b)
      diagnostic << "communicates as number " << i + 1 << " of its function, where other ranks ";
    else
      diagnostic << "ends its communication after " << i << " operations, where other ranks ";
    diagnostic << (a ? "run another operation" : "have none left");
    diagnostic.attachNote((a ? a : first.getOperation())->getLoc()) << "theirs is here";
    return diagnostic;
  }
  return success();
}

static LogicalResult checkFit(const FunctionClass &one, const FunctionClass &other) {
  for (unsigned i = 0; i < std::max(one.functions.size(), other.functions.size()); ++i) {
    bool isMissing = i >= one.functions.size() || i >= other.functions.size();
    func::FuncOp a = isMissing ? nullptr : one.functions[i];
    func::FuncOp b = isMissing ? nullptr : other.functions[i];
    if (isMissing || a->getAttr(kPhaseAttrName) != b->getAttr(kPhaseAttrName) ||
        a->getAttr(kStageAttrName) != b->getAttr(kStageAttrName)) {
      InFlightDiagnostic diagnostic = func::FuncOp(other.functions.front()).emitError()
                                      << "and the other functions for " << other.ranks
                                      << " have other phases than those for other ranks";
      diagnostic.attachNote(func::FuncOp(one.functions.front()).getLoc()) << "theirs begin here";
      return diagnostic;
    }
    if (failed(checkSignatures(a, b)) || failed(checkCommunication(a, b)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The classes of a module
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<FunctionClass, 0>> cleave::train::getFunctionClasses(ModuleOp module) {
  llvm::MapVector<DictionaryAttr, SmallVector<func::FuncOp>> byRanks;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kPhaseAttrName) && !function.isExternal())
      byRanks[function->getAttrOfType<DictionaryAttr>(kRanksAttrName)].push_back(function);
  SmallVector<FunctionClass, 0> classes;
  if (byRanks.empty() || (byRanks.size() == 1 && !byRanks.front().first))
    return classes;
  auto key = [](func::FuncOp function) {
    auto phase = function->getAttrOfType<PhaseAttr>(kPhaseAttrName);
    auto stage = function->getAttrOfType<IntegerAttr>(kStageAttrName);
    return std::pair(phase ? static_cast<int64_t>(phase.getValue()) : 0,
                     stage ? stage.getInt() : 0);
  };
  for (auto &[ranks, functions] : byRanks) {
    if (!ranks)
      return functions.front().emitError()
             << "expects '" << kRanksAttrName << "', as another function of the program has it";
    llvm::stable_sort(functions, [&](func::FuncOp a, func::FuncOp b) { return key(a) < key(b); });
    classes.push_back({ranks, std::move(functions)});
  }
  if (failed(checkCover(module, classes)))
    return failure();
  for (const FunctionClass &each : llvm::drop_begin(classes))
    if (failed(checkFit(classes.front(), each)))
      return failure();
  return classes;
}

static FailureOr<SmallVector<ProgramClass, 1>>
readProgramClasses(ModuleOp module, ProgramForms forms, bool isVerified) {
  FailureOr<SmallVector<FunctionClass, 0>> functions = getFunctionClasses(module);
  if (failed(functions))
    return failure();
  SmallVector<DictionaryAttr> ranks;
  for (const FunctionClass &each : *functions)
    ranks.push_back(each.ranks);
  if (ranks.empty())
    ranks.push_back(DictionaryAttr());
  SmallVector<ProgramClass, 1> classes;
  for (DictionaryAttr each : ranks) {
    FailureOr<ProgramFunctions> program = getProgramOf(module, each, forms, isVerified);
    if (failed(program))
      return failure();
    classes.push_back({each, std::move(*program)});
  }
  return classes;
}

FailureOr<SmallVector<ProgramClass, 1>> cleave::train::getProgramClasses(ModuleOp module,
                                                                         ProgramForms forms) {
  return readProgramClasses(module, forms, isVerifiedProgram(module));
}

FailureOr<SmallVector<ProgramClass, 1>> cleave::train::verifyProgramClasses(ModuleOp module,
                                                                            ProgramForms forms) {
  return readProgramClasses(module, forms, /*isVerified=*/false);
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &) {
  auto module = cast<ModuleOp>((*this)->getParentOp());
  // 1.
  ProgramOp first = *module.getOps<ProgramOp>().begin();
  if (first != *this) {
    InFlightDiagnostic diagnostic = emitOpError("is the second of its module");
    diagnostic.attachNote(first.getLoc()) << "the first is here";
    return diagnostic;
  }
  // 2.
  return verifyProgramClasses(module, ProgramForms::Staged);
}
