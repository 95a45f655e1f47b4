//===- Derivatives.h - which dist ops have a derivative ------------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DERIVATIVES_H
#define CLEAVE_DIALECTS_DIST_DERIVATIVES_H

namespace cleave::dist {
class DistDialect;

/// Claims the derivative interface for the ops that have one: all that move or convert values but
/// send and receive. The rules are attached from `lib/autodiff/rules/dist`.
void claimDerivatives(DistDialect &dialect);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_DERIVATIVES_H
