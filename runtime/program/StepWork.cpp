//===- StepWork.cpp - what functions compute and communicate in a step --------===//

#include "runtime/program/StepWork.h"
#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "lib/aten/OpCost.h"
#include "runtime/program/ProgramImpl.h"

#include "llvm/ADT/StringExtras.h"

using namespace cleave::runtime;
namespace dist = cleave::dist;
namespace train = cleave::train;

/// `aten.mm`; calls by what they call: `aten::roll`.
static std::string nameOf(mlir::Operation *op) {
  if (op->getName().getStringRef() == "aten.call")
    return llvm::cast<cleave::aten::AtenOpInterface>(op).getSchemaName().str();
  return op->getName().getStringRef().str();
}

/// Ranks along the axes, or nothing where a size is not known.
static std::optional<int64_t> countRanks(dist::MeshOp mesh, mlir::ArrayAttr axes) {
  int64_t ranks = 1;
  for (mlir::StringAttr name : axes.getAsRange<mlir::StringAttr>()) {
    dist::AxisAttr axis = mesh ? mesh.findAxis(name.getValue()) : dist::AxisAttr();
    if (!axis || axis.getSize() == 0)
      return std::nullopt;
    ranks *= axis.getSize();
  }
  return ranks;
}

void StepWork::addCommunication(mlir::Operation *op, mlir::FlatSymbolRefAttr meshName,
                                mlir::ArrayAttr axes, int64_t runs, int64_t bytes,
                                llvm::function_ref<int64_t(int64_t)> getBytesSent) {
  mlir::Operation *&mesh = meshes[meshName];
  if (!mesh)
    mesh = mlir::SymbolTable::lookupNearestSymbolFrom(op, meshName);
  std::string along =
      llvm::join(llvm::map_range(axes.getAsRange<mlir::StringAttr>(),
                                 [](mlir::StringAttr axis) { return axis.getValue(); }),
                 ", ");
  std::string name = op->getName().getStringRef().str();
  CommunicationCosts &costs = communication[{name, along}];
  costs.op = name;
  costs.axes = along;
  costs.count += runs;
  costs.bytes += runs * bytes;
  if (std::optional<int64_t> ranks = countRanks(llvm::dyn_cast_or_null<dist::MeshOp>(mesh), axes))
    costs.sentBytes += runs * getBytesSent(*ranks);
}

void StepWork::add(mlir::func::FuncOp function, int64_t runs) {
  for (mlir::Operation &op : function.front().without_terminator()) {
    ++ops[nameOf(&op)];
    flops += runs * aten::countFlops(&op);
    if (auto made = llvm::dyn_cast<dist::CommunicationOpInterface>(op)) {
      int64_t bytes = 0;
      for (mlir::Value operand : made.getCommunicated())
        bytes += toTensorType(operand.getType()).numBytes();
      addCommunication(&op, made.getMeshAttr(), made.getAxesAttr(), runs, bytes,
                       [&](int64_t ranks) { return made.getBytesSent(ranks); });
    }
    if (auto reduce = llvm::dyn_cast<train::ReduceBucketOp>(op))
      addBucket(reduce);
  }
}

/// Reduced once per step, whatever the microbatches: scattered, and the part summed over the rest.
void StepWork::addBucket(train::ReduceBucketOp op) {
  auto type = op.getBucket().getType();
  auto bucket = mlir::SymbolTable::lookupNearestSymbolFrom<train::BucketOp>(op, type.getSymbol());
  int64_t bytes = toTensorType(type).numBytes();
  if (mlir::ArrayAttr scatter = bucket.getScatterAttr()) {
    addCommunication(op, bucket.getMeshAttr(), scatter, 1, bytes,
                     [&](int64_t ranks) { return bytes - bytes / ranks; });
    bytes /= bucket.countParts();
  }
  if (bucket.getAxes() && !bucket.getAxesAttr().empty())
    addCommunication(op, bucket.getMeshAttr(), bucket.getAxesAttr(), 1, bytes,
                     [&](int64_t ranks) { return 2 * (bytes - bytes / ranks); });
}

void StepWork::addSend(llvm::StringRef axis, int64_t bytes) {
  CommunicationCosts &costs = communication[{"send", axis.str()}];
  costs.op = "send";
  costs.axes = axis.str();
  ++costs.count;
  costs.bytes += bytes;
  costs.sentBytes += bytes;
}

void StepWork::writeTo(ProgramCosts &costs) const {
  costs.flops = flops;
  for (const auto &[key, each] : communication)
    costs.communication.push_back(each);
  for (const auto &entry : ops)
    costs.ops.emplace_back(entry.first().str(), entry.second);
  llvm::sort(costs.ops, [](const auto &a, const auto &b) {
    return std::tie(b.second, a.first) < std::tie(a.second, b.first);
  });
}
