//===- BatchFile.cpp - microbatches from a file of inputs ---------------------===//

#include "runtime/session/BatchFile.h"
#include "runtime/aten/Facade.h"
#include "runtime/session/TensorFiles.h"

#include <ATen/ops/from_blob.h>

using namespace cleave::runtime;

/// `value` as the file has it: the examples of all microbatches, and, where an untyped program's
/// role says so, of all data-parallel ranks.
static ValueInfo ofAllMicrobatches(ValueInfo value, int64_t microbatches) {
  if (!value.batch)
    return value;
  value.type.shape[*value.batch] *= microbatches;
  if (value.wholeShape)
    (*value.wholeShape)[*value.batch] *= microbatches;
  if (value.placements.empty())
    for (auto [order, axis] : llvm::enumerate(value.over))
      value.placements.push_back(
          {axis, AxisPlacement::Kind::Shard, "", *value.batch, int64_t(order)});
  return value;
}

llvm::Expected<BatchFile> BatchFile::open(Session &session, llvm::StringRef path,
                                          int64_t microbatches) {
  BatchFile batches;
  batches.microbatches = microbatches;
  auto file = SafetensorsFile::open(path);
  if (!file)
    return file.takeError();
  batches.file = std::move(*file);
  std::vector<ValueInfo> values;
  for (const ValueInfo &value : session.program().inputs())
    values.push_back(ofAllMicrobatches(value, microbatches));
  if (llvm::Error error = checkTensors(*batches.file, values, session.grid(), "inputs"))
    return error;
  return batches;
}

/// The whole of an input in this rank's microbatch `index`. May throw.
static at::Tensor viewInput(const SafetensorsFile &file, Session &session, const ValueInfo &value,
                            int64_t microbatches, int64_t index) {
  const TensorView *tensor = file.find(value.name);
  TensorType type{tensor->dtype, {tensor->shape.begin(), tensor->shape.end()}};
  // Only read from.
  at::Tensor all = at::from_blob(const_cast<uint8_t *>(tensor->bytes.data()), type.shape,
                                 toScalarType(type.dtype));
  if (!value.batch)
    return all;
  int64_t size = wholeType(value, session.grid()).shape[*value.batch];
  int64_t first =
      value.placements.empty() ? session.batchPart().index * microbatches + index : index;
  return all.narrow(*value.batch, first * size, size).contiguous();
}

llvm::Expected<int64_t> BatchFile::count(Session &session, const CountedTargets &targets,
                                         int64_t index) const {
  int64_t count = 0;
  llvm::Error error = guarded([&] {
    c10::InferenceMode inferenceMode;
    const ValueInfo &value = session.program().inputs()[targets.input()];
    at::Tensor whole = viewInput(*file, session, value, microbatches, index);
    count = targets.count(refTo(whole));
  });
  if (error)
    return error;
  return count;
}

llvm::Error BatchFile::fill(Session &session, int64_t index) const {
  for (const ValueInfo &value : session.program().inputs()) {
    if (!session.hasInput(value.name))
      continue;
    llvm::Expected<TensorRef> target = session.input(value.name);
    if (!target)
      return target.takeError();
    llvm::Error error = guarded([&] {
      c10::InferenceMode inferenceMode;
      at::Tensor part = viewInput(*file, session, value, microbatches, index);
      readPart(value, refTo(part), session.grid(), *target);
    });
    if (error)
      return error;
  }
  return llvm::Error::success();
}
