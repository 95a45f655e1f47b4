//===- StepWork.h - what functions compute and communicate in a step ---*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_PROGRAM_STEPWORK_H
#define CLEAVE_RUNTIME_PROGRAM_STEPWORK_H

#include "cleave/Session.h"
#include "dialects/train/Train.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace cleave::runtime {

/// Adds up ops, floating-point operations and communication of the functions that a rank runs.
class StepWork {
public:
  /// A function that runs so many times in a step.
  void add(mlir::func::FuncOp function, int64_t runs);
  /// A value of so many bytes that goes to the next or the previous stage.
  void addSend(llvm::StringRef axis, int64_t bytes);

  void writeTo(ProgramCosts &costs) const;

private:
  void addBucket(train::ReduceBucketOp op);
  void addCommunication(mlir::Operation *op, mlir::FlatSymbolRefAttr meshName, mlir::ArrayAttr axes,
                        int64_t runs, int64_t bytes,
                        llvm::function_ref<int64_t(int64_t ranks)> getBytesSent);

  llvm::StringMap<int64_t> ops;
  /// By op and axes.
  std::map<std::pair<std::string, std::string>, CommunicationCosts> communication;
  /// Meshes that ops have named so far: a look-up goes through the whole module.
  llvm::DenseMap<mlir::Attribute, mlir::Operation *> meshes;
  int64_t flops = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_STEPWORK_H
