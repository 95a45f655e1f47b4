//===- Register.h - all dialects a Cleave program may use ----------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_REGISTER_H
#define CLEAVE_DIALECTS_REGISTER_H

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/train/Train.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace cleave {

/// Registers what programs are made of: Cleave's dialects and upstream's `func`, and
/// `arith` and `math` for numbers that are computed at run time.
inline void registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect,
                  aten::AtenDialect, dist::DistDialect, exec::ExecDialect,
                  pipeline::PipelineDialect, train::TrainDialect>();
}

} // namespace cleave

#endif // CLEAVE_DIALECTS_REGISTER_H
