//===- SharedState.cpp - programs that take turns on one state ------------===//

#include "runtime/session/SharedState.h"
#include "runtime/io/Error.h"
#include "runtime/program/Form.h"
#include "runtime/session/SessionImpl.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace cleave::runtime;

//===----------------------------------------------------------------------===//
// What is shared
//===----------------------------------------------------------------------===//

bool cleave::runtime::haveSamePlacements(const ValueInfo &a, const ValueInfo &b) {
  auto fields = [](const AxisPlacement &p) {
    return std::tie(p.axis, p.kind, p.reduction, p.dim, p.order);
  };
  return a.type == b.type && a.wholeShape == b.wholeShape &&
         a.placements.size() == b.placements.size() &&
         llvm::all_of(llvm::zip_equal(a.placements, b.placements), [&](auto pair) {
           return fields(std::get<0>(pair)) == fields(std::get<1>(pair));
         });
}

static bool changesBuffer(const Program &program, llvm::StringRef name) {
  return llvm::any_of(program.results(Phase::Microbatch), [&](const ValueInfo &result) {
    return result.role == RoleKind::Buffer && result.name == name;
  });
}

namespace {
/// What a program has of the state that programs share.
struct StateOf {
  const Program &program;
  const StageMap &stages;
  llvm::StringSet<> transient;
  std::vector<const ValueInfo *> values;
  llvm::StringMap<const ValueInfo *> byFileName;

  StateOf(const Program &program, const StageMap &stages)
      : program(program), stages(stages), transient(listTransientBuffers(program)) {}

  /// Whether it is a mask or table of the program's own, which nothing changes and no state dict
  /// has.
  bool isOwn(const ValueInfo &value, const Program &other) const {
    return value.role == RoleKind::Constant ||
           (value.role == RoleKind::Buffer && transient.contains(value.name) &&
            !changesBuffer(program, value.name) && !changesBuffer(other, value.name));
  }
  void collect(const Program &other) {
    for (const ValueInfo &value : program.weights())
      if (!isOwn(value, other))
        values.push_back(&value);
    for (const ValueInfo &value : program.optimizerStates())
      values.push_back(&value);
    for (const ValueInfo *value : values)
      byFileName[value->fileName] = value;
  }
  bool isHere(const ValueInfo &value) const {
    return value.role == RoleKind::OptimizerState ? stages.hasState(value.name)
                                                  : stages.hasWeight(value.name);
  }
};
} // namespace

static std::string describe(const ValueInfo &value) {
  std::string text = value.type.str();
  for (const AxisPlacement &placement : value.placements) {
    text += text.back() == ')' ? ", " : " (";
    switch (placement.kind) {
    case AxisPlacement::Kind::Replicate:
      text += "R";
      break;
    case AxisPlacement::Kind::Partial:
      text += "P";
      break;
    case AxisPlacement::Kind::Invariant:
      text += "I";
      break;
    case AxisPlacement::Kind::Varying:
      text += "V";
      break;
    case AxisPlacement::Kind::Shard:
      text += "S(" + std::to_string(placement.dim) + ")";
      break;
    }
    text += " along \"" + placement.axis + "\"";
  }
  return value.placements.empty() ? text : text + ")";
}

static bool isSameRule(const LossScaling &a, const LossScaling &b) {
  return a.init == b.init && a.growth == b.growth && a.backoff == b.backoff &&
         a.interval == b.interval;
}

llvm::Expected<std::set<std::string>>
cleave::runtime::listSharedState(const Program &keeper, const StageMap &keepersStages,
                                 const Program &other, const StageMap &othersStages) {
  StateOf kept(keeper, keepersStages), borrowed(other, othersStages);
  kept.collect(other);
  borrowed.collect(keeper);
  std::vector<std::string> problems;
  auto note = [&](const ValueInfo &value, const llvm::Twine &what) {
    problems.push_back(("'" + value.fileName + "': " + what).str());
  };
  std::set<std::string> names;
  for (const ValueInfo *value : borrowed.values) {
    const ValueInfo *known = kept.byFileName.lookup(value->fileName);
    if (!known) {
      note(*value, "is not in " + keeper.path());
      continue;
    }
    names.insert(value->fileName);
    if (!haveSamePlacements(*known, *value) || known->aliases != value->aliases)
      note(*value, describe(*value) + ", in " + keeper.path() + " " + describe(*known));
    else if (kept.isHere(*known) != borrowed.isHere(*value))
      note(*value, "is not in the stages of the same ranks");
  }
  for (const ValueInfo *value : kept.values)
    if (!borrowed.byFileName.contains(value->fileName))
      note(*value, "is only in " + keeper.path());
  auto sameAxis = [](auto pair) {
    auto &[a, b] = pair;
    return a.name == b.name && a.size == b.size;
  };
  if (keeper.mesh().size() != other.mesh().size() ||
      !llvm::all_of(llvm::zip(keeper.mesh(), other.mesh()), sameAxis))
    problems.push_back("its mesh is not the other's");
  std::optional<LossScaling> keepers = findLossScaling(keeper), others = findLossScaling(other);
  if (keepers.has_value() != others.has_value())
    problems.push_back("only one of them scales its loss (--scale-loss)");
  else if (keepers && !isSameRule(*keepers, *others))
    problems.push_back("it scales its loss by another rule (--scale-loss)");
  if (problems.empty())
    return names;
  constexpr size_t kShown = 10;
  std::string text;
  for (const std::string &problem : llvm::ArrayRef(problems).take_front(kShown))
    text += "\n  " + problem;
  if (problems.size() > kShown)
    text += "\n  ... and " + std::to_string(problems.size() - kShown) + " more";
  return makeError("{0}: expected the parameters, buffers and optimizer state of {1}:{2}",
                   other.path(), keeper.path(), text);
}

//===----------------------------------------------------------------------===//
// Lending
//===----------------------------------------------------------------------===//

SharedState::SharedState(Session &keeper, Session &borrower, const std::set<std::string> &names)
    : keeper(keeper), borrower(borrower) {
  for (const std::string &name : names)
    values.push_back({keeper.impl->findState(name), borrower.impl->findState(name)});
}

llvm::Error SharedState::closeViews() {
  if (llvm::Error error = keeper.impl->context.state.closeViews())
    return error;
  return borrower.impl->context.state.closeViews();
}

llvm::Error SharedState::lend() {
  if (llvm::Error error = closeViews())
    return error;
  for (Value &value : values)
    *value.borrowed = std::move(*value.kept);
  return llvm::Error::success();
}

llvm::Error SharedState::giveBack() {
  if (llvm::Error error = closeViews())
    return error;
  for (Value &value : values)
    *value.kept = std::move(*value.borrowed);
  return llvm::Error::success();
}
