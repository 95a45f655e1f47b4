//===- TakenValues.cpp - what a stage takes from its neighbours ---------------===//

#include "runtime/program/TakenValues.h"
#include "lib/memory/MemoryPlan.h"

#include "llvm/ADT/DenseSet.h"

using namespace cleave::runtime;
namespace memory = cleave::memory;

TakenBytes cleave::runtime::countTaken(const PhaseFunction &part, RoleKind role) {
  mlir::func::FuncOp function = part.function;
  llvm::DenseSet<mlir::Value> saved;
  auto returned = function.front().getTerminator()->getOperands();
  for (auto [value, info] : llvm::zip_equal(returned, part.signature.results))
    if (info.role == RoleKind::Saved)
      saved.insert(memory::getStorage(value));
  TakenBytes taken;
  for (auto [index, value] : llvm::enumerate(part.signature.arguments)) {
    if (value.role != role)
      continue;
    taken.all += value.type.numBytes();
    if (saved.contains(function.getArgument(index)))
      taken.saved += value.type.numBytes();
  }
  return taken;
}
