//===- Sort.cpp - sorting along a sharded dimension -----------------------===//
//
// Ranks gather what is sorted, each sorts all of it and keeps its part. What follows, such as the
// rows of tokens in the order of their experts, is divided then.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Ordering.h"
#include "lib/placement/forms/Forms.h"
#include "lib/placement/forms/LocalBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

namespace {

template <typename OpTy> class SortForm : public Form {
public:
  StringRef name() const override { return "sort along a sharded dimension"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    Value self = op->getOperand(0);
    if (rankOf(self) == 0 || !dividesEvenly(shapeOf(self)[dimOf(op)], axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    strategy.operands[0] = AxisPlacement::shard(dimOf(op));
    strategy.results.assign(2, AxisPlacement::shard(dimOf(op)));
    strategy.bytes = allGatherBytes(bytesOf(self), axis);
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    int64_t dim = dimOf(op), own = shapeOf(operands[0])[dim];
    Axes axes = b.axesOf(operands[0], dim);
    Value all = b.allGather(operands[0], dim, axes);
    auto type = [&](Value value) {
      return Type(RankedTensorType::get(shapeOf(all), dtypeOf(value)));
    };
    SmallVector<NamedAttribute> attributes(op->getAttrDictionary().begin(),
                                           op->getAttrDictionary().end());
    llvm::erase_if(attributes, [&](NamedAttribute attribute) {
      return op->getDiscardableAttr(attribute.getName()) != nullptr;
    });
    Operation *sorted =
        b.create<OpTy>({type(op->getResult(0)), type(op->getResult(1))}, all, attributes);
    Value places = b.add(b.arange(own), b.mulScalar(b.rankAlong(axes), b.scalar(own)));
    SmallVector<Value> parts;
    for (Value result : sorted->getResults())
      parts.push_back(b.asShard(b.indexSelect(result, dim, places), dim, axes));
    return b.finish(parts);
  }

private:
  static int64_t dimOf(Operation *op) {
    int64_t dim = cast<OpTy>(op).getDim().value_or(-1);
    return dim < 0 ? dim + rankOf(op->getOperand(0)) : dim;
  }
};

} // namespace

void placement::addSortForms(FormTable &table) {
  static const SortForm<aten::SortOp> sort;
  static const SortForm<aten::SortStableOp> stable;
  table.add(aten::SortOp::getOperationName(), &sort);
  table.add(aten::SortStableOp::getOperationName(), &stable);
}
