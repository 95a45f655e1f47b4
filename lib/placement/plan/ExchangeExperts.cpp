//===- ExchangeExperts.cpp - where rows of experts are exchanged -------------===//
//
// Which rules of a plan have the rows of their modules' experts exchanged between ranks, and how
// much room the parts have (RowsInParts.h).
//
//===----------------------------------------------------------------------===//

#include "lib/placement/plan/Apply.h"
#include "lib/placement/plan/RowsInParts.h"

#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;

/// The axes that divide the batch, major first.
static SmallVector<StringRef> findBatchAxes(const Plan &plan) {
  SmallVector<StringRef> axes;
  for (const PlanRule &rule : plan.rules) {
    if (rule.kind != PlanRule::Kind::Module || !rule.pattern.empty())
      continue;
    if (rule.style == Style::HSDP)
      axes.push_back(rule.replicateAxis);
    if (rule.style == Style::Data || rule.style == Style::FSDP || rule.style == Style::HSDP)
      axes.push_back(rule.axis);
  }
  return axes;
}

/// The groups that other axes make of the batch. A group's tokens lie together only where its axes
/// cut the batch before that of the experts does, in the mesh as in the rules.
static LogicalResult findGroups(dist::MeshOp mesh, const PlanRule &rule,
                                ArrayRef<StringRef> batchAxes, Parts &parts) {
  SmallVector<StringRef> byMesh, byRule;
  for (auto axis : mesh.getAxes().getAsRange<dist::AxisAttr>())
    if (axis.getSize() > 1 && llvm::is_contained(batchAxes, axis.getName()))
      byMesh.push_back(axis.getName());
  for (StringRef axis : batchAxes)
    if (llvm::is_contained(byMesh, axis) && !llvm::is_contained(byRule, axis))
      byRule.push_back(axis);
  if (!llvm::is_contained(byRule, rule.axis))
    return success();
  if (byRule.size() > 1 && (byRule != byMesh || byRule.back() != rule.axis)) {
    if (!rule.capacity)
      return failure();
    InFlightDiagnostic diagnostic =
        emitError(FileLineColLoc::get(mesh.getContext(), rule.file, rule.line, 0));
    diagnostic << rule.name << " exchanges rows along \"" << rule.axis
               << "\": expected it to be the last axis that divides the batch, in the mesh and in "
               << "the rules for the whole program, found ";
    llvm::interleaveComma(byMesh, diagnostic);
    diagnostic << " in the mesh and ";
    llvm::interleaveComma(byRule, diagnostic);
    return diagnostic << " in the rules";
  }
  for (StringRef axis : ArrayRef(byRule).drop_back()) {
    parts.groupAxes.push_back(axis);
    parts.groups *= mesh.findAxis(axis).getSize();
  }
  return success();
}

/// The products by group of the modules' experts: their own, or of stacked weights of theirs.
static llvm::SetVector<aten::GroupedMmOp> findProducts(func::FuncOp function, StringRef pattern) {
  llvm::SetVector<aten::GroupedMmOp> products;
  for (auto product : function.getOps<aten::GroupedMmOp>())
    if (product.getOffs() && isInModules(product, pattern))
      products.insert(product);
  SmallVector<OpOperand *> uses;
  for (BlockArgument argument : function.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    if (role && role.getKind() == train::RoleKind::Parameter &&
        isNameIn(role.getNameOrEmpty(), pattern))
      findGroupedProducts(argument, uses);
  }
  for (OpOperand *use : uses)
    if (auto product = cast<aten::GroupedMmOp>(use->getOwner()); product.getOffs())
      products.insert(product);
  return products;
}

LogicalResult placement::exchangeExpertRows(dist::MeshOp mesh, func::FuncOp function,
                                            const Plan &plan, unsigned &count) {
  for (const PlanRule &rule : plan.rules) {
    if (rule.kind != PlanRule::Kind::Module || rule.style != Style::Expert)
      continue;
    dist::AxisAttr found = mesh.findAxis(rule.axis);
    Parts parts{rule.axis, found ? found.getSize() : 1, {}};
    SmallVector<StringRef> batchAxes = findBatchAxes(plan);
    bool dividesBatch = llvm::is_contained(batchAxes, rule.axis);
    if (parts.inGroup < 2 || (!rule.capacity && !dividesBatch))
      continue;
    if (failed(findGroups(mesh, rule, batchAxes, parts))) {
      if (rule.capacity)
        return failure();
      continue;
    }
    bool exchanges = false;
    llvm::SmallPtrSet<void *, 16> seen;
    SmallVector<aten::GroupedMmOp> products;
    for (aten::GroupedMmOp product : findProducts(function, rule.pattern))
      if (seen.insert(product.getOffs().getAsOpaquePointer()).second)
        products.push_back(product);
    for (aten::GroupedMmOp product : products) {
      std::optional<ExpertRows> rows = findExpertRows(product);
      if (!rows || rows->tokens() % parts.all() || rows->experts % parts.inGroup)
        continue;
      // Gathered, a token crosses once, whatever the number of its rows.
      if (!rule.capacity && parts.groups == 1 && rows->perToken >= parts.inGroup)
        continue;
      int64_t ofGroup = rows->rows / parts.groups;
      double share = double(rows->rows) / double(parts.all());
      parts.room =
          rule.capacity ? std::min(int64_t(std::ceil(share * *rule.capacity)), ofGroup) : ofGroup;
      RowsRewriter rewriter(*rows, mesh, parts);
      if (!rewriter.canRewrite())
        continue;
      rewriter.rewrite();
      exchanges = true;
      ++count;
    }
    if (rule.capacity && !exchanges)
      return emitError(FileLineColLoc::get(mesh.getContext(), rule.file, rule.line, 0))
             << rule.name << " has a capacity, but in '" << rule.pattern
             << "' there are no rows sorted by expert (aten._grouped_mm) of tokens and experts "
             << "that the " << parts.inGroup << " ranks along \"" << rule.axis << "\" divide"
             << (parts.groups > 1 ? ", tokens those of other axes that divide the batch too" : "");
  }
  return success();
}
