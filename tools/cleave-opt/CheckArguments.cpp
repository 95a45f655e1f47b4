//===- CheckArguments.cpp - passes and options that do not exist -------------===//

#include "tools/cleave-opt/CheckArguments.h"
#include "tools/cleave-opt/CommandLine.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <unistd.h>

using namespace llvm;
using namespace cleave;

using OptionMap = DenseMap<StringRef, cl::Option *>;

/// Whether LLVM takes `name` for an option whose value follows without a space.
static bool hasPrefix(const OptionMap &options, StringRef name) {
  return any_of(options, [&](auto &entry) {
    auto form = entry.second->getFormattingFlag();
    return (form == cl::Prefix || form == cl::AlwaysPrefix) && !entry.first.empty() &&
           name.starts_with(entry.first);
  });
}

/// The pass or option of --help that is spelled most like `name`; "" where none is near.
static StringRef findNear(const OptionMap &options, StringRef name) {
  StringRef best;
  unsigned minimum = std::max<unsigned>(2, name.size() / 3) + 1;
  for (auto &[known, option] : options) {
    if (!mlir::PassInfo::lookup(known) && !isCommonOption(*option, known))
      continue;
    unsigned distance = name.edit_distance(known, /*AllowReplacements=*/true, minimum);
    // What begins with the name is what the user began to write.
    if (known.starts_with(name))
      distance = std::min(distance, 1u);
    if (distance < minimum || (distance == minimum && !best.empty() && known < best)) {
      best = known;
      minimum = distance;
    }
  }
  return best;
}

static Error checkPassOptions(const mlir::PassInfo &pass, StringRef options) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::PassManager manager(&context, mlir::PassManager::getAnyOpAnchorName(),
                            mlir::OpPassManager::Nesting::Implicit);
  std::string problem;
  mlir::LogicalResult result = pass.addToPipeline(manager, options, [&](const Twine &message) {
    problem = message.str();
    return mlir::failure();
  });
  if (succeeded(result))
    return Error::success();
  StringRef text = StringRef(problem).trim();
  text.consume_front("<Pass-Options-Parser>: ");
  // The registry prints a pass's options to the standard output only. The run ends here.
  outs().flush();
  if (dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) {
    pass.printHelpStr(2, kDescriptionColumn);
    outs().flush();
  }
  // For a value that does not parse, LLVM has printed the reason.
  return createStringError("--" + pass.getPassArgument() + ": " +
                           (text.empty() ? "invalid value of an option" : text));
}

Error cleave::checkArguments(ArrayRef<char *> arguments) {
  const OptionMap &options = cl::getRegisteredOptions();
  for (size_t i = 1; i < arguments.size(); ++i) {
    StringRef argument = arguments[i];
    if (argument == "--")
      break;
    auto [name, value] = argument.ltrim('-').split('=');
    if (!argument.starts_with("-") || name.empty())
      continue;
    bool hasValue = argument.contains('=');
    // MLIR registers it only when it parses.
    if (name == "o") {
      i += !hasValue;
      continue;
    }
    auto found = options.find(name);
    if (found == options.end()) {
      if (hasPrefix(options, name))
        continue;
      StringRef near = findNear(options, name);
      return createStringError("unknown option '--" + name + "'" +
                               (near.empty() ? "" : "; did you mean '--" + near.str() + "'?") +
                               " (--help lists passes and options)");
    }
    if (const mlir::PassInfo *pass = mlir::PassInfo::lookup(name)) {
      if (Error error = checkPassOptions(*pass, value))
        return error;
    } else if (!hasValue && found->second->getValueExpectedFlag() == cl::ValueRequired) {
      ++i; // its value
    }
  }
  return Error::success();
}
