//===- CommandLine.cpp - help and plugins of cleave-opt ----------------------===//

#include "tools/cleave-opt/CommandLine.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/Timing.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"

#include <map>

using namespace llvm;
using namespace cleave;

cl::OptionCategory cleave::ownOptions("cleave-opt");

//===----------------------------------------------------------------------===//
// Plugins
//===----------------------------------------------------------------------===//

static Error loadPassPlugin(StringRef file) {
  // The loader takes a name without a directory for a library of the system's.
  SmallString<128> path(file);
  if (sys::fs::exists(file))
    (void)sys::fs::make_absolute(path);
  else
    return createStringError("cannot load passes from '" + file + "': no such file");
  Expected<mlir::PassPlugin> plugin = mlir::PassPlugin::load(path.str().str());
  if (!plugin)
    return plugin.takeError();
  plugin->registerPassRegistryCallbacks();
  return Error::success();
}

Error cleave::loadPassPlugins(SmallVectorImpl<char *> &arguments) {
  SmallVector<char *> kept;
  for (size_t i = 0; i < arguments.size(); ++i) {
    StringRef argument = arguments[i];
    StringRef name = argument.ltrim('-');
    if (i == 0 || name == argument || !name.consume_front("load-pass-plugin") ||
        !(name.empty() || name.starts_with("="))) {
      kept.push_back(arguments[i]);
      continue;
    }
    if (name.empty() && ++i == arguments.size())
      return createStringError("expected a file after " + argument);
    StringRef files = name.empty() ? StringRef(arguments[i]) : name.drop_front();
    SmallVector<StringRef> list;
    files.split(list, ',');
    for (StringRef file : list)
      if (Error error = loadPassPlugin(file))
        return error;
  }
  arguments = std::move(kept);
  return Error::success();
}

void cleave::quietDiagnostics(SmallVectorImpl<char *> &arguments) {
  static char option[] = "--mlir-print-op-on-diagnostic=false";
  if (none_of(arguments, [](StringRef argument) {
        return argument.ltrim('-').starts_with("mlir-print-op-on-diagnostic");
      }))
    arguments.push_back(option);
}

//===----------------------------------------------------------------------===//
// Help
//===----------------------------------------------------------------------===//

bool cleave::wantsHelp(ArrayRef<char *> arguments) {
  return any_of(arguments.drop_front(), [](StringRef argument) {
    return argument == "--help" || argument == "-help" || argument == "-h";
  });
}

namespace {
struct PassOfArea {
  StringLiteral area;
  StringLiteral pass;
};
/// A heading and what the names of its options start with; the first that fits is taken.
struct OptionGroup {
  StringLiteral heading;
  std::vector<StringLiteral> prefixes;
};
} // namespace

static const PassOfArea passesByArea[] = {
#include "tools/cleave-opt/PassAreas.inc"
};

static const OptionGroup optionGroups[] = {
    {"Input and output",
     {"o", "emit-bytecode", "split-input-file", "output-split-marker", "allow-unregistered",
      "elide-resource", "no-implicit-module", "show-dialects"}},
    {"Pipelines and plugins",
     {"pass-pipeline", "p", "load-", "dump-pass-pipeline", "run-reproducer", "irdl-file",
      "mlir-pass-pipeline", "mlir-generate-reproducer"}},
    {"Printing programs", {"mlir-print", "mlir-elide", "mlir-use-nameloc"}},
    {"Checks", {"verify", "prove-each", "error-limit", "mlir-very-unsafe"}},
    {"Time and statistics", {"mlir-timing", "mlir-pass-statistics", "mlir-output-format"}},
    {"Debugging MLIR itself", {""}},
};

/// The group that --help lists the option in; null for LLVM's own and for aliases.
static const OptionGroup *findGroup(const cl::Option &option, StringRef name) {
  if (option.ArgStr != name || option.getOptionHiddenFlag() != cl::NotHidden)
    return nullptr;
  return find_if(optionGroups, [&](const OptionGroup &group) {
    return any_of(group.prefixes, [&](StringRef prefix) {
      return prefix.size() == 1 ? name == prefix : name.starts_with(prefix);
    });
  });
}

bool cleave::isCommonOption(const cl::Option &option, StringRef name) {
  const OptionGroup *group = findGroup(option, name);
  return group && group != &optionGroups[std::size(optionGroups) - 1];
}

bool cleave::isCleavePass(StringRef pass) {
  return any_of(passesByArea, [&](const PassOfArea &entry) { return entry.pass == pass; });
}

static void printHeading(StringRef heading) {
  outs() << "\n" << heading << ":\n";
}

/// Prints the passes of the table, then those it does not have (upstream's and plugins').
static void printPasses(const std::map<StringRef, cl::Option *> &options) {
  StringSet<> printed;
  StringRef area;
  for (const PassOfArea &entry : passesByArea) {
    const mlir::PassInfo *info = mlir::PassInfo::lookup(entry.pass);
    if (!info)
      continue;
    if (entry.area != area)
      printHeading(("Passes: " + entry.area).str());
    area = entry.area;
    info->printHelpStr(2, kDescriptionColumn);
    printed.insert(entry.pass);
  }
  printHeading("Passes: general");
  for (auto [name, option] : options)
    if (const mlir::PassInfo *info = mlir::PassInfo::lookup(name); info && !printed.contains(name))
      info->printHelpStr(2, kDescriptionColumn);
}

static void printOption(const cl::Option &option) {
  std::string left = "  --" + option.ArgStr.str();
  if (!option.ValueStr.empty())
    left += "=<" + option.ValueStr.str() + ">";
  outs() << left;
  outs().indent(left.size() < kDescriptionColumn ? kDescriptionColumn - left.size() : 1);
  outs() << "- " << option.HelpStr << "\n";
}

void cleave::printHelp(mlir::DialectRegistry &registry) {
  // What is there by now, and not in our category, belongs to LLVM's libraries.
  StringSet<> foreign;
  for (auto &entry : cl::getRegisteredOptions())
    if (!is_contained(entry.second->Categories, &ownOptions))
      foreign.insert(entry.first);
  mlir::MlirOptMainConfig::registerCLOptions(registry);
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  std::map<StringRef, cl::Option *> options;
  for (auto &entry : cl::getRegisteredOptions())
    if (!foreign.contains(entry.first))
      options[entry.first] = entry.second;

  outs() << "cleave-opt: run passes on training programs\n\n"
            "usage: cleave-opt [FILE] [passes, in order] [options]\n"
            "Reads text or bytecode from FILE or standard input; writes text to standard output by "
            "default.\n\n"
            "  cleave-opt gpt.mlir --sync-gradients=\"axis=dp\" --cse -o gpt.dp.mlir\n"
            "  cleave-opt gpt.mlir --pass-pipeline='builtin.module(sync-gradients{axis=dp},cse)'\n";
  printPasses(options);

  std::map<StringRef, std::vector<const cl::Option *>> byHeading;
  for (auto [name, option] : options)
    if (!mlir::PassInfo::lookup(name))
      if (const OptionGroup *group = findGroup(*option, name))
        byHeading[group->heading].push_back(option);
  for (const OptionGroup &group : optionGroups) {
    if (!byHeading.contains(group.heading))
      continue;
    printHeading(group.heading);
    if (group.heading == "Input and output")
      outs() << "  -o FILE                                   - Write to FILE\n";
    for (const cl::Option *option : byHeading[group.heading])
      printOption(*option);
  }
  outs() << "\n--help-hidden lists LLVM's options as well.\n";
}
