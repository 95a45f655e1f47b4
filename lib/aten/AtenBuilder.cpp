//===- AtenBuilder.cpp - makes aten ops, with their result types --------------===//

#include "lib/aten/AtenBuilder.h"
#include "dialects/aten/DTypes.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Call.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Complex.h"
#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Part.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/View.h"
#include "lib/typing/Inference.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::aten;
using aten::Shape;

//===----------------------------------------------------------------------===//
// Any op
//===----------------------------------------------------------------------===//

void AtenBuilder::setContext(Location newLocation, ArrayRef<NamedAttribute> attributes) {
  location = newLocation;
  common.assign(attributes.begin(), attributes.end());
}

Operation *AtenBuilder::create(StringRef name, TypeRange types, ValueRange operands,
                               ArrayRef<NamedAttribute> attributes) {
  OperationState state(location, name);
  state.addTypes(types);
  state.addOperands(operands);
  state.addAttributes(attributes);
  state.addAttributes(common);
  Operation *op = builder.create(state);
  if (frame && !failed && isa<aten::AtenOpInterface>(op)) {
    placement::InferenceOptions options;
    options.like = frame;
    // What is I may be called anything later.
    options.preferInvariant = bool(preferred);
    dist::PlacementAttr preference = preferred ? dist::getPlacement(preferred) : nullptr;
    if (preference && types.size() == 1 &&
        cast<RankedTensorType>(types.front()).getShape() == preferred.getShape())
      options.preferred = preference;
    failed = mlir::failed(placement::placeResults(op, options));
  }
  return op;
}

Value AtenBuilder::call(StringRef callee, ArrayRef<int64_t> shape, Type dtype,
                        ArrayRef<std::pair<StringRef, Value>> operands,
                        ArrayRef<NamedAttribute> arguments) {
  SmallVector<NamedAttribute> all(arguments);
  SmallVector<Value> values;
  for (auto [name, value] : operands) {
    all.push_back(named(name, aten::OperandAttr::get(builder.getContext(), values.size())));
    values.push_back(value);
  }
  return make<aten::CallOp>(
      shape, dtype, values,
      {string("callee", callee), named("args", builder.getDictionaryAttr(all))});
}

NamedAttribute AtenBuilder::named(StringRef name, Attribute value) {
  return builder.getNamedAttr(name, value);
}
NamedAttribute AtenBuilder::integer(StringRef name, int64_t value) {
  return named(name, builder.getI64IntegerAttr(value));
}
NamedAttribute AtenBuilder::integers(StringRef name, ArrayRef<int64_t> values) {
  return named(name, builder.getDenseI64ArrayAttr(values));
}
NamedAttribute AtenBuilder::number(StringRef name, double value) {
  return named(name, builder.getF64FloatAttr(value));
}
NamedAttribute AtenBuilder::boolean(StringRef name, bool value) {
  return named(name, builder.getBoolAttr(value));
}
NamedAttribute AtenBuilder::booleans(StringRef name, ArrayRef<bool> values) {
  return named(name, builder.getDenseBoolArrayAttr(values));
}
NamedAttribute AtenBuilder::string(StringRef name, StringRef value) {
  return named(name, builder.getStringAttr(value));
}
NamedAttribute AtenBuilder::dtype(StringRef name, Type value) {
  return named(name, TypeAttr::get(value));
}
NamedAttribute AtenBuilder::segments(ArrayRef<int32_t> sizes) {
  return named("operandSegmentSizes", builder.getDenseI32ArrayAttr(sizes));
}

//===----------------------------------------------------------------------===//
// Pointwise
//===----------------------------------------------------------------------===//

Shape AtenBuilder::broadcast(Value a, Value b) {
  FailureOr<Shape> shape = aten::broadcastShapes(shapeOf(a), shapeOf(b));
  // Rules combine operands and gradients of one verified op, whose shapes broadcast.
  assert(succeeded(shape));
  return *shape;
}

Value AtenBuilder::promoted(StringRef name, ValueRange operands,
                            ArrayRef<NamedAttribute> attributes, bool floating) {
  Shape shape(shapeOf(operands.front()));
  for (Value operand : operands.drop_front())
    shape = *aten::broadcastShapes(shape, shapeOf(operand));
  Type dtype = aten::resultType(operands);
  if (floating)
    dtype = aten::toFloating(dtype);
  return create(name, RankedTensorType::get(shape, dtype), operands, attributes)->getResult(0);
}

Value AtenBuilder::withScalar(StringRef name, Value a, StringRef argument, Attribute b,
                              bool floating) {
  Type dtype = aten::resultType(a, b);
  if (floating)
    dtype = aten::toFloating(dtype);
  return create(name, RankedTensorType::get(shapeOf(a), dtype), a, named(argument, b))
      ->getResult(0);
}

