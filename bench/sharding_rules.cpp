//===- sharding_rules.cpp - time to compute the sharding rules of a program -----===//
//
// Computes the rule of every op of a program several times and prints the shortest time.
//
//   sharding-rules PROGRAM.mlir [ROUNDS]
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "dialects/sharding/ShardingRule.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <chrono>

using namespace cleave;

int main(int argc, char **argv) {
  int rounds = 9;
  if (argc < 2 || argc > 3 ||
      (argc == 3 && (llvm::StringRef(argv[2]).getAsInteger(10, rounds) || rounds < 1))) {
    llvm::errs() << "usage: sharding-rules PROGRAM.mlir [ROUNDS]\n";
    return EXIT_FAILURE;
  }
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  if (!module)
    return EXIT_FAILURE;

  using Clock = std::chrono::steady_clock;
  size_t ops = 0, factors = 0;
  double shortest = 0;
  for (int round = 0; round < rounds; ++round) {
    ops = factors = 0;
    Clock::time_point start = Clock::now();
    module->walk([&](sharding::ShardingRuleOpInterface op) {
      factors += op.getShardingRule().factors.size();
      ++ops;
    });
    double time = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    shortest = round ? std::min(shortest, time) : time;
  }
  llvm::outs() << llvm::format("%zu rules with %zu factors in %.1f ms, %.2f us each\n", ops,
                               factors, shortest, ops ? 1e3 * shortest / ops : 0);
  return EXIT_SUCCESS;
}
