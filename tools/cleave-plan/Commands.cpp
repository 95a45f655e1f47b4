// Plans as passes.
#include "tools/cleave-plan/Commands.h"

#include "llvm/ADT/StringExtras.h"

using namespace cleave;
using namespace cleave::plan;

bool plan::hasPlacements(const Layout &layout) {
  return layout.data * layout.tensor > 1;
}

llvm::json::Object plan::makePlacements(const Layout &layout, const Source &source) {
  llvm::json::Array mesh, rules;
  auto addAxis = [&](llvm::StringRef name, int64_t size) {
    if (size > 1)
      mesh.push_back(llvm::json::Array{name, size});
  };
  // The ranks of the last axis are neighbours.
  addAxis(layout.dataInside ? "tp" : "dp", layout.dataInside ? layout.tensor : layout.data);
  addAxis(layout.dataInside ? "dp" : "tp", layout.dataInside ? layout.data : layout.tensor);
  if (layout.tensor > 1)
    for (const TensorRule &rule : source.rules) {
      bool isSequence = rule.style == "sequence";
      if (isSequence && !layout.sequence)
        continue;
      llvm::json::Object entry{{"modules", rule.modules}, {"style", rule.style}, {"axis", "tp"}};
      if (isSequence)
        entry["dim"] = 1;
      rules.push_back(std::move(entry));
    }
  if (layout.data > 1)
    rules.push_back(llvm::json::Object{
        {"style", layout.sharding == Sharding::Replicated ? "data" : "fsdp"}, {"axis", "dp"}});
  return llvm::json::Object{{"mesh", std::move(mesh)}, {"rules", std::move(rules)}};
}

std::vector<PassCall> plan::listPlacing(const Layout &layout, llvm::StringRef placements) {
  std::vector<PassCall> passes;
  if (hasPlacements(layout))
    passes = {{"annotate-placements", "plan=" + placements.str()},
              {"propagate-placements", ""},
              {"partition", ""}};
  passes.push_back({"cse", ""});
  passes.push_back({"canonicalize", ""});
  return passes;
}

std::vector<PassCall> plan::listStaging(const Shape &shape, const Source &source,
                                        llvm::ArrayRef<int64_t> cuts) {
  std::string options = shape.recompute == Recompute::None    ? "policy=save-all"
                        : shape.recompute == Recompute::Cheap ? "recompute=cheap"
                                                              : "recompute=all";
  std::vector<PassCall> passes;
  if (cuts.empty()) {
    passes.push_back({"partition-joint", options});
  } else {
    std::vector<std::string> modules;
    for (int64_t cut : cuts)
      modules.push_back(source.layers + "." + std::to_string(cut));
    passes.push_back({"outline-stages", "at=" + llvm::join(modules, ",") + " " + options});
  }
  if (shape.splitsBackward)
    passes.push_back({"split-backward", ""});
  if (shape.layout.sharding == Sharding::FsdpOnce)
    passes.push_back({"split-fsdp-collectives", ""});
  passes.push_back({"bucket-gradients", ""});
  passes.push_back({"overlap-communication", ""});
  return passes;
}

std::vector<PassCall> plan::listScheduling(const Plan &plan, int64_t microbatches) {
  if (plan.shape.layout.pipeline == 1)
    return {};
  return {{"build-schedule", llvm::formatv("schedule={0} ranks={1} microbatches={2}", plan.schedule,
                                           plan.shape.layout.pipeline, microbatches)},
          {"insert-p2p", ""},
          {"verify-schedule", ""}};
}

std::string plan::makePipeline(llvm::ArrayRef<PassCall> passes) {
  std::vector<std::string> texts;
  for (const PassCall &pass : passes) {
    std::string text = pass.name + (pass.options.empty() ? "" : "{" + pass.options + "}");
    // What works on one function at a time.
    texts.push_back(pass.name == "overlap-communication" ? "func.func(" + text + ")" : text);
  }
  return llvm::join(texts, ",");
}
