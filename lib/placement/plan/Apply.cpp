//===- Apply.cpp - rules by name, and of single ops --------------------------===//

#include "lib/placement/plan/Apply.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using train::RoleKind;

StringRef placement::getModulePath(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().getValue();
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (StringRef path = getModulePath(part); !path.empty())
        return path;
  return "";
}

PlanApplier::PlanApplier(dist::MeshOp mesh, const train::ProgramFunctions &program,
                         Annotations &annotations, bool uneven)
    : mesh(mesh), annotations(annotations), uneven(uneven),
      functions(program.getMicrobatchFunctions()) {
  collect(program);
}

std::string placement::listSome(ArrayRef<StringRef> names) {
  constexpr size_t kMax = 6;
  std::string text = llvm::join(names.take_front(kMax), ", ");
  if (names.size() > kMax)
    text += ", ... (" + std::to_string(names.size()) + " in all)";
  return names.empty() ? "none" : text;
}

std::string PlanApplier::listModules() const {
  llvm::SetVector<StringRef> modules;
  for (const Parameter &parameter : parameters)
    if (StringRef name = parameter.name; name.contains('.'))
      modules.insert(name.take_front(name.rfind('.')));
  return "modules with parameters are " + listSome(modules.getArrayRef());
}

InFlightDiagnostic PlanApplier::fail(const PlanRule &rule) const {
  dist::MeshOp op = mesh;
  return emitError(FileLineColLoc::get(op.getContext(), rule.file, rule.line, 0))
         << rule.name << " ";
}

void PlanApplier::collect(const train::ProgramFunctions &program) {
  llvm::StringMap<size_t> known;
  auto get = [&](train::RoleAttr role, Type type) -> Parameter & {
    auto [at, isNew] = known.try_emplace(role.getNameOrEmpty(), parameters.size());
    if (isNew) {
      Parameter &parameter = parameters.emplace_back();
      parameter.name = role.getNameOrEmpty();
      parameter.type = cast<RankedTensorType>(type);
      if (ArrayAttr aliases = role.getAliases())
        for (StringRef alias : aliases.getAsValueRange<StringAttr>())
          parameter.aliases.push_back(alias.str());
    }
    return parameters[at->second];
  };
  for (func::FuncOp function : program.getFunctions()) {
    for (BlockArgument argument : function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      if (!role)
        continue;
      named.push_back({function, role, Site(Value(argument)), true});
      if (role.getKind() == RoleKind::Parameter)
        get(role, argument.getType()).values.push_back(argument);
    }
  }
  for (func::FuncOp function : program.getFunctions()) {
    Operation *returned = function.front().getTerminator();
    for (OpOperand &operand : returned->getOpOperands()) {
      train::RoleAttr role = train::getResultRole(function, operand.getOperandNumber());
      if (!role)
        continue;
      named.push_back({function, role, Site(&operand), false});
      if (role.getKind() == RoleKind::Parameter)
        get(role, operand.get().getType()).updated.push_back(&operand);
      if (role.getKind() == RoleKind::Gradient && known.contains(role.getNameOrEmpty()))
        parameters[known.lookup(role.getNameOrEmpty())].gradients.push_back(operand.get());
    }
  }
}

LogicalResult PlanApplier::checkAxes(const PlanRule &rule) const {
  SmallVector<StringRef> axes;
  if (rule.kind == PlanRule::Kind::Module)
    axes.push_back(rule.axis);
  if (!rule.replicateAxis.empty())
    axes.push_back(rule.replicateAxis);
  auto add = [&](const PlannedPlacement &placement) {
    for (auto &[axis, one] : placement)
      axes.push_back(axis);
  };
  add(rule.placement);
  for (const auto *values : {&rule.operands, &rule.results})
    for (const auto &value : *values)
      if (value)
        add(*value);
  for (StringRef axis : axes) {
    dist::MeshOp op = mesh;
    if (op.findAxis(axis))
      continue;
    SmallVector<StringRef> names;
    for (auto known : op.getAxes().getAsRange<dist::AxisAttr>())
      names.push_back(known.getName());
    return fail(rule) << "names the axis \"" << axis << "\", but the mesh @" << op.getSymName()
                      << " has " << listSome(names);
  }
  return success();
}

LogicalResult PlanApplier::apply(const Plan &plan) {
  for (const PlanRule &rule : plan.rules)
    if (failed(checkAxes(rule)))
      return failure();
  auto isWhole = [](const PlanRule &rule) {
    return rule.kind == PlanRule::Kind::Module &&
           (rule.style == Style::Data || rule.style == Style::Context ||
            rule.style == Style::FSDP || rule.style == Style::HSDP);
  };
  for (const PlanRule &rule : plan.rules)
    if (isWhole(rule) && (rule.style != Style::Context || rule.shardsParameters) &&
        rule.style != Style::Data)
      sharding.push_back(&rule);
  for (bool whole : {false, true})
    for (const PlanRule &rule : plan.rules)
      if (isWhole(rule) == whole && failed(apply(rule)))
        return failure();
  return success();
}

