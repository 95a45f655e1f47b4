//===- Report.h - what was found, as text, JSON and files -----------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_REPORT_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_REPORT_H

#include "lib/plan/Search.h"
#include "tools/cleave-plan/Explain.h"
#include "tools/cleave-plan/Source.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave::plan {

/// What reports need of a run of the tool.
struct Found {
  const Space &space;
  const std::vector<Source> &sources;
  const cost::Cluster &cluster;
  const SearchResult &result;
  std::string clusterOption; // as the user named it
  std::string folder;        // of the files, empty if none are written
  double memory = 0;
  double seconds = 0;
  unsigned numPartitioned = 0;
  int64_t numLayers = 0; // of these programs
  unsigned numAlternatives = 5;
  /// Layouts, stages and tensors are reported, too.
  std::optional<Explanation> explanation;
};

/// "dp=2 tp=2 pp=1 parameters=fsdp recompute=cheap".
std::string describe(const Plan &plan, const Space &space);

void printText(const Found &found, llvm::raw_ostream &os);
llvm::json::Object toJSON(const Found &found);

/// The commands that make the best plan's program and predict its step.
std::vector<std::string> listCommands(const Found &found);
/// The command that trains it, on the weights beside the export. How long, and on which data, the
/// user has to say. On more ranks than a node has, every rank runs it under a launcher.
std::string describeTraining(const Found &found);
/// Makes the folder that writeFiles() writes to, before there is anything to lose; an error where
/// it cannot be written.
llvm::Error makeFolder(llvm::StringRef folder);
/// Writes placements.json, plan.json and commands.sh to the folder; plan.html, too, if the plan is
/// explained.
llvm::Error writeFiles(const Found &found);

/// One page without a server, which shows all of toJSON().
void printPage(const Found &found, llvm::raw_ostream &os);

/// Why nothing fits: the least memory that would do, and what binds.
llvm::Error explainMemory(const Found &found);

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_REPORT_H
