//===- Pipeline.cpp - registration of the pipeline dialect -----------------===//

#include "dialects/pipeline/Pipeline.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::pipeline;

#include "dialects/pipeline/PipelineDialect.cpp.inc"
#include "dialects/pipeline/PipelineEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/pipeline/PipelineAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/pipeline/Pipeline.cpp.inc"

void PipelineDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/pipeline/PipelineAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/pipeline/Pipeline.cpp.inc"
      >();
}
