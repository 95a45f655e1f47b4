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

/// The form of the message. Another number is another version of Cleave.
static constexpr char kForm[] = "cleave identity 2";

static std::string encode(const ProgramIdentity &identity) {
  std::string bytes;
  appendText(bytes, kForm);
  bytes.append(identity.fingerprint.begin(), identity.fingerprint.end());
  appendText(bytes, identity.name);
  appendText(bytes, identity.host);
  bytes += identity.needsEqualBits ? '\1' : '\0';
  appendText(bytes, std::to_string(identity.environment.size()));
  for (const EnvironmentFact &fact : identity.environment) {
    appendText(bytes, fact.name);
    appendText(bytes, fact.value);
    bytes += static_cast<char>(fact.weight);
  }
  for (const auto &[option, value] : identity.mustAgree) {
    appendText(bytes, option);
    appendText(bytes, value);
  }
  return bytes;
}

static std::optional<ProgramIdentity> decode(StringRef bytes) {
  ProgramIdentity identity;
  std::optional<std::string> form = takeText(bytes);
  if (!form || *form != kForm || bytes.size() < identity.fingerprint.size())
    return std::nullopt;
  std::copy_n(bytes.begin(), identity.fingerprint.size(), identity.fingerprint.begin());
  bytes = bytes.drop_front(identity.fingerprint.size());
  std::optional<std::string> name = takeText(bytes), host = takeText(bytes);
  if (!name || !host || bytes.empty())
    return std::nullopt;
  identity.name = *name;
  identity.host = *host;
  identity.needsEqualBits = bytes.front() != 0;
  bytes = bytes.drop_front();
  std::optional<std::string> count = takeText(bytes);
  unsigned facts;
  if (!count || StringRef(*count).getAsInteger(10, facts))
    return std::nullopt;
  for (unsigned i = 0; i < facts; ++i) {
    std::optional<std::string> fact = takeText(bytes), value = takeText(bytes);
    if (!fact || !value || bytes.empty() ||
        uint8_t(bytes.front()) > uint8_t(EnvironmentFact::Weight::Informs))
      return std::nullopt;
    identity.environment.push_back({*fact, *value, EnvironmentFact::Weight(bytes.front())});
    bytes = bytes.drop_front();
  }
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

/// "rank 2", or "rank 2 (node7)" where the ranks are on several hosts.
static std::string describeRanksAndHosts(llvm::ArrayRef<ProgramIdentity> identities,
                                         llvm::ArrayRef<int> ranks) {
  std::string text = describeRanks(ranks);
  bool oneHost = llvm::all_of(
      identities, [&](const ProgramIdentity &each) { return each.host == identities[0].host; });
  if (oneHost)
    return text;
  llvm::MapVector<StringRef, bool> hosts;
  for (int rank : ranks)
    hosts[identities[rank].host] = true;
  std::vector<StringRef> names;
  for (auto &[host, present] : hosts)
    names.push_back(host);
  return text + " (" + llvm::join(names, ", ") + ")";
}

/// The first difference that is refused; others go to `notes`.
static llvm::Error compareEnvironments(llvm::ArrayRef<ProgramIdentity> identities,
                                       std::vector<std::string> *notes) {
  llvm::MapVector<StringRef, EnvironmentFact::Weight> facts;
  for (const ProgramIdentity &identity : identities)
    for (const EnvironmentFact &fact : identity.environment)
      facts.insert({fact.name, fact.weight});
  bool needsEqualBits =
      llvm::any_of(identities, [](const ProgramIdentity &each) { return each.needsEqualBits; });
  for (auto &[name, weight] : facts) {
    llvm::MapVector<StringRef, std::vector<int>> ranksOf;
    for (auto [rank, identity] : llvm::enumerate(identities)) {
      auto found = llvm::find_if(identity.environment,
                                 [&](const EnvironmentFact &fact) { return fact.name == name; });
      StringRef value = found == identity.environment.end() ? "none" : StringRef(found->value);
      ranksOf[value].push_back(static_cast<int>(rank));
    }
    if (ranksOf.size() == 1)
      continue;
    std::vector<std::string> parts;
    for (auto &[value, ranks] : ranksOf)
      parts.push_back(value.str() + " on " + describeRanksAndHosts(identities, ranks));
    std::string text = (name + ": " + llvm::join(parts, "; ")).str();
    bool decidesBits = weight == EnvironmentFact::Weight::DecidesBits;
    if (weight == EnvironmentFact::Weight::Required)
      return llvm::make_error<CollectiveRefusal>(
          "the ranks' environments differ, expected the same on all: " + text);
    if (decidesBits && needsEqualBits)
      return llvm::make_error<CollectiveRefusal>(
          "the ranks' environments differ, so --check replicated would report differences that are "
          "not errors: " +
          text);
    if (notes)
      notes->push_back("the ranks' environments differ" +
                       std::string(decidesBits
                                       ? ", so replicated results may differ in their last bits: "
                                       : ": ") +
                       text);
  }
  return llvm::Error::success();
}

llvm::Error cleave::runtime::compareIdentities(llvm::ArrayRef<ProgramIdentity> identities,
                                               std::vector<std::string> *notes) {
  // First of all: with another version of Cleave the rest may differ for this reason alone.
  if (llvm::Error error = compareEnvironments(identities, notes))
    return error;
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

llvm::Error cleave::runtime::checkSameProgram(Communicator &world, const ProgramIdentity &mine,
                                              std::vector<std::string> *notes) {
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
  return compareIdentities(identities, notes);
}
