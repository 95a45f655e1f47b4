//===- Inputs.cpp - what a program reads ----------------------------------===//

#include "runtime/train/Inputs.h"
#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/ranks/WholeTensors.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave::runtime;

/// Size of a dimension on all ranks together.
static int64_t wholeSize(mlir::RankedTensorType type, unsigned dim, const RankGrid &grid) {
  int64_t size = type.getDimSize(dim);
  if (cleave::dist::PlacementAttr placement = cleave::dist::getPlacement(type))
    for (mlir::StringAttr axis : placement.getShardingAxes(dim))
      size *= grid.size(axis.getValue());
  return size;
}

namespace {
/// How a program uses the integers of an input.
struct LookUps {
  /// They are below it: the least of all bounds; 0 if there is none.
  int64_t vocabulary = 0;
  /// One that every use leaves out, in or outside of the bound.
  std::optional<int64_t> ignored;
  bool isFirst = true;

  void add(int64_t bound, std::optional<int64_t> leftOut) {
    vocabulary = isFirst ? bound : std::min(vocabulary, bound);
    if (isFirst || ignored != leftOut)
      ignored = isFirst ? leftOut : std::nullopt;
    isFirst = false;
  }
};
} // namespace

/// Adds what `value`, indices into something, is used with: directly, or after ops that only change
/// its shape or type.
static void findLookUps(mlir::Value value, const RankGrid &grid, LookUps &found) {
  for (mlir::Operation *user : value.getUsers()) {
    auto op = llvm::dyn_cast<cleave::aten::AtenOpInterface>(user);
    if (!op)
      continue;
    std::optional<cleave::aten::LookUp> lookUp = op.getLookUp();
    if (lookUp && lookUp->indices == value && lookUp->table) {
      auto type = llvm::dyn_cast<mlir::RankedTensorType>(lookUp->table.getType());
      if (type && type.getRank() >= 2)
        found.add(wholeSize(type, lookUp->dim, grid), lookUp->ignored);
    }
    if (user->hasTrait<cleave::aten::CopyLike>() || op.getViewedOperand(0) == value)
      findLookUps(user->getResult(0), grid, found);
  }
}

std::vector<ValueInfo> cleave::runtime::readInputs(const Program &program, const RankGrid &grid) {
  return wholeValues(program.inputs(), grid);
}

std::vector<InputSpec> cleave::runtime::describeInputs(const Program &program,
                                                       llvm::ArrayRef<ValueInfo> inputs,
                                                       const RankGrid &grid) {
  std::vector<InputSpec> specs;
  for (const ValueInfo &value : inputs) {
    InputSpec spec;
    spec.name = value.name;
    spec.dtype = value.type.dtype;
    spec.shape.assign(value.type.shape.begin(), value.type.shape.end());
    if (value.batch)
      spec.batchDim = unsigned(*value.batch);
    spec.isTarget = value.role == RoleKind::Target;
    LookUps lookUps;
    for (const PhaseFunction &part : program.impl().phaseFunctions)
      for (auto [argument, info] : llvm::zip_equal(mlir::func::FuncOp(part.function).getArguments(),
                                                   part.signature.arguments))
        if (info.role == value.role && info.name == value.name)
          findLookUps(argument, grid, lookUps);
    spec.vocabulary = lookUps.vocabulary;
    spec.ignored = lookUps.ignored;
    specs.push_back(std::move(spec));
  }
  return specs;
}

llvm::Expected<int64_t> cleave::runtime::getMicrobatchSize(const Program &program,
                                                           llvm::ArrayRef<ValueInfo> inputs) {
  const ValueInfo *first = nullptr;
  int64_t size = 0;
  for (const ValueInfo &value : inputs) {
    if (!value.batch)
      continue;
    int64_t found = value.type.shape[*value.batch];
    if (first && found != size)
      return makeError("{0}: a microbatch has {1} examples of \"{2}\", but {3} of \"{4}\"",
                       program.path(), size, first->name, found, value.name);
    first = &value;
    size = found;
  }
  if (!first)
    return makeError("{0}: no input has a batch dimension", program.path());
  return size;
}

int64_t cleave::runtime::countTokens(llvm::ArrayRef<ValueInfo> inputs) {
  int64_t examples = 1;
  for (const ValueInfo &value : inputs) {
    if (!value.batch)
      continue;
    bool isInteger = value.type.dtype == DType::I64 || value.type.dtype == DType::I32;
    if (isInteger && value.role == RoleKind::Input && value.type.shape.size() == 2)
      return value.type.numElements();
    examples = value.type.shape[*value.batch];
  }
  return examples;
}

llvm::Error cleave::runtime::fillInputs(Session &session, llvm::ArrayRef<HostTensor> tensors) {
  for (auto [value, tensor] : llvm::zip_equal(session.program().inputs(), tensors)) {
    if (!session.hasInput(value.name))
      continue;
    llvm::Expected<TensorRef> input = session.input(value.name);
    if (!input)
      return input.takeError();
    TensorType whole{tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}};
    if (!isWholeOf(value, whole, session.grid()))
      return makeError("input \"{0}\": expected {1}, found {2}", value.name,
                       describeWhole(value, session.grid()), whole.str());
    if (llvm::Error error = checkReadable(value))
      return error;
    readPart(value, {whole, reinterpret_cast<const char *>(tensor.bytes.data())}, session.grid(),
             *input);
  }
  return llvm::Error::success();
}
