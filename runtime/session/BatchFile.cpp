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

llvm::Error BatchFile::fill(Session &session, int64_t index) const {
  for (const ValueInfo &value : session.program().inputs()) {
    if (!session.hasInput(value.name))
      continue;
    llvm::Expected<TensorRef> target = session.input(value.name);
    if (!target)
      return target.takeError();
    const TensorView *tensor = file->find(value.name);
    TensorType type{tensor->dtype, {tensor->shape.begin(), tensor->shape.end()}};
    llvm::Error error = guarded([&] {
      c10::InferenceMode inferenceMode;
      // Only read from.
      at::Tensor part = at::from_blob(const_cast<uint8_t *>(tensor->bytes.data()), type.shape,
                                      toScalarType(type.dtype));
      if (value.batch) {
        int64_t size = wholeType(value, session.grid()).shape[*value.batch];
        int64_t first =
            value.placements.empty() ? session.batchPart().index * microbatches + index : index;
        part = part.narrow(*value.batch, first * size, size).contiguous();
      }
      readPart(value, refTo(part), session.grid(), *target);
    });
    if (error)
      return error;
  }
  return llvm::Error::success();
}
