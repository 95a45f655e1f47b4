//===- ReduceProgram.cpp - makes a program smaller ---------------------------===//
//
// The search is described in Passes.td.
//
//===----------------------------------------------------------------------===//

#include "tools/cleave-reduce/ReduceProgram.h"

#include "dialects/Register.h"
#include "dialects/aten/ops/Call.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Reducer/Tester.h"
#include "llvm/Support/FileSystem.h"

namespace cleave {
#define GEN_PASS_DEF_REDUCEPROGRAM
#include "tools/cleave-reduce/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

//===----------------------------------------------------------------------===//
// What can go
//===----------------------------------------------------------------------===//

/// Removes ops whose results are unused, last first.
static void removeDeadOps(ModuleOp module) {
  module.walk([](func::FuncOp function) {
    for (Block &block : function.getBody())
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
        if (isOpTriviallyDead(&op))
          op.erase();
  });
}

static constexpr StringLiteral kZeros = "aten::zeros";

static bool isZeros(Operation *op) {
  auto call = dyn_cast<aten::CallOp>(op);
  return call && call.getCallee() == kZeros;
}

/// Makes the op's results operands of the same type, or zeros, so that the op can go.
static void replaceResults(Operation *op) {
  OpBuilder b(op);
  for (OpResult result : op->getResults()) {
    auto same =
        llvm::find_if(op->getOperands(), [&](Value v) { return v.getType() == result.getType(); });
    if (same != op->operand_end()) {
      result.replaceAllUsesWith(*same);
      continue;
    }
    auto type = cast<RankedTensorType>(result.getType());
    NamedAttrList args;
    args.set("size", b.getDenseI64ArrayAttr(type.getShape()));
    args.set("dtype", TypeAttr::get(type.getElementType()));
    auto zeros = aten::CallOp::create(b, op->getLoc(), TypeRange(type), b.getStringAttr(kZeros),
                                      args.getDictionary(b.getContext()), /*schema=*/nullptr,
                                      /*sharding=*/nullptr, ValueRange());
    result.replaceAllUsesWith(zeros.getResult(0));
  }
}

static SmallVector<func::FuncOp> functionsWithBody(ModuleOp module) {
  return llvm::to_vector(llvm::make_filter_range(module.getOps<func::FuncOp>(), [](func::FuncOp f) {
    return !f.isExternal() && f.getBody().hasOneBlock();
  }));
}

namespace {
/// One kind of thing that can go. `count` says how many there are, `remove` takes those out whose
/// bit is set; both number them in one order.
struct Kind {
  const char *name;
  size_t (*count)(ModuleOp module);
  void (*remove)(ModuleOp module, const llvm::BitVector &which);
};
} // namespace

static SmallVector<Operation *> topLevelOps(ModuleOp module) {
  return llvm::map_to_vector(*module.getBody(), [](Operation &op) { return &op; });
}

static SmallVector<Operation *> replaceableOps(ModuleOp module) {
  SmallVector<Operation *> ops;
  for (func::FuncOp function : functionsWithBody(module))
    for (Operation &op : function.front().without_terminator())
      if (op.getNumRegions() == 0 && !isZeros(&op) &&
          llvm::all_of(op.getResultTypes(), aten::isTensor))
        ops.push_back(&op);
  return ops;
}

static const Kind kinds[] = {
    {"top-level ops", [](ModuleOp module) { return topLevelOps(module).size(); },
     [](ModuleOp module, const llvm::BitVector &which) {
       SmallVector<Operation *> ops = topLevelOps(module);
       for (unsigned i : which.set_bits())
         ops[i]->erase();
     }},
    {"results",
     [](ModuleOp module) {
       size_t count = 0;
       for (func::FuncOp function : functionsWithBody(module))
         count += function.getNumResults();
       return count;
     },
     [](ModuleOp module, const llvm::BitVector &which) {
       size_t next = 0;
       for (func::FuncOp function : functionsWithBody(module)) {
         llvm::BitVector gone(function.getNumResults());
         for (unsigned i = 0; i < gone.size(); ++i)
           gone[i] = which[next++];
         function.front().getTerminator()->eraseOperands(gone);
         (void)function.eraseResults(gone);
       }
     }},
    {"ops", [](ModuleOp module) { return replaceableOps(module).size(); },
     [](ModuleOp module, const llvm::BitVector &which) {
       SmallVector<Operation *> ops = replaceableOps(module);
       for (unsigned i : which.set_bits())
         replaceResults(ops[i]);
     }},
    {"arguments",
     [](ModuleOp module) {
       size_t count = 0;
       for (func::FuncOp function : functionsWithBody(module))
         count += function.getNumArguments();
       return count;
     },
     [](ModuleOp module, const llvm::BitVector &which) {
       size_t next = 0;
       for (func::FuncOp function : functionsWithBody(module)) {
         llvm::BitVector gone(function.getNumArguments());
         for (unsigned i = 0; i < gone.size(); ++i)
           gone[i] = which[next++] && function.getArgument(i).use_empty();
         (void)function.eraseArguments(gone);
       }
     }},
};

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

namespace {
struct ReduceProgram : cleave::impl::ReduceProgramBase<ReduceProgram> {
  using ReduceProgramBase::ReduceProgramBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!llvm::sys::fs::can_execute(script)) {
      module.emitError() << "expects an executable script for 'test', found '" << script << "'";
      return signalPassFailure();
    }
    tester.setTestScript(script);
    tester.setTestScriptArgs(arguments);
    if (!isInteresting(module)) {
      module.emitError() << "is not interesting: '" << script << "' does not exit with 1 on it";
      return signalPassFailure();
    }
    bool changed = true;
    while (changed) {
      changed = false;
      for (const Kind &kind : kinds)
        changed |= reduce(module, kind);
    }
  }

private:
  bool isInteresting(ModuleOp module) {
    return tester.isInteresting(module).first == Tester::Interestingness::True;
  }

