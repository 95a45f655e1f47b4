//===- Requests.cpp - answers to what a running op asks of the allocator -----===//

#include "runtime/aten/Requests.h"

using namespace cleave::runtime;

thread_local Requests *Requests::running = nullptr;
thread_local bool Requests::runsPrograms = false;

void Requests::watch() {
  watching = true;
  results.clear();
  watched.clear();
}

std::optional<uint32_t> Requests::find(const void *data) const {
  for (size_t i = watched.size(); data && i-- > 0;)
    if (watched[i] == data)
      return static_cast<uint32_t>(i);
  return std::nullopt;
}

void Requests::expect(uint32_t index, size_t bytes, void *address) {
  watching = false;
  results.push_back({index, bytes, address});
}

void Requests::expectNothing() {
  watching = false;
  results.clear();
}

Requests::Answer Requests::next(size_t bytes) {
  uint32_t index = count++;
  for (const Result &result : results)
    if (result.index == index && result.bytes == bytes)
      return {result.address, true};
  return {};
}

void Requests::note(const void *data) {
  watched.push_back(data);
}