Value AtenBuilder::add(Value a, Value b) {
  return promoted(aten::AddOp::getOperationName(), {a, b});
}
Value AtenBuilder::sub(Value a, Value b) {
  return promoted(aten::SubOp::getOperationName(), {a, b});
}
Value AtenBuilder::mul(Value a, Value b) {
  return promoted(aten::MulOp::getOperationName(), {a, b});
}
Value AtenBuilder::div(Value a, Value b) {
  return promoted(aten::DivOp::getOperationName(), {a, b}, {}, /*floating=*/true);
}
Value AtenBuilder::pow(Value a, Value b) {
  return promoted(aten::PowOp::getOperationName(), {a, b});
}
Value AtenBuilder::addScalar(Value a, Attribute b) {
  return withScalar(aten::AddScalarOp::getOperationName(), a, "other", b);
}
Value AtenBuilder::subScalar(Value a, Attribute b) {
  return withScalar(aten::SubScalarOp::getOperationName(), a, "other", b);
}
Value AtenBuilder::mulScalar(Value a, Attribute b) {
  return withScalar(aten::MulScalarOp::getOperationName(), a, "other", b);
}
Value AtenBuilder::divScalar(Value a, Attribute b) {
  return withScalar(aten::DivScalarOp::getOperationName(), a, "other", b, /*floating=*/true);
}
Value AtenBuilder::powScalar(Value a, double exponent) {
  return withScalar(aten::PowTensorScalarOp::getOperationName(), a, "exponent", scalar(exponent));
}

Value AtenBuilder::scale(Value a, Attribute by) {
  bool isOne = !by;
  if (auto integer = dyn_cast_or_null<IntegerAttr>(by))
    isOne = integer.getValue().isOne();
  else if (auto real = dyn_cast_or_null<FloatAttr>(by))
    isOne = real.getValueAsDouble() == 1.0;
  return isOne ? a : mulScalar(a, by);
}

Value AtenBuilder::neg(Value a) {
  return unary<aten::NegOp>(a);
}

Value AtenBuilder::conj(Value a) {
  return aten::isComplex(dtypeOf(a)) ? makeLike<aten::ConjPhysicalOp>(a, a) : a;
}

Attribute AtenBuilder::conj(Attribute scalar) {
  auto complex = dyn_cast_or_null<aten::ComplexAttr>(scalar);
  if (!complex)
    return scalar;
  FloatAttr imag =
      FloatAttr::get(complex.getImag().getType(), llvm::neg(complex.getImag().getValue()));
  return aten::ComplexAttr::get(scalar.getContext(), complex.getReal(), imag);
}

Value AtenBuilder::viewAsReal(Value a) {
  Shape shape(shapeOf(a));
  shape.push_back(2);
  return make<aten::ViewAsRealOp>(shape, aten::toReal(dtypeOf(a)), a);
}

Value AtenBuilder::viewAsComplex(Value a) {
  return make<aten::ViewAsComplexOp>(shapeOf(a).drop_back(), aten::toComplex(dtypeOf(a)), a);
}

Value AtenBuilder::part(Value a, int64_t index) {
  return make<aten::SelectOp>(shapeOf(a), aten::toReal(dtypeOf(a)), viewAsReal(a),
                              {integer("dim", rankOf(a)), integer("index", index)});
}

Value AtenBuilder::where(Value condition, Value a, Value b) {
  Shape shape = *aten::broadcastShapes(broadcast(a, b), shapeOf(condition));
  return make<aten::WhereOp>(shape, aten::resultType({a, b}), {condition, a, b});
}

Value AtenBuilder::maskedFill(Value self, Value mask, Attribute value) {
  return make<aten::MaskedFillScalarOp>(broadcast(self, mask), dtypeOf(self), {self, mask},
                                        named("value", value));
}

Value AtenBuilder::keepWhere(Value mask, Value self) {
  return where(mask, self, zeroBeside(self));
}

//===----------------------------------------------------------------------===//
// Made from nothing
//===----------------------------------------------------------------------===//

Value AtenBuilder::zeros(ArrayRef<int64_t> shape, Type elementType) {
  return make<aten::ZerosOp>(shape, elementType, {},
                             {integers("size", shape), dtype("dtype", elementType)});
}

Value AtenBuilder::scalarTensor(double value, Type elementType) {
  return make<aten::ScalarTensorOp>({}, elementType, {},
                                    {number("s", value), dtype("dtype", elementType)});
}

//===----------------------------------------------------------------------===//
// Products and reductions
//===----------------------------------------------------------------------===//

Value AtenBuilder::mm(Value a, Value b) {
  return make<aten::MmOp>({shapeOf(a)[0], shapeOf(b)[1]}, dtypeOf(a), {a, b});
}
Value AtenBuilder::bmm(Value a, Value b) {
  return make<aten::BmmOp>({shapeOf(a)[0], shapeOf(a)[1], shapeOf(b)[2]}, dtypeOf(a), {a, b});
}
Value AtenBuilder::mv(Value a, Value x) {
  return make<aten::MvOp>({shapeOf(a)[0]}, dtypeOf(a), {a, x});
}

Value AtenBuilder::sum(Value a) {
  return make<aten::SumOp>({}, aten::sumType(dtypeOf(a)), a);
}

