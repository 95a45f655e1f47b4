//===- RepairValues.cpp - what a changed op makes, and of what --------------===//
//
// Where an op takes a value of another shape, so does what takes its result. Which shape an op
// makes of others its verifier says.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Placed.h"
#include "lib/prove/Repair.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

using Shape = SmallVector<int64_t>;

/// What both broadcast to; nothing if they do not.
static std::optional<Shape> broadcast(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  Shape shape(std::max(a.size(), b.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t one = i < a.size() ? a[a.size() - 1 - i] : 1,
            other = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (one != other && one != 1 && other != 1)
      return std::nullopt;
    shape[shape.size() - 1 - i] = one == 1 ? other : one;
  }
  return shape;
}

/// What communication makes of its operand.
static std::vector<Shape> shapesOfCommunication(Operation *op, ArrayRef<Axis> axes) {
  RankedTensorType type = tensorOf(op->getOperand(0).getType());
  auto over = op->getAttrOfType<ArrayAttr>("axes");
  if (!type || !over)
    return {};
  int64_t ranks = 1;
  for (StringRef name : over.getAsValueRange<StringAttr>())
    for (const Axis &axis : axes)
      if (axis.name == name)
        ranks *= axis.size;
  Shape shape(type.getShape());
  bool fits = true;
  auto resize = [&](StringRef attribute, bool isLarger) {
    auto dim = op->getAttrOfType<IntegerAttr>(attribute);
    if (!dim || dim.getInt() < 0 || dim.getInt() >= type.getRank()) {
      fits = false;
      return;
    }
    int64_t &size = shape[dim.getInt()];
    fits &= isLarger || size % ranks == 0;
    size = isLarger ? size * ranks : size / ranks;
  };
  if (isa<dist::AllGatherOp>(op))
    resize("dim", true);
  else if (isa<dist::ReduceScatterOp>(op))
    resize("dim", false);
  if (isa<dist::AllToAllOp>(op)) {
    resize("split", false);
    resize("concat", true);
  }
  return fits ? std::vector<Shape>{shape} : std::vector<Shape>();
}

/// Shapes that an op with these operands may make: those of pointwise ops, reductions, transposes
/// and products.
static std::vector<Shape> shapesOf(Operation *op, ArrayRef<Axis> axes) {
  if (op->getName().getDialectNamespace() == "dist" && op->getNumOperands() > 0)
    return shapesOfCommunication(op, axes);
  std::vector<Shape> shapes;
  std::optional<Shape> all = Shape();
  for (mlir::Value operand : op->getOperands())
    if (RankedTensorType type = tensorOf(operand.getType()))
      all = all ? broadcast(*all, type.getShape()) : std::nullopt;
  if (all)
    shapes.push_back(*all);
  RankedTensorType first =
      op->getNumOperands() ? tensorOf(op->getOperand(0).getType()) : RankedTensorType();
  if (!first)
    return shapes;
  Shape shape(first.getShape());
  shapes.push_back(shape);
  shapes.push_back(Shape(llvm::reverse(shape)));
  RankedTensorType last = tensorOf(op->getOperands().back().getType());
  if (last && last.getRank() > 0 && shape.size() > 1) {
    Shape product(shape);
    product.back() = last.getShape().back();
    shapes.push_back(product);
  }
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    Shape other(shape);
    other[dim] = 1;
    shapes.push_back(other);
    other = shape;
    other.erase(other.begin() + dim);
    shapes.push_back(other);
  }
  return shapes;
}

/// What an op makes of values whose shapes may be others than those of its operands, and if it is
/// changed; nothing where the verifier refuses that.
std::vector<Tensor> Repair::evaluateOn(Operation *op, ArrayRef<const Tensor *> operands,
                                       llvm::function_ref<void(Operation *)> change) {
  SmallVector<std::pair<unsigned, RankedTensorType>> others;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    RankedTensorType type = tensorOf(op->getOperand(i).getType());
    if (!type || hasShape(*operand, type.getShape(), terms.variables))
      continue;
    Shape shape;
    for (const auto &dim : operand->dims)
      shape.push_back(sizeOf(dim, terms.variables));
    others.push_back(
        {unsigned(i), RankedTensorType::get(shape, type.getElementType(), type.getEncoding())});
  }
  if (others.empty() && !change)
    return evaluate(op, operands);
  // Behind the op, so that it is in the module whose mesh it may name.
  Block given;
  OpBuilder behind(op->getContext());
  behind.setInsertionPointAfter(op);
  Operation *other = behind.clone(*op);
  for (auto [i, type] : others)
    other->setOperand(i, given.addArgument(type, op->getLoc()));
  if (change)
    change(other);
  std::vector<Tensor> made;
  ScopedDiagnosticHandler silent(op->getContext(), [](Diagnostic &) { return success(); });
  auto isOp = [&] { return succeeded(verify(other)); };
  bool isFound = isOp();
  if (RankedTensorType type = other->getNumResults() == 1 ? tensorOf(other->getResult(0).getType())
                                                          : RankedTensorType();
      !isFound && !isByValues && type && other->getResult(0).getType() == Type(type))
    for (const Shape &shape : shapesOf(other, prover.axes)) {
      other->getResult(0).setType(
          RankedTensorType::get(shape, type.getElementType(), type.getEncoding()));
      if ((isFound = isOp()))
        break;
    }
  if (isFound)
    made = evaluate(other, operands);
  other->erase();
  return made;
}

