//===- RankClasses.cpp - programs with a function per class of ranks ---------===//

#include "dialects/train/RankClasses.h"
#include "dialects/dist/Dist.h"

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

bool ProgramClass::contains(const llvm::StringMap<int64_t> &places) const {
  return !ranks || llvm::all_of(ranks, [&](NamedAttribute entry) {
    return llvm::is_contained(cast<DenseI64ArrayAttr>(entry.getValue()).asArrayRef(),
                              places.lookup(entry.getName()));
  });
}

//===----------------------------------------------------------------------===//
// Which rank is of which class
//===----------------------------------------------------------------------===//

/// Axes that classes speak of: of the mesh, of known size, with all places on them.
static FailureOr<SmallVector<dist::AxisAttr>> getClassAxes(ModuleOp module,
                                                           ArrayRef<ProgramClass> classes) {
  SmallVector<dist::AxisAttr> axes;
  auto meshes = llvm::to_vector(module.getOps<dist::MeshOp>());
  for (const ProgramClass &each : classes) {
    func::FuncOp function = each.program.getFunctions().front();
    for (NamedAttribute entry : each.ranks) {
      dist::AxisAttr axis;
      for (dist::MeshOp mesh : meshes)
        for (auto candidate : mesh.getAxes().getAsRange<dist::AxisAttr>())
          if (candidate.getName() == entry.getName().getValue())
            axis = candidate;
      if (!axis || axis.getSize() == 0)
        return function.emitError() << "is for ranks along " << entry.getName()
                                    << ", which is no axis of known size of the module's mesh";
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
static LogicalResult checkCover(ModuleOp module, ArrayRef<ProgramClass> classes) {
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
    const ProgramClass *owner = nullptr;
    for (const ProgramClass &each : classes) {
      if (!each.contains(places))
        continue;
      func::FuncOp function = each.program.getFunctions().front();
      if (owner) {
        InFlightDiagnostic diagnostic = function.emitError()
                                        << "is for the rank with " << describePlaces(*axes, places)
                                        << ", which has other functions already";
        diagnostic.attachNote(owner->program.getFunctions().front().getLoc()) << "such as this one";
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

/// Whether two types differ at most in the sizes of dimensions that are sharded in both.
static bool differInShardsOnly(Type one, Type other) {
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

FailureOr<SmallVector<ProgramClass, 1>> cleave::train::getProgramClasses(ModuleOp module,
                                                                         ProgramForms forms) {
  llvm::SmallSetVector<DictionaryAttr, 2> ranks;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kPhaseAttrName))
      ranks.insert(function->getAttrOfType<DictionaryAttr>(kRanksAttrName));
  if (ranks.empty())
    ranks.insert(DictionaryAttr());
  SmallVector<ProgramClass, 1> classes;
  for (DictionaryAttr each : ranks) {
    FailureOr<Program> program = getProgramOf(module, each, forms);
    if (failed(program))
      return failure();
    if (!each && ranks.size() > 1)
      return program->getFunctions().front().emitError()
             << "expects '" << kRanksAttrName << "', as another function of the program has it";
    classes.push_back({each, std::move(*program)});
  }
  if (classes.size() == 1 && !classes.front().ranks)
    return classes;
  if (failed(checkCover(module, classes)))
    return failure();
  auto first = classes.front().program.getFunctions();
  for (const ProgramClass &each : llvm::drop_begin(classes)) {
    auto functions = each.program.getFunctions();
    for (unsigned i = 0; i < std::max(first.size(), functions.size()); ++i) {
      bool isMissing = i >= functions.size() || i >= first.size();
      if (isMissing || first[i]->getAttr(kPhaseAttrName) != functions[i]->getAttr(kPhaseAttrName) ||
          first[i]->getAttr(kStageAttrName) != functions[i]->getAttr(kStageAttrName)) {
        InFlightDiagnostic diagnostic = functions.front().emitError()
                                        << "and the other functions for " << each.ranks
                                        << " are of other phases than those for other ranks";
        diagnostic.attachNote(first.front().getLoc()) << "theirs begin here";
        return diagnostic;
      }
      if (failed(checkSignatures(first[i], functions[i])) ||
          failed(checkCommunication(first[i], functions[i])))
        return failure();
    }
  }
  return classes;
}
