//===- Philox.cpp - random numbers that any rank can draw by index ------------===//

#include "runtime/exec/Philox.h"

using namespace cleave::runtime;

PhiloxBlock cleave::runtime::philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  // Multipliers and the steps of the key (golden ratio, square root of 3) of the publication.
  constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    uint64_t product0 = kMultiply0 * counter[0], product1 = kMultiply1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kStep0;
    key[1] += kStep1;
  }
  return counter;
}

void cleave::runtime::philoxWords(uint64_t seed, uint64_t stream, uint64_t first,
                                  llvm::MutableArrayRef<uint32_t> words) {
  std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  auto block = [&](uint64_t number) {
    return philox4x32({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
                       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                      key);
  };
  size_t done = 0;
  uint64_t number = first / 4, skipped = first % 4;
  while (done < words.size()) {
    PhiloxBlock four = block(number++);
    for (; skipped < 4 && done < words.size(); ++skipped)
      words[done++] = four[skipped];
    skipped = 0;
  }
}

void DrawnPart::forEachRun(llvm::function_ref<void(int64_t, int64_t, int64_t)> body) const {
  int64_t rank = whole.size(), elements = 1;
  for (int64_t size : sizes)
    elements *= size;
  if (elements == 0)
    return;
  // Dimensions at the back that are whole continue the one before them.
  int64_t inner = rank, run = 1, stride = 1;
  while (inner > 0) {
    --inner;
    run *= sizes[inner];
    if (sizes[inner] != whole[inner])
      break;
    stride *= whole[inner];
  }
  int64_t first = 0; // of a run, in the dimensions that it covers
  if (rank > 0 && sizes[inner] != whole[inner])
    first = begin[inner] * stride;
  llvm::SmallVector<int64_t, 4> index(inner, 0);
  for (int64_t local = 0; local < elements; local += run) {
    int64_t row = 0;
    for (int64_t dim = 0; dim < inner; ++dim)
      row = row * whole[dim] + begin[dim] + index[dim];
    int64_t rowSize = 1;
    for (int64_t dim = inner; dim < rank; ++dim)
      rowSize *= whole[dim];
    body(local, row * rowSize + first, run);
    for (int64_t dim = inner - 1; dim >= 0 && ++index[dim] == sizes[dim]; --dim)
      index[dim] = 0;
  }
}