LogicalResult PlanApplier::apply(const PlanRule &rule) {
  switch (rule.kind) {
  case PlanRule::Kind::Arguments:
    return applyArguments(rule);
  case PlanRule::Kind::Op:
    return applyOps(rule);
  case PlanRule::Kind::Module:
    break;
  }
  switch (rule.style) {
  case Style::Colwise:
  case Style::Rowwise:
    return applyTensorParallel(rule);
  case Style::Sequence:
    return applySequence(rule);
  case Style::Expert:
    return applyExpert(rule);
  case Style::Data:
  case Style::Context:
  case Style::FSDP:
  case Style::HSDP:
    return applyProgramStyle(rule);
  }
  return success();
}

LogicalResult PlanApplier::placeAll(Site site, const PlannedPlacement &placement,
                                    const PlanRule &rule) {
  dist::MeshOp op = mesh;
  for (auto axis : op.getAxes().getAsRange<dist::AxisAttr>())
    for (const auto &[name, one] : placement)
      if (name == axis.getName() && failed(annotations.place(site, name, one, rule)))
        return failure();
  return success();
}

LogicalResult PlanApplier::applyArguments(const PlanRule &rule) {
  llvm::SmallDenseSet<RoleKind> kinds;
  if (rule.role == "parameters")
    kinds = {RoleKind::Parameter};
  else if (rule.role == "buffers")
    kinds = {RoleKind::Buffer};
  else if (rule.role == "inputs")
    kinds = {RoleKind::Input, RoleKind::Target};
  else if (rule.role == "gradients")
    kinds = {RoleKind::Gradient};
  else if (rule.role == "accumulators")
    kinds = {RoleKind::Accumulator};
  else if (rule.role == "optimizer_states")
    kinds = {RoleKind::OptimizerState};
  else
    kinds = {RoleKind::Output};

  bool mayBePartial = kinds.contains(RoleKind::Gradient) || kinds.contains(RoleKind::Accumulator) ||
                      kinds.contains(RoleKind::Output);
  for (const auto &[axis, one] : rule.placement)
    if (one.isPartial() && !mayBePartial)
      return fail(rule) << "places " << rule.role << " " << one << " on axis \"" << axis
                        << "\"; expected R or S(dimension)";

  bool matched = false;
  llvm::SetVector<StringRef> names;
  for (const Named &value : named) {
    if (!kinds.contains(value.role.getKind()))
      continue;
    names.insert(value.role.getNameOrEmpty());
    bool matches = matchesPath(rule.pattern, value.role.getNameOrEmpty());
    if (ArrayAttr aliases = value.role.getAliases())
      for (StringRef alias : aliases.getAsValueRange<StringAttr>())
        matches |= matchesPath(rule.pattern, alias);
    if (!matches)
      continue;
    matched = true;
    if (failed(placeAll(value.site, rule.placement, rule)))
      return failure();
  }
  if (!matched)
    return fail(rule) << "matches no name: '" << rule.pattern << "'; the program's " << rule.role
                      << " are " << listSome(names.getArrayRef());
  return success();
}

LogicalResult PlanApplier::applyOps(const PlanRule &rule) {
  llvm::StringMap<int64_t> seen;
  llvm::SetVector<StringRef> names;
  bool matched = false, inModule = false;
  for (func::FuncOp function : functions) {
    for (Operation &op : function.front().without_terminator()) {
      StringRef path = getModulePath(op.getLoc());
      if (!matchesPath(rule.pattern, path))
        continue;
      inModule = true;
      StringRef name = op.getName().stripDialect();
      names.insert(name);
      bool isBackward = op.hasAttr(train::kBackwardAttrName);
      if (!matchesPath(rule.opName, name) || (rule.part == "forward" && isBackward) ||
          (rule.part == "backward" && !isBackward))
        continue;
      int64_t number = seen[path]++;
      if (rule.index && *rule.index != number)
        continue;
      matched = true;
      if (rule.operands.size() > op.getNumOperands() || rule.results.size() > op.getNumResults()) {
        op.emitError() << rule.where() << " places " << rule.operands.size() << " operands and "
                       << rule.results.size() << " results of '" << op.getName() << "', which has "
                       << op.getNumOperands() << " and " << op.getNumResults();
        return failure();
      }
      for (auto [value, operand] : llvm::zip(rule.operands, op.getOpOperands()))
        if (value && failed(placeAll(&operand, *value, rule)))
          return failure();
      for (auto [value, result] : llvm::zip(rule.results, op.getResults()))
        if (value && failed(placeAll(Value(result), *value, rule)))
          return failure();
    }
  }
  if (matched)
    return success();
  if (!inModule)
    return fail(rule) << "matches no op: there is none of a module '" << rule.pattern << "'";
  InFlightDiagnostic diagnostic = fail(rule) << "matches no op: ";
  if (!rule.part.empty())
    diagnostic << rule.part << " ";
  diagnostic << "'" << rule.opName << "'";
  if (rule.index)
    diagnostic << " number " << *rule.index;
  return diagnostic << " of modules '" << rule.pattern << "', whose ops are "
                    << listSome(names.getArrayRef());
}
