//===- Digest.cpp - a digest inside bytecode files ----------------------------===//

#include "lib/support/Digest.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

using namespace llvm;

namespace {

// A bytecode file begins with these four bytes, the version in one byte, and the producer as a
// string that ends in a zero.
constexpr StringLiteral magic("ML\xefR");
constexpr size_t producerStart = 5;

// Stands between the writer's own producer string and the digits.
constexpr StringLiteral
    announcement(" written by Cleave, BLAKE3 of this file with these digits as zeros: ");
constexpr size_t digits = 2 * 32;

/// The producer string grows by a multiple of the largest alignment a section may ask for, so that
/// all sections stay where they are aligned.
constexpr size_t growth = 192;
static_assert(announcement.size() + digits <= growth);

/// Digits of the file with `digits` characters at `position` taken as zeros.
std::string computeDigest(StringRef data, size_t position) {
  BLAKE3 hasher;
  hasher.update(data.take_front(position));
  hasher.update(std::string(digits, '0'));
  hasher.update(data.drop_front(position + digits));
  BLAKE3Result<> result = hasher.final();
  return toHex(ArrayRef<uint8_t>(result.data(), result.size()), /*LowerCase=*/true);
}

} // namespace

bool cleave::support::isBytecode(StringRef data) {
  return data.starts_with(magic);
}

std::string cleave::support::addDigest(StringRef bytecode) {
  size_t end = bytecode.find('\0', producerStart);
  if (!isBytecode(bytecode) || end == StringRef::npos)
    return bytecode.str();
  std::string result = bytecode.take_front(end).str();
  result += std::string(growth - announcement.size() - digits, ' ');
  result += announcement;
  size_t position = result.size();
  result += std::string(digits, '0');
  result += bytecode.drop_front(end);
  result.replace(position, digits, computeDigest(result, position));
  return result;
}

Error cleave::support::checkDigest(StringRef data, StringRef name) {
  if (!isBytecode(data))
    return Error::success();
  StringRef producer = data.drop_front(std::min(producerStart, data.size())).split('\0').first;
  size_t at = producer.find(announcement);
  if (at == StringRef::npos)
    return createStringError(
        name + ": expected bytecode written by a Cleave tool, found no digest at its start; the "
               "file is damaged or was written by another tool (cleave-opt reads the text form)");
  size_t position = producerStart + at + announcement.size();
  if (producer.size() != at + announcement.size() + digits ||
      data.substr(position, digits) != computeDigest(data, position))
    return createStringError(name +
                             ": the file is damaged: its digest does not match its content (" +
                             Twine(data.size()) + " bytes)");
  return Error::success();
}
