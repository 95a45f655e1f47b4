//===- Tensor.cpp - tensor types ------------------------------------------------===//

#include "cleave/Tensor.h"
#include "runtime/io/DType.h"

using namespace cleave::runtime;

int64_t TensorType::numElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

int64_t TensorType::numBytes() const {
  return numElements() * byteSize(dtype);
}

std::string TensorType::str() const {
  return describe(dtype, shape);
}