/// Tries a value as an operand, and as that of all users of what is given now.
bool Repair::tryValue(Operation *op, unsigned operand, const Tensor &value, Kind kind,
                      const Twine &what, Use use) {
  for (bool isForAll : {false, true}) {
    if (isForAll && op->getOperand(operand).hasOneUse())
      break;
    auto changed = withOperand(op, operand, value, isForAll);
    if (changed && use(std::move(*changed), kind, what + " operand " + Twine(operand)))
      return true;
  }
  return false;
}

/// Of operands that are communicated: summed over ranks, or in another way.
bool Repair::tryCommunication(Operation *op, bool isSum, Use use) {
  auto mesh = dist::getMesh(prover.local);
  if (!mesh || !mayGain(counterparts.has(op), counterparts.has(op)))
    return false;
  auto symbol = FlatSymbolRefAttr::get(mesh.getSymNameAttr());
  Builder attributes(op->getContext());
  for (OpOperand &operand : op->getOpOperands()) {
    RankedTensorType type = tensorOf(operand.get().getType());
    if (!type || !isa<FloatType>(type.getElementType()) ||
        isa<dist::FutureType>(operand.get().getType()))
      continue;
    unsigned number = operand.getOperandNumber();
    const Tensor &given = valueOf(operand.get());
    for (const Axis &axis : prover.axes) {
      if (axis.size == 1)
        continue;
      if (isSum) {
        // What all have alike, or have parts of, is no term of a sum.
        if (!mayBeTermOf(given, axis.digits))
          continue;
        Tensor total = given;
        total.meaning = terms.sum(std::move(total.meaning), axis.digits);
        total.rows.reset();
        if (tryValue(op, number, total, Kind::Sum, "with the sum over '" + axis.name + "' of", use))
          return true;
        continue;
      }
      if (axis.isOpen())
        continue;
      ArrayAttr axes = attributes.getStrArrayAttr(StringRef(axis.name));
      auto tryOp = [&](StringRef name, ArrayRef<int64_t> shape, ArrayRef<NamedAttribute> own) {
        if (isOver())
          return false;
        OperationState state(op->getLoc(), ("dist." + name).str(), operand.get(),
                             RankedTensorType::get(shape, type.getElementType()), own);
        state.addAttribute("mesh", symbol);
        state.addAttribute("axes", axes);
        OpBuilder behind(op->getContext());
        behind.setInsertionPointAfter(op);
        Operation *communication = behind.create(state);
        std::vector<Tensor> made;
        ScopedDiagnosticHandler silent(op->getContext(), [](Diagnostic &) { return success(); });
        if (succeeded(verify(communication)))
          made = evaluate(communication, &given);
        communication->erase();
        return made.size() == 1 &&
               tryValue(op, number, made.front(), Kind::Communication,
                        "with '" + StringRef("dist.") + name + "' over '" + axis.name + "' of",
                        use);
      };
      auto numbered = [&](StringRef name, int64_t value) {
        return attributes.getNamedAttr(name, attributes.getI64IntegerAttr(value));
      };
      Shape shape(type.getShape());
      auto greatest = dist::ReductionAttr::get(op->getContext(), dist::Reduction::Max);
      if (tryOp("all_reduce", shape, attributes.getNamedAttr("reduction", greatest)))
        return true;
      for (int64_t by : {1, -1})
        if (tryOp("shift", shape,
                  {numbered("by", by), attributes.getNamedAttr("wrap", attributes.getUnitAttr())}))
          return true;
      for (int64_t dim = 0; dim < type.getRank(); ++dim) {
        Shape whole(shape);
        whole[dim] *= axis.size;
        if (tryOp("all_gather", whole, numbered("dim", dim)))
          return true;
        if (shape[dim] % axis.size)
          continue;
        Shape part(shape);
        part[dim] /= axis.size;
        auto sum = dist::ReductionAttr::get(op->getContext(), dist::Reduction::Sum);
        if (tryOp("reduce_scatter", part,
                  {attributes.getNamedAttr("reduction", sum), numbered("dim", dim)}))
          return true;
        for (int64_t concat = 0; concat < type.getRank(); ++concat) {
          Shape swapped(part);
          swapped[concat] *= axis.size;
          if (concat != dim &&
              tryOp("all_to_all", swapped, {numbered("split", dim), numbered("concat", concat)}))
            return true;
        }
      }
    }
  }
  return false;
}
