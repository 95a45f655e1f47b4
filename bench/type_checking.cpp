//===- type_checking.cpp - time to place and to type-check a program ---------===//
//
// Gives an exported program the types of data parallelism (parameters R, batches S, on a second
// axis all I), each op's results by inference, and checks them. Prints the shortest times of
// several rounds.
//
//   type-checking PROGRAM.mlir [ROUNDS]
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"
#include "lib/typing/Check.h"
#include "lib/typing/Inference.h"

#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <chrono>

using namespace cleave;
using namespace mlir;
using dist::AxisPlacement;
using train::RoleKind;

/// What an argument is over the axis of the batch.
static AxisPlacement placementOf(train::RoleAttr role) {
  switch (role.getKind()) {
  case RoleKind::Input:
  case RoleKind::Target:
    return role.getBatch() ? AxisPlacement::shard(*role.getBatch()) : AxisPlacement::replicate();
  case RoleKind::Accumulator:
  case RoleKind::Gradient:
    return AxisPlacement::partial();
  default:
    return AxisPlacement::replicate();
  }
}

static dist::PlacementAttr makePlacement(MLIRContext *context, AxisPlacement onBatch) {
  auto axis = [&](StringRef name) { return StringAttr::get(context, name); };
  return dist::PlacementAttr::get(
      FlatSymbolRefAttr::get(context, "mesh"),
      {{axis("dp"), onBatch}, {axis("tp"), AxisPlacement::invariant()}});
}

static void give(Value value, AxisPlacement onBatch) {
  value.setType(dist::withPlacement(cast<RankedTensorType>(value.getType()),
                                    makePlacement(value.getContext(), onBatch)));
}

static Value reinterpret(OpBuilder &builder, Value value, AxisPlacement onBatch) {
  Type type = dist::withPlacement(cast<RankedTensorType>(value.getType()),
                                  makePlacement(value.getContext(), onBatch));
  return type == value.getType()
             ? value
             : dist::ReinterpretOp::create(builder, value.getLoc(), type, value).getResult();
}

/// Gives the results of `op` their placements; what is not right on shards is done on each rank's
/// own.
static LogicalResult placeOp(Operation &op, const placement::InferenceOptions &options) {
  placement::InferenceOptions quiet = options;
  quiet.quiet = true;
  if (succeeded(placement::placeResults(&op, quiet)))
    return success();
  OpBuilder builder(&op);
  for (OpOperand &operand : op.getOpOperands())
    if (dist::getPlacement(operand.get().getType()).get("dp")->isShard())
      operand.set(reinterpret(builder, operand.get(), AxisPlacement::varying()));
  return placement::placeResults(&op, options);
}

/// Types the microbatch function.
static LogicalResult place(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    give(argument, placementOf(train::getArgumentRole(function, argument.getArgNumber())));
  placement::InferenceOptions options;
  options.like = makePlacement(function.getContext(), AxisPlacement::invariant());
  Operation *terminator = function.front().getTerminator();
  for (Operation &op : llvm::make_early_inc_range(function.front().without_terminator())) {
    // A rank's gradient is a term of the sum.
    if (auto accumulate = dyn_cast<train::AccumulateOp>(op)) {
      OpBuilder builder(&op);
      accumulate.getGradientMutable().set(
          reinterpret(builder, accumulate.getGradient(), AxisPlacement::partial()));
    }
    if (failed(placeOp(op, options)))
      return failure();
  }
  OpBuilder builder(terminator);
  for (OpOperand &operand : terminator->getOpOperands()) {
    train::RoleAttr role = train::getResultRole(function, operand.getOperandNumber());
    bool isTerm = role.getKind() == RoleKind::Loss || role.getKind() == RoleKind::Gradient;
    if (isTerm)
      operand.set(reinterpret(builder, operand.get(), AxisPlacement::partial()));
    else if (dist::getPlacement(operand.get().getType()).get("dp")->isVarying())
      operand.set(
          reinterpret(builder, operand.get(), AxisPlacement::shard(role.getBatch().value_or(0))));
  }
  function.setType(FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                                     terminator->getOperandTypes()));
  return success();
}

int main(int argc, char **argv) {
  int rounds = 9;
  if (argc < 2 || argc > 3 ||
      (argc == 3 && (StringRef(argv[2]).getAsInteger(10, rounds) || rounds < 1))) {
    llvm::errs() << "usage: type-checking PROGRAM.mlir [ROUNDS]\n";
    return EXIT_FAILURE;
  }
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return EXIT_FAILURE;
  FailureOr<train::ProgramFunctions> program = train::getProgram(*module);
  if (failed(program))
    return EXIT_FAILURE;
  if (program->update)
    program->update.erase();
  OpBuilder builder(&context);
  builder.setInsertionPointToStart(module->getBody());
  dist::MeshOp::create(builder, module->getLoc(), "mesh",
                       builder.getArrayAttr({dist::AxisAttr::get(&context, "dp", 2),
                                             dist::AxisAttr::get(&context, "tp", 2)}));

  using Clock = std::chrono::steady_clock;
  double placing = 0, checking = 0;
  for (int round = 0; round < rounds; ++round) {
    Clock::time_point start = Clock::now();
    if (failed(place(program->microbatch)))
      return EXIT_FAILURE;
    Clock::time_point placed = Clock::now();
    if (failed(placement::checkSpmdTypes(*module)))
      return EXIT_FAILURE;
    double place = std::chrono::duration<double, std::milli>(placed - start).count();
    double check = std::chrono::duration<double, std::milli>(Clock::now() - placed).count();
    placing = round ? std::min(placing, place) : place;
    checking = round ? std::min(checking, check) : check;
  }
  size_t ops = llvm::range_size(program->microbatch.getOps());
  llvm::outs() << llvm::format("%zu ops on 2 axes: placed in %.1f ms, checked in %.1f ms\n", ops,
                               placing, checking);
  return EXIT_SUCCESS;
}
