//===- Derivatives.h - which aten ops have a derivative ------------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_DERIVATIVES_H
#define CLEAVE_DIALECTS_ATEN_DERIVATIVES_H

namespace cleave::aten {
class AtenDialect;

/// Claims the derivative interface for the ops that have one. The rules are attached from
/// `lib/autodiff/rules`; tools that could meet a claim without its rule do not start.
void claimDerivatives(AtenDialect &dialect);

} // namespace cleave::aten

#endif // CLEAVE_DIALECTS_ATEN_DERIVATIVES_H