Value AtenBuilder::sum(Value a, ArrayRef<int64_t> dims, bool keepDim) {
  SmallVector<NamedAttribute, 2> attributes = {integers("dim", dims)};
  if (keepDim)
    attributes.push_back(boolean("keepdim", true));
  return make<aten::SumDimIntListOp>(aten::reduceShape(shapeOf(a), dims, keepDim),
                                     aten::sumType(dtypeOf(a)), a, attributes);
}

Value AtenBuilder::sumTo(Value a, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> from = shapeOf(a);
  if (from == shape)
    return a;
  if (shape.empty())
    return sum(a);
  int64_t leading = from.size() - shape.size();
  Shape dims;
  for (int64_t d = 0; d < int64_t(from.size()); ++d)
    if (d < leading || (shape[d - leading] == 1 && from[d] != 1))
      dims.push_back(d);
  if (!dims.empty())
    a = sum(a, dims, /*keepDim=*/true);
  return leading ? view(a, shape) : a;
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

Value AtenBuilder::t(Value a) {
  Shape shape(llvm::reverse(shapeOf(a)));
  return make<aten::TOp>(shape, dtypeOf(a), a);
}

Value AtenBuilder::transpose(Value a, int64_t dim0, int64_t dim1) {
  Shape shape(shapeOf(a));
  auto wrap = [&](int64_t dim) { return dim < 0 ? dim + int64_t(shape.size()) : dim; };
  if (!shape.empty())
    std::swap(shape[wrap(dim0)], shape[wrap(dim1)]);
  return make<aten::TransposeOp>(shape, dtypeOf(a), a,
                                 {integer("dim0", dim0), integer("dim1", dim1)});
}

Value AtenBuilder::permute(Value a, ArrayRef<int64_t> dims) {
  Shape shape;
  for (int64_t dim : dims)
    shape.push_back(shapeOf(a)[dim]);
  return make<aten::PermuteOp>(shape, dtypeOf(a), a, integers("dims", dims));
}

Value AtenBuilder::view(Value a, ArrayRef<int64_t> shape) {
  if (shapeOf(a) == shape)
    return a;
  return make<aten::ViewOp>(shape, dtypeOf(a), a, integers("size", shape));
}

Value AtenBuilder::reshape(Value a, ArrayRef<int64_t> shape) {
  if (shapeOf(a) == shape || strides.isViewable(a, shape))
    return view(a, shape);
  Value copy = makeLike<aten::CloneOp>(a, a, string("memory_format", "contiguous_format"));
  return make<aten::UnsafeViewOp>(shape, dtypeOf(a), copy, integers("size", shape));
}

Value AtenBuilder::expand(Value a, ArrayRef<int64_t> shape) {
  if (shapeOf(a) == shape)
    return a;
  return make<aten::ExpandOp>(shape, dtypeOf(a), a, integers("size", shape));
}

Value AtenBuilder::unsqueeze(Value a, int64_t dim) {
  Shape shape(shapeOf(a));
  shape.insert(shape.begin() + (dim < 0 ? dim + int64_t(shape.size()) + 1 : dim), 1);
  return make<aten::UnsqueezeOp>(shape, dtypeOf(a), a, integer("dim", dim));
}

Value AtenBuilder::unsqueeze(Value a, ArrayRef<int64_t> dims) {
  Shape sorted(dims);
  llvm::sort(sorted);
  for (int64_t dim : sorted)
    a = unsqueeze(a, dim);
  return a;
}

Value AtenBuilder::squeeze(Value a, int64_t dim) {
  Shape shape(shapeOf(a));
  shape.erase(shape.begin() + (dim < 0 ? dim + int64_t(shape.size()) : dim));
  return make<aten::SqueezeDimOp>(shape, dtypeOf(a), a, integer("dim", dim));
}

Value AtenBuilder::slice(Value a, int64_t dim, int64_t start, int64_t end) {
  Shape shape(shapeOf(a));
  shape[dim] = end - start;
  return make<aten::SliceOp>(shape, dtypeOf(a), a,
                             {integer("dim", dim), integer("start", start), integer("end", end)});
}

Value AtenBuilder::cat(ArrayRef<Value> parts, int64_t dim) {
  Shape shape(shapeOf(parts.front()));
  for (Value part : parts.drop_front())
    shape[dim] += shapeOf(part)[dim];
  return make<aten::CatOp>(shape, dtypeOf(parts.front()), parts, integer("dim", dim));
}

Value AtenBuilder::stack(ArrayRef<Value> parts, int64_t dim) {
  Shape shape(shapeOf(parts.front()));
  shape.insert(shape.begin() + dim, parts.size());
  return make<aten::StackOp>(shape, dtypeOf(parts.front()), parts, integer("dim", dim));
}

Value AtenBuilder::toType(Value a, Type elementType) {
  if (dtypeOf(a) == elementType)
    return a;
  return make<aten::ToCopyOp>(shapeOf(a), elementType, a, dtype("dtype", elementType));
}
