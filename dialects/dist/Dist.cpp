//===- Dist.cpp - registration of the dist dialect ---------------------------===//

#include "dialects/dist/Dist.h"
#include "dialects/dist/Assembly.h"
#include "dialects/dist/Derivatives.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::dist;

#include "dialects/dist/DistDialect.cpp.inc"
#include "dialects/dist/DistEnums.cpp.inc"
#include "dialects/dist/DistInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/dist/DistTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/dist/Dist.cpp.inc"

namespace {
/// `#S0_dp_R_tp` for `#dist.on<@mesh, dp = S(0), tp = R>`: a program names each placement once.
struct PlacementAliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute, raw_ostream &os) const override {
    auto placement = dyn_cast<PlacementAttr>(attribute);
    if (!placement || placement.getEntries().empty())
      return AliasResult::NoAlias;
    // The axis comes last: an alias may not end in a digit.
    llvm::interleave(
        placement.getEntries(), os,
        [&](const AxisEntry &entry) {
          const AxisPlacement &axis = entry.placement;
          os << stringifyPlacementKind(axis.kind);
          if (axis.isShard()) {
            os << axis.dim;
            if (placement.getShardingAxes(axis.dim).size() > 1)
              os << "o" << axis.order;
          } else if (axis.isPartial() && axis.reduction != Reduction::Sum) {
            os << stringifyReduction(axis.reduction);
          }
          os << "_" << entry.axis.getValue();
        },
        "_");
    return AliasResult::OverridableAlias;
  }
};
} // namespace

void DistDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dist/DistAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/dist/DistTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/dist/Dist.cpp.inc"
      >();
  addInterfaces<PlacementAliases>();
  claimDerivatives(*this);
}
