//===- Reduction.cpp - `sum`, `premul_sum<0.5>` ------------------------------===//

#include "dialects/dist/Dist.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace cleave::dist;

FailureOr<ReductionAttr> ReductionAttr::parseBare(AsmParser &parser) {
  StringRef name;
  SMLoc location = parser.getCurrentLocation();
  std::optional<Reduction> kind;
  if (succeeded(parser.parseOptionalKeyword(&name)))
    kind = symbolizeReduction(name);
  if (!kind) {
    InFlightDiagnostic diagnostic = parser.emitError(location) << "expected a reduction (";
    for (unsigned i = 0; i <= getMaxEnumValForReduction(); ++i)
      diagnostic << (i ? ", " : "") << stringifyReduction(static_cast<Reduction>(i));
    diagnostic << ")";
    if (!name.empty())
      diagnostic << ", found '" << name << "'";
    return failure();
  }
  FloatAttr factor;
  if (succeeded(parser.parseOptionalLess())) {
    double value;
    if (parser.parseFloat(value) || parser.parseGreater())
      return failure();
    factor = parser.getBuilder().getF64FloatAttr(value);
  }
  ReductionAttr reduction =
      getChecked([&] { return parser.emitError(location); }, parser.getContext(), *kind, factor);
  if (!reduction)
    return failure();
  return reduction;
}

void ReductionAttr::printBare(AsmPrinter &printer) const {
  printer << stringifyReduction(getKind());
  if (!getFactor())
    return;
  printer << '<';
  printer.printFloat(getFactor().getValue());
  printer << '>';
}

Attribute ReductionAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<ReductionAttr> reduction = parseBare(parser);
  if (failed(reduction) || parser.parseGreater())
    return {};
  return *reduction;
}

void ReductionAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printBare(printer);
  printer << '>';
}

LogicalResult ReductionAttr::verify(function_ref<InFlightDiagnostic()> emitError, Reduction kind,
                                    FloatAttr factor) {
  // 1.
  if (kind == Reduction::PremulSum && !factor)
    return emitError() << "expected the factor of the premul_sum: premul_sum<0.5>";
  if (kind != Reduction::PremulSum && factor)
    return emitError() << "expected no factor: only premul_sum has one, found '"
                       << stringifyReduction(kind) << "'";
  if (factor && (!factor.getType().isF64() || !factor.getValue().isFinite()))
    return emitError() << "expected a finite f64 factor of the premul_sum, found " << factor;
  return success();
}
