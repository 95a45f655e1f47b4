//===- Passes.td - the pass that makes a program smaller --------*- tablegen -*-===//

#ifndef CLEAVE_TOOLS_CLEAVEREDUCE_PASSES
#define CLEAVE_TOOLS_CLEAVEREDUCE_PASSES

include "mlir/Pass/PassBase.td"

def ReduceProgram : Pass<"reduce-program", "::mlir::ModuleOp"> {
  let summary = "find a smaller program that a script still finds interesting (exit status 1)";
  let description = [{
    Delta debugging (Zeller and Hildebrandt, 2002) over what a program is made of: functions, their
    results, ops, arguments. A candidate is a clone with some of them gone; it takes the program's
    place if it verifies and the script still finds it interesting. Everything else in the program
    stays as it was, roles included.

    Upstream's `reduction-tree` rewrites the ops of one region by patterns that dialects offer. What
    a program is made of mostly lies elsewhere: a result goes from a function's type, its attributes
    and its return at once.
  }];
  let options = [
    Option<"script", "test", "std::string", "",
           "Script that is called with a program's file name and exits with 1 if the program is interesting">,
    ListOption<"arguments", "test-arg", "std::string", "Arguments before the file name">
  ];
}

#endif // CLEAVE_TOOLS_CLEAVEREDUCE_PASSES
