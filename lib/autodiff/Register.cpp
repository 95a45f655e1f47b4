//===- Register.cpp - attaches all derivative rules ---------------------------===//

#include "lib/autodiff/Register.h"
#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "lib/autodiff/Rules.h"

#include "mlir/IR/MLIRContext.h"

using namespace mlir;
using namespace cleave;

bool autodiff::takesComplex(Operation *op) {
  auto isOfComplex = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(dist::valueTypeOf(type));
    return tensor && isa<ComplexType>(tensor.getElementType());
  };
  return llvm::any_of(op->getOperandTypes(), isOfComplex) ||
         llvm::any_of(op->getResultTypes(), isOfComplex);
}

static void attachAtenRules(MLIRContext *context, aten::AtenDialect *) {
  autodiff::attachPointwiseRules(*context);
  autodiff::attachActivationRules(*context);
  autodiff::attachContractionRules(*context);
  autodiff::attachReductionRules(*context);
  autodiff::attachViewRules(*context);
  autodiff::attachCopyRules(*context);
  autodiff::attachNormalizationRules(*context);
  autodiff::attachAttentionRules(*context);
  autodiff::attachComplexRules(*context);
  autodiff::attachIndexingRules(*context);
  autodiff::attachLossRules(*context);
  autodiff::attachRandomRules(*context);
  autodiff::attachConvolutionRules(*context);
  autodiff::attachCallRules(*context);
}

static void attachDistRules(MLIRContext *context, dist::DistDialect *) {
  autodiff::attachDistReductionRules(*context);
  autodiff::attachDistMovementRules(*context);
  autodiff::attachDistConversionRules(*context);
}

void autodiff::registerAllModels(DialectRegistry &registry) {
  registry.addExtension(attachAtenRules);
  registry.addExtension(attachDistRules);
}

llvm::Error autodiff::checkModels(const DialectRegistry &registry) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialect().hasPromisedInterface(name.getTypeID(),
                                               DerivativeInterface::getInterfaceID()))
      return llvm::createStringError("'" + name.getStringRef() +
                                     "' claims a derivative, but no rule is attached to it "
                                     "(lib/autodiff/rules)");
  return llvm::Error::success();
}
