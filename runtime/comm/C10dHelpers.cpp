//===- C10dHelpers.cpp - what communicators on c10d share -----------------===//

#include "runtime/comm/C10dHelpers.h"

#include <ATen/ATen.h>
#include <algorithm>

using namespace cleave;
using namespace cleave::runtime;
using llvm::StringRef;

std::string cleave::runtime::describeException() {
  std::string text;
  try {
    throw;
  } catch (const c10::Error &error) {
    text = error.what_without_backtrace();
  } catch (const std::exception &error) {
    text = error.what();
  } catch (...) {
    text = "unknown exception";
  }
  StringRef line = StringRef(text).split('\n').first.rtrim();
  // "[../third_party/gloo/tcp/pair.cc:534] Connection closed by peer [...]"
  if (line.starts_with("["))
    line = line.split("] ").second.empty() ? line : line.split("] ").second;
  return line.str();
}

llvm::Expected<std::vector<std::string>>
cleave::runtime::gatherPadded(Communicator &ranks, StringRef bytes, StringRef what) {
  // The lengths first, then the bytes padded to the longest.
  auto gather = [&](at::Tensor &all, const at::Tensor &mine) -> llvm::Error {
    auto work = ranks.startAllGather(all, mine, what);
    return work ? (*work)->wait() : work.takeError();
  };
  at::Tensor lengths = at::empty({ranks.size()}, at::kLong);
  if (llvm::Error error = gather(lengths, at::full({1}, int64_t(bytes.size()), at::kLong)))
    return error;
  const int64_t *length = lengths.const_data_ptr<int64_t>();
  int64_t longest = std::max<int64_t>(1, *std::max_element(length, length + ranks.size()));
  at::Tensor padded = at::zeros({longest}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), padded.mutable_data_ptr<uint8_t>());
  at::Tensor all = at::empty({ranks.size(), longest}, at::kByte);
  if (llvm::Error error = gather(all, padded))
    return error;
  std::vector<std::string> result;
  const char *data = reinterpret_cast<const char *>(all.const_data_ptr<uint8_t>());
  for (int each = 0; each < ranks.size(); ++each)
    result.emplace_back(data + each * longest, length[each]);
  return result;
}
