//===- RandomMeaning.cpp - random numbers by seed and place -----------------===//
//
// A number is a function of seed and offset, of the op's position in the stream, and of the place
// at which it is dealt out: for `mt19937` the place in memory of the tensor that the rank draws,
// for `philox` the place in the whole tensor, in row-major order. So a rank that draws all and
// takes its part, and one that draws its part of the whole, have numbers of the whole; one that
// draws its part as if it were the whole has others.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Random.h"
#include "dialects/dist/Placed.h"
#include "lib/aten/Strides.h"
#include "lib/prove/Evaluator.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// The dimensions of what is drawn for `value` from the one with the largest stride on; nothing
/// where they are not known.
static std::optional<SmallVector<int64_t>> memoryOrder(mlir::Value value) {
  ArrayRef<int64_t> shape = tensorOf(value.getType()).getShape();
  std::optional<aten::Strides> strides = aten::StrideInference().getDense(value);
  if (!strides)
    return std::nullopt;
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  llvm::erase_if(order, [&](int64_t dim) { return shape[dim] == 1; });
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return (*strides)[a] > (*strides)[b]; });
  return order;
}

/// What the numbers depend on beside seed, offset and place.
static std::string keyOf(Operation *op, unsigned result) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << "draw " << op->getName() << '#' << result;
  NamedAttrList attributes(op->getAttrDictionary());
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    attributes.erase(attribute.getName());
  for (NamedAttribute attribute : attributes.getDictionary(op->getContext()))
    os << ' ' << attribute.getName().getValue() << '=' << attribute.getValue();
  for (Type type : {op->getOperand(0).getType(), op->getResult(result).getType()})
    os << ' ' << tensorOf(type).getElementType();
  return key;
}

std::optional<Tensor> Evaluator::draw(Operation *op, unsigned result,
                                      ArrayRef<const Tensor *> operands) {
  RankedTensorType type = tensorOf(op->getResult(result).getType());
  bool isPhilox = cast<aten::RandomOpInterface>(op).getGenerator() == aten::Generator::Philox;
  dist::PlacementAttr placement = dist::getPlacement(op->getResult(0).getType());
  // The runtime reads from the type which part of the whole a rank draws: here it is no claim, but
  // what the op does.
  SmallVector<int64_t> whole(type.getShape());
  SmallVector<SmallVector<Axis>> along(type.getRank());
  for (const Axis &axis : axes) {
    std::optional<dist::AxisPlacement> on = placement ? placement.get(axis.name) : std::nullopt;
    // Ranks that have terms of a sum draw what one device does, and each drops of its own term.
    if (on && !on->isSameOnAllRanks() && !on->isPartialSum() && !(isPhilox && on->isShard()))
      return std::nullopt;
  }
  if (isPhilox && op->hasAttr(dist::kWholeShapeAttr))
    return std::nullopt;
  if (isPhilox && placement)
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      for (StringAttr name : placement.getShardingAxes(dim)) {
        const Axis *axis = findAxis(name);
        if (!axis)
          return std::nullopt;
        along[dim].push_back(*axis);
        whole[dim] *= axis->size;
      }
  // A result of `bernoulli` is row-major, whatever its operand is.
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  std::string key = keyOf(op, result);
  if (!isPhilox && !isa<aten::RngBernoulliOp>(op)) {
    std::optional<SmallVector<int64_t>> found = memoryOrder(op->getOperand(0));
    if (!found)
      return std::nullopt;
    if (!terms.breaks(Lemma::MemoryOrder))
      order = *found;
    // Normal numbers are made in blocks where a tensor is row-major.
    if (isa<aten::RngNormalOp>(op))
      key += llvm::is_sorted(order) ? " row-major" : " permuted";
  }

  Tensor value{makeDims(terms, whole), {}};
  Index place;
  int64_t stride = 1;
  for (int64_t dim : llvm::reverse(order)) {
    place = place + placeIn(value.dims[dim], terms.variables) * stride;
    stride *= whole[dim];
  }
  if (terms.breaks(Lemma::DrawByPlace)) {
    place = Index();
    stride = 1;
  }
  Core core;
  core.key = std::move(key);
  value.meaning =
      terms.apply(core, {operands[1]->meaning, operands[2]->meaning}, {}, place, stride);
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    if (along[dim].empty())
      continue;
    std::optional<Tensor> part = shard(value, dim, along[dim]);
    if (!part)
      return std::nullopt;
    value = std::move(*part);
  }
  value.meaning = terms.normalize(std::move(value.meaning));
  coarsen(terms, value);
  return value;
}

/// Whether all ranks draw what the program of one device would on the same operands.
static bool drawsWhole(Operation *op, ArrayRef<Axis> axes) {
  for (mlir::Value result : op->getResults())
    if (dist::PlacementAttr placement = dist::getPlacement(result.getType()))
      for (const Axis &axis : axes) {
        std::optional<dist::AxisPlacement> on = placement.get(axis.name);
        if (on && !on->isSameOnAllRanks())
          return false;
      }
  if (cast<aten::RandomOpInterface>(op).getGenerator() == aten::Generator::Philox)
    return true;
  std::optional<SmallVector<int64_t>> order = memoryOrder(op->getOperand(0));
  return order && llvm::is_sorted(*order);
}

bool Evaluator::evaluateRandom(Operation *op, ArrayRef<const Tensor *> operands,
                               std::vector<Tensor> &results) {
  // Seed and offset are numbers.
  if (op->getNumOperands() != 3 || !operands[1]->dims.empty() || !operands[2]->dims.empty())
    return false;
  auto take = [&](std::optional<Tensor> value) { return append(std::move(value), results); };
  if (auto dropout = dyn_cast<aten::RngNativeDropoutOp>(op)) {
    auto trains = op->getAttrOfType<BoolAttr>("train");
    if (trains && trains.getValue()) {
      Type element = tensorOf(op->getResult(0).getType()).getElementType();
      std::optional<Tensor> noise = draw(op, 0, operands);
      if (noise && terms.breaks(Lemma::DropoutMask))
        return take(*operands[0]) && take(draw(op, 1, operands));
      return noise && take(multiply(*operands[0], *noise, element)) && take(draw(op, 1, operands));
    }
  }
  // Of these the operand only lends its shape.
  auto bernoulli = dyn_cast<aten::RngBernoulliOp>(op);
  if ((bernoulli && op->hasAttr("p")) ||
      isa<aten::RngUniformOp, aten::RngNormalOp, aten::RngExponentialOp, aten::RngRandintOp>(op))
    return take(draw(op, 0, operands));
  // Others are a function of what they take.
  return drawsWhole(op, axes) && evaluateByRule(op, operands, results);
}