  /// Takes out chunks of halving size, down to single things.
  bool reduce(ModuleOp module, const Kind &kind) {
    bool changed = false;
    size_t chunk = kind.count(module);
    while (chunk > 0) {
      // From the end: what comes last is what nothing else needs.
      for (size_t end = kind.count(module); end > 0;) {
        size_t begin = end > chunk ? end - chunk : 0;
        if (tryWithout(module, kind, begin, end)) {
          changed = true;
          begin = std::min(begin, kind.count(module));
        }
        end = begin;
      }
      chunk /= 2;
    }
    return changed;
  }

  /// Whether the program without the things numbered [begin, end) is smaller and interesting; if
  /// so, it takes the place of `module`.
  bool tryWithout(ModuleOp module, const Kind &kind, size_t begin, size_t end) {
    OwningOpRef<ModuleOp> candidate = module.clone();
    llvm::BitVector which(kind.count(*candidate));
    which.set(begin, end);
    kind.remove(*candidate, which);
    removeDeadOps(*candidate);
    if (size(*candidate) >= size(module))
      return false;
    // What takes too much away does not verify; that is not an error of the user's.
    ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); });
    if (failed(verify(*candidate)) || !isInteresting(*candidate))
      return false;
    module.getBodyRegion().takeBody(candidate->getBodyRegion());
    return true;
  }

  /// Ops, arguments and results; zeros count half, so that an op made zeros is a step forward.
  static size_t size(ModuleOp module) {
    size_t total = 0;
    module.walk([&](Operation *op) {
      total += (isZeros(op) ? 1 : 2) + op->getNumOperands();
      if (auto function = dyn_cast<func::FuncOp>(op))
        total += function.getNumArguments() + function.getNumResults();
    });
    return total;
  }

  Tester tester;
};
} // namespace
