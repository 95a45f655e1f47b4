//===- PartialPlan.h - what a user says of tensors ------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_PARTIALPLAN_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_PARTIALPLAN_H

#include "tools/cleave-plan/Source.h"

namespace cleave::plan {

/// Reads a plan (docs/plans.md) that holds for every layout with an axis tp: its rules stand in
/// place of those that are derived for the same parameters. The sizes of its mesh, if it has one,
/// are fixed as by --fix. An error names the rule.
llvm::Error readPartialPlan(llvm::StringRef path, std::vector<Source> &sources, Fixed &fixed);

/// Fails, with the rules that are at fault, if no number of ranks along tp can follow the plan.
llvm::Error checkPartialPlan(llvm::StringRef path, const Space &space,
                             const std::vector<Source> &sources);

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_PARTIALPLAN_H
