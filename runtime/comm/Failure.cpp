//===- Failure.cpp - What a rank reports when its peers fail it -----------===//

#include "runtime/comm/Failure.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstring>

using namespace cleave::runtime;

char PeerFailure::ID;
char CollectiveRefusal::ID;
char Interruption::ID;

std::string cleave::runtime::describeSignal(int signal) {
  return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

std::string cleave::runtime::describeRanks(llvm::ArrayRef<int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
      ++end;
    if (begin)
      text += ", ";
    text += std::to_string(ranks[begin]);
    if (end - begin > 1)
      text += (end - begin == 2 ? ", " : "-") + std::to_string(ranks[end - 1]);
    begin = end;
  }
  return text;
}

std::string cleave::runtime::describeSeconds(double seconds) {
  std::string number = llvm::formatv("{0:F2}", seconds).str();
  while (number.back() == '0')
    number.pop_back();
  if (number.back() == '.')
    number.pop_back();
  return number + " s";
}
