//===- Pipeline.h - the pipeline dialect -----------------------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_PIPELINE_PIPELINE_H
#define CLEAVE_DIALECTS_PIPELINE_PIPELINE_H

#include "lib/schedule/model/Schedule.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/pipeline/PipelineDialect.h.inc"
#include "dialects/pipeline/PipelineEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/pipeline/PipelineAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/pipeline/Pipeline.h.inc"

#endif // CLEAVE_DIALECTS_PIPELINE_PIPELINE_H
