//===- Cumsum.cpp - running sums along a sharded dimension ----------------===//
//
// A rank's running sums go on from the sum of all that the ranks before it hold.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/placement/forms/Forms.h"
#include "lib/placement/forms/LocalBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

namespace {

class CumsumForm : public Form {
public:
  StringRef name() const override { return "running sum along a sharded dimension"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    Value input = op->getOperand(0);
    if (rankOf(input) == 0 || !dividesEvenly(shapeOf(input)[dimOf(op)], axis))
      return;
    int64_t dim = dimOf(op);
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    strategy.operands[0] = strategy.results[0] = AxisPlacement::shard(dim);
    int64_t sumBytes = bytesOf(op->getResult(0)) / shapeOf(input)[dim];
    strategy.bytes = allGatherBytes(sumBytes * axis.size, axis);
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    int64_t dim = dimOf(op), rank = rankOf(operands[0]);
    Axes axes = b.axesOf(operands[0], dim);
    Type dtype = dtypeOf(op->getResult(0));
    Value input = b.asVarying(b.toType(operands[0], dtype), axes);
    Value local = b.makeLike<aten::CumsumOp>(input, input, b.integer("dim", dim));
    Value sums = b.allGather(b.sum(input, dim, /*keepDim=*/true), dim, axes);
    Shape along(rank, 1);
    along[dim] = axes.ranks;
    Value before = b.view(b.compare<aten::LtOp>(b.arange(axes.ranks), b.rankAlong(axes)), along);
    Value prefix = b.sum(b.keepWhere(before, sums), dim, /*keepDim=*/true);
    return b.finish(b.asLike(b.add(local, prefix), operands[0]));
  }

private:
  static int64_t dimOf(Operation *op) {
    auto cumsum = cast<aten::CumsumOp>(op);
    int64_t dim = cumsum.getDim();
    return dim < 0 ? dim + rankOf(cumsum.getSelf()) : dim;
  }
};

} // namespace

void placement::addCumsumForms(FormTable &table) {
  static const CumsumForm form;
  table.add(aten::CumsumOp::getOperationName(), &form);
}
