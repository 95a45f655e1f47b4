//===- Agreement.cpp - all ranks start together or not at all -------------===//

#include "runtime/train/Agreement.h"
#include "runtime/comm/Failure.h"
#include "runtime/comm/SameProgram.h"
#include "runtime/environment/Environment.h"
#include "runtime/kernels/CpuKernels.h"
#include "runtime/program/ProgramImpl.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cstdio>

using namespace cleave::runtime;

llvm::Error cleave::runtime::agree(Communicator &world, llvm::Error mine, llvm::StringRef what) {
  if (world.size() == 1)
    return mine;
  std::string text = llvm::toString(std::move(mine));
  llvm::Expected<std::vector<std::string>> all = world.allGatherBytes(text, what);
  if (!all) {
    // A rank's own problem says more than that it could not tell the others.
    if (text.empty())
      return all.takeError();
    llvm::consumeError(all.takeError());
    return llvm::make_error<CollectiveRefusal>(text);
  }
  llvm::MapVector<llvm::StringRef, std::vector<int>> problems;
  for (int rank = 0; rank < world.size(); ++rank)
    if (!(*all)[rank].empty())
      problems[(*all)[rank]].push_back(rank);
  if (problems.empty())
    return llvm::Error::success();
  std::vector<std::string> lines;
  for (auto &[problem, ranks] : problems)
    lines.push_back(int(ranks.size()) == world.size()
                        ? problem.str()
                        : describeRanks(ranks) + ": " + problem.str());
  return llvm::make_error<CollectiveRefusal>(llvm::join(lines, "\n"));
}

/// What a program's compiled kernels use of the processor; nothing for a program without any, or
/// where `wanted` is refused: the session says why.
static std::optional<EnvironmentFact> describeKernels(const Program &program,
                                                      llvm::StringRef wanted) {
  mlir::ModuleOp module = *program.impl().module;
  if (llvm::none_of(module.getOps<cleave::exec::BinaryOp>(), [](cleave::exec::BinaryOp binary) {
        return binary.getFamily() == cleave::exec::Family::Cpu;
      }))
    return std::nullopt;
  llvm::Expected<cleave::exec::BinaryOp> chosen = chooseCpuBinary(module, wanted);
  if (!chosen) {
    llvm::consumeError(chosen.takeError());
    return std::nullopt;
  }
  return EnvironmentFact{"processor instructions of compiled kernels",
                         *chosen ? chosen->getTarget().str() : "none",
                         EnvironmentFact::Weight::DecidesBits};
}

llvm::Error
cleave::runtime::agreeOnProgram(Communicator &world, const Program &program,
                                std::vector<std::pair<std::string, std::string>> options,
                                llvm::StringRef kernels, bool needsEqualBits) {
  ProgramIdentity identity;
  identity.name = program.path().str();
  std::string bytes = llvm::fromHex(program.fingerprint());
  std::copy_n(bytes.begin(), std::min(bytes.size(), identity.fingerprint.size()),
              identity.fingerprint.begin());
  identity.mustAgree = std::move(options);
  identity.host = getHostName();
  identity.environment = getEnvironment();
  // On a device its chip, a fact already, decides about kernels.
  if (usesProcessor())
    if (std::optional<EnvironmentFact> fact = describeKernels(program, kernels))
      identity.environment.push_back(std::move(*fact));
  identity.needsEqualBits = needsEqualBits;
  std::vector<std::string> notes;
  llvm::Error error = checkSameProgram(world, identity, &notes);
  if (!error && world.rank() == 0)
    for (const std::string &note : notes)
      std::fprintf(stderr, "note: %s\n", note.c_str());
  return error;
}
