//===- SameProgram.cpp - Ranks agree on what they run ---------------------===//

#include "runtime/comm/SameProgram.h"

#include "runtime/comm/Failure.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"

#include <optional>

using namespace cleave::runtime;
using llvm::StringRef;

static void appendText(std::string &to, StringRef text) {
  char length[4];
  llvm::support::endian::write32le(length, text.size());
  to.append(length, 4);
  to += text;
}

static std::optional<std::string> takeText(StringRef &from) {
  if (from.size() < 4)
    return std::nullopt;
  size_t length = llvm::support::endian::read32le(from.data());
  from = from.drop_front(4);
  if (from.size() < length)
    return std::nullopt;
  std::string text = from.take_front(length).str();
  from = from.drop_front(length);
  return text;
}

static std::string encode(const ProgramIdentity &identity) {
  std::string bytes(identity.fingerprint.begin(), identity.fingerprint.end());
  appendText(bytes, identity.name);
  for (const auto &[option, value] : identity.mustAgree) {
    appendText(bytes, option);
    appendText(bytes, value);
  }
  return bytes;
}

static std::optional<ProgramIdentity> decode(StringRef bytes) {
  ProgramIdentity identity;
  if (bytes.size() < identity.fingerprint.size())
    return std::nullopt;
  std::copy_n(bytes.begin(), identity.fingerprint.size(), identity.fingerprint.begin());
  bytes = bytes.drop_front(identity.fingerprint.size());
  std::optional<std::string> name = takeText(bytes);
  if (!name)
    return std::nullopt;
  identity.name = *name;
  while (!bytes.empty()) {
    std::optional<std::string> option = takeText(bytes), value = takeText(bytes);
    if (!option || !value)
      return std::nullopt;
    identity.mustAgree.emplace_back(*option, *value);
  }
  return identity;
}

/// "4 on ranks 0, 1; 8 on rank 2" if not all values are the same, else empty.
static std::string describeDifference(llvm::ArrayRef<std::string> values) {
  llvm::MapVector<StringRef, std::vector<int>> ranksOf;
  for (auto [rank, value] : llvm::enumerate(values))
    ranksOf[value].push_back(static_cast<int>(rank));
  if (ranksOf.size() == 1)
    return "";
  std::vector<std::string> parts;
  for (auto &[value, ranks] : ranksOf)
    parts.push_back(value.str() + " on " + describeRanks(ranks));
  return llvm::join(parts, "; ");
}

llvm::Error cleave::runtime::compareIdentities(llvm::ArrayRef<ProgramIdentity> identities) {
  auto refuse = [&](StringRef what, StringRef difference) {
    return llvm::make_error<CollectiveRefusal>((what + ": " + difference).str());
  };
  auto collect = [&](auto &&valueOf) {
    std::vector<std::string> values;
    for (const ProgramIdentity &identity : identities)
      values.push_back(valueOf(identity));
    return values;
  };
  bool samePrograms = llvm::all_of(identities, [&](const ProgramIdentity &each) {
    return each.fingerprint == identities[0].fingerprint;
  });
  if (!samePrograms)
    return refuse("the ranks were given different programs",
                  describeDifference(collect([](const ProgramIdentity &each) {
                    constexpr size_t kShown = 6;
                    return each.name + " (fingerprint " +
                           llvm::toHex(llvm::ArrayRef(each.fingerprint).take_front(kShown), true) +
                           ")";
                  })));
  // Options that some rank lacks differ too: it runs another version.
  llvm::MapVector<StringRef, bool> options;
  for (const ProgramIdentity &identity : identities)
    for (const auto &[option, value] : identity.mustAgree)
      options[option] = true;
  for (auto &[option, present] : options) {
    std::string difference = describeDifference(collect([&](const ProgramIdentity &each) {
      auto found =
          llvm::find_if(each.mustAgree, [&](const auto &entry) { return entry.first == option; });
      return found == each.mustAgree.end() ? std::string("not given") : found->second;
    }));
    if (!difference.empty())
      return refuse(("the ranks were started with different values of " + option).str(),
                    difference);
  }
  return llvm::Error::success();
}

llvm::Error cleave::runtime::checkSameProgram(Communicator &world, const ProgramIdentity &mine) {
  auto gathered = world.allGatherBytes(encode(mine), "the programs' fingerprints");
  if (!gathered)
    return gathered.takeError();
  std::vector<ProgramIdentity> identities;
  for (auto [rank, bytes] : llvm::enumerate(*gathered)) {
    std::optional<ProgramIdentity> identity = decode(bytes);
    if (!identity)
      return llvm::createStringError("rank %d described its program in a way that this version of "
                                     "Cleave does not understand: the ranks run different versions",
                                     int(rank));
    identities.push_back(std::move(*identity));
  }
  return compareIdentities(identities);
}
