//===- StreamKind.h - the streams of a device ----------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_DEVICE_STREAMKIND_H
#define CLEAVE_RUNTIME_DEVICE_STREAMKIND_H

#include <cstddef>
#include <cstdint>

namespace cleave::runtime {

/// The streams that a program's ops run on; `exec.stream` names them.
enum class StreamKind : uint8_t { Compute, Communication, Host };
inline constexpr size_t kNumStreams = 3;

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_STREAMKIND_H
