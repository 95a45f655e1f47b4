// Rules of a user's plan beside those that are derived.
#include "tools/cleave-plan/PartialPlan.h"

#include "lib/placement/plan/Apply.h"
#include "lib/plan/Fixed.h"
#include "lib/support/JSONReader.h"
#include "tools/cleave-plan/LayerWork.h"
#include "tools/cleave-plan/Run.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

#include <set>

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;
using placement::PlanRule;

static llvm::Expected<placement::Plan> readRules(StringRef path) {
  auto read = placement::readPlan(path);
  if (read)
    return read;
  std::string message;
  llvm::handleAllErrors(read.takeError(), [&](const placement::PlanError &error) {
    message = error.line ? llvm::formatv("{0}:{1}: {2}", path, error.line, error.text).str()
                         : llvm::formatv("{0}: {1}", path, error.text).str();
  });
  return makeError("{0}", message);
}

/// The axes that a rule names.
static std::set<std::string> listAxes(const PlanRule &rule) {
  std::set<std::string> axes;
  auto add = [&](const placement::PlannedPlacement &placement) {
    for (const auto &[axis, placed] : placement)
      axes.insert(axis);
  };
  add(rule.placement);
  for (const auto *values : {&rule.operands, &rule.results})
    for (const std::optional<placement::PlannedPlacement> &value : *values)
      if (value)
        add(*value);
  if (rule.kind == PlanRule::Kind::Module)
    axes.insert(rule.axis);
  return axes;
}

static bool matchesParameter(const PlanRule &rule, StringRef parameter) {
  if (rule.kind == PlanRule::Kind::Arguments)
    return placement::matchesPath(rule.pattern, parameter);
  return placement::isNameIn(parameter, rule.pattern);
}

/// Layers are searched as equal ones: a rule has to say the same of all.
static llvm::Error checkLayers(const PlanRule &rule, const Source &source,
                               ArrayRef<std::string> parameters) {
  std::map<std::string, std::pair<std::string, std::string>> sides; // one with, one without
  for (const std::string &parameter : parameters) {
    auto &[with, without] = sides[withoutNumber(parameter, source.layers)];
    (matchesParameter(rule, parameter) ? with : without) = parameter;
    if (!with.empty() && !without.empty())
      return makeError("{0}: expected a rule of all layers or of none, found one of {1} but not of "
                       "{2}",
                       rule.where(), with, without);
  }
  return llvm::Error::success();
}

static llvm::Error checkRule(const PlanRule &rule) {
  for (const std::string &axis : listAxes(rule))
    if (axis != "tp")
      return makeError("{0}: expected rules of the axis tp, found one of {1}: how parameters and "
                       "inputs lie along the others is a word of --fix",
                       rule.where(), axis);
  switch (rule.style) {
  case placement::Style::Colwise:
  case placement::Style::Rowwise:
  case placement::Style::Sequence:
    return llvm::Error::success();
  default:
    if (rule.kind == PlanRule::Kind::Module)
      return makeError("{0}: expected the style colwise, rowwise or sequence, found {1}",
                       rule.where(), toString(rule.style));
    return llvm::Error::success();
  }
}

static std::vector<std::string> listParameterNames(const Source &source) {
  std::vector<std::string> names;
  func::FuncOp microbatch = source.functions.microbatch;
  for (unsigned index = 0; index < microbatch.getNumArguments(); ++index) {
    train::RoleAttr role = train::getArgumentRole(microbatch, index);
    if (role && role.getKind() == train::RoleKind::Parameter)
      names.push_back(role.getNameOrEmpty().str());
  }
  return names;
}

static llvm::Error addRules(const placement::Plan &plan, const llvm::json::Array &rules,
                            Source &source) {
  std::vector<std::string> parameters = listParameterNames(source);
  source.partial = rules;
  for (const PlanRule &rule : plan.rules) {
    if (llvm::Error error = checkLayers(rule, source, parameters))
      return error;
    const bool isSequence =
        rule.kind == PlanRule::Kind::Module && rule.style == placement::Style::Sequence;
    source.facts.hasTensorRules |= !isSequence;
    // What constrains single ops leaves the rest of their modules as it is.
    if (rule.kind == PlanRule::Kind::Op)
      continue;
    llvm::erase_if(source.rules, [&](const TensorRule &derived) {
      return llvm::any_of(parameters, [&](const std::string &parameter) {
        const bool isOf = derived.style == "parameter"
                              ? withoutNumber(parameter, source.layers) == derived.modules
                              : placement::isNameIn(parameter, derived.modules, /*directly=*/true);
        return isOf && matchesParameter(rule, parameter);
      });
    });
  }
  source.facts.hasSequenceRules =
      llvm::any_of(source.rules, [](const TensorRule &rule) { return rule.style == "sequence"; });
  return llvm::Error::success();
}

llvm::Error plan::readPartialPlan(StringRef path, std::vector<Source> &sources, Fixed &fixed) {
  auto plan = readRules(path);
  if (!plan)
    return plan.takeError();
  for (const placement::AxisSize &axis : plan->mesh) {
    if (!llvm::is_contained({"dp", "ep", "tp", "cp", "pp"}, axis.axis))
      return makeError("{0}: mesh: expected the axes dp, ep, tp, cp, pp, found {1}", path,
                       axis.axis);
    auto size = parseFixed(llvm::formatv("{0}={1}", axis.axis, axis.size).str());
    if (!size)
      return size.takeError();
    for (auto [known, found] : llvm::zip_equal(fixed.values, size->values)) {
      if (known && found && *known != *found)
        return makeError("--fix={0}={1} contradicts the mesh of {2}, which has {0}={3}", axis.axis,
                         *known, path, *found);
      if (found)
        known = found;
    }
  }
  for (const PlanRule &rule : plan->rules)
    if (llvm::Error error = checkRule(rule))
      return error;
  auto text = support::readJSONFile(path);
  if (!text)
    return text.takeError();
  const llvm::json::Object *object = text->getAsObject();
  const llvm::json::Array *rules = object ? object->getArray("rules") : nullptr;
  for (Source &source : sources)
    if (llvm::Error error = addRules(*plan, rules ? *rules : llvm::json::Array(), source))
      return error;
  return llvm::Error::success();
}

/// The passes of a layout that come before propagation.
static llvm::Error annotate(const Layout &layout, const Source &source) {
  llvm::SmallString<128> path;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("cleave-plan", "json", path))
    return makeError("cannot write a temporary file: {0}", code.message());
  llvm::FileRemover remover(path);
  {
    std::error_code code;
    llvm::raw_fd_ostream os(path, code);
    os << llvm::json::Value(makePlacements(layout, source));
  }
  std::vector<PassCall> passes = listPlacing(layout, path);
  auto last = llvm::find_if(
      passes, [](const PassCall &pass) { return pass.name == "propagate-placements"; });
  passes.erase(last, passes.end());
  OwningOpRef<ModuleOp> module(source.module.get().clone());
  return runPasses(*module, passes);
}

llvm::Error plan::checkPartialPlan(StringRef path, const Space &space,
                                   const std::vector<Source> &sources) {
  std::string problem;
  for (int64_t tensor = 2; tensor <= space.ranks; ++tensor) {
    if (space.ranks % tensor)
      continue;
    Layout layout;
    layout.tensor = tensor;
    llvm::Error error = annotate(layout, sources.front());
    if (!error)
      return error;
    std::string message = llvm::toString(std::move(error));
    if (problem.empty())
      problem = message;
  }
  // One rank has nothing to divide.
  return problem.empty() ? llvm::Error::success() : makeError("{0}: {1}", path, problem);
}
