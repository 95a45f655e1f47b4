//===- Verify.cpp - what the verifiers of dist ops share ---------------------===//

#include "dialects/dist/Verify.h"
#include "dialects/dist/Chunks.h"
#include "dialects/dist/Transitions.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave::dist;

static RankedTensorType tensorOf(Type type) {
  return cast<RankedTensorType>(valueTypeOf(type));
}

/// The operands' types next to their results'.
static auto eachTransition(Operation *op) {
  return llvm::zip_equal(op->getOperandTypes(), op->getResultTypes());
}

static InFlightDiagnostic &listAxes(InFlightDiagnostic &diagnostic, ArrayRef<StringAttr> axes) {
  diagnostic << "[";
  llvm::interleave(
      axes, [&](StringAttr axis) { diagnostic << '"' << axis.getValue() << '"'; },
      [&] { diagnostic << ", "; });
  return diagnostic << "]";
}

LogicalResult cleave::dist::verifyAxes(const Redistribution &what) {
  if (what.axes.empty())
    return what.op->emitOpError("expects at least one mesh axis");
  llvm::StringSet<> seen;
  for (StringAttr axis : what.axes)
    if (!seen.insert(axis.getValue()).second)
      return what.op->emitOpError("lists mesh axis '") << axis.getValue() << "' twice";
  return success();
}

LogicalResult cleave::dist::verifyResults(Operation *op) {
  if (op->getNumOperands() == 0)
    return op->emitOpError("expects at least one operand");
  if (op->getNumResults() != op->getNumOperands())
    return op->emitOpError("expects one result for each of its ")
           << op->getNumOperands() << " operands, found " << op->getNumResults();
  auto isFuture = llvm::IsaPred<FutureType>;
  if (llvm::any_of(op->getResultTypes(), isFuture) && !llvm::all_of(op->getResultTypes(), isFuture))
    return op->emitOpError("expects futures as all results or as none: the coalesced form is one "
                           "communication");
  return success();
}

LogicalResult cleave::dist::verifyReduction(Operation *op, Reduction reduction) {
  for (Type type : op->getOperandTypes()) {
    Type element = tensorOf(type).getElementType();
    if (isReducible(reduction, element))
      continue;
    InFlightDiagnostic diagnostic = op->emitOpError("cannot reduce values of type ")
                                    << type << " by '" << stringifyReduction(reduction)
                                    << "', which takes ";
    if (isa<ComplexType>(element) && isReducible(reduction, Float32Type::get(op->getContext())))
      return diagnostic << "real numbers";
    if (reduction == Reduction::Avg || reduction == Reduction::PremulSum)
      return diagnostic << "floating-point numbers";
    if (isReducible(Reduction::BitAnd, element))
      return diagnostic << "numbers; booleans have 'band', 'bor' and 'bxor'";
    return diagnostic << "integers and booleans";
  }
  return success();
}

LogicalResult cleave::dist::verifyDim(Operation *op, StringRef name, int64_t dim) {
  for (Type type : op->getOperandTypes())
    if (dim < 0 || dim >= tensorOf(type).getRank())
      return op->emitOpError("expects `")
             << name << "` to be a dimension of " << type << ", found " << dim;
  return success();
}

LogicalResult cleave::dist::verifyShapes(const Redistribution &what) {
  for (auto [from, to] : eachTransition(what.op)) {
    RankedTensorType source = tensorOf(from), destination = tensorOf(to);
    SmallVector<int64_t> expected(source.getShape());
    // Which sizes these may have is the mesh's to say.
    if (source.getRank() == destination.getRank())
      for (std::optional<int64_t> dim : {what.gathered, what.scattered})
        if (dim)
          expected[*dim] = destination.getDimSize(*dim);
    if (destination.getShape() != ArrayRef<int64_t>(expected) ||
        destination.getElementType() != source.getElementType()) {
      InFlightDiagnostic diagnostic = what.op->emitOpError("expects a result of shape [");
      for (int64_t dim = 0; dim < source.getRank(); ++dim) {
        diagnostic << (dim ? ", " : "");
        if (dim == what.gathered || dim == what.scattered)
          diagnostic << "?";
        else
          diagnostic << source.getDimSize(dim);
      }
      return diagnostic << "] and element type " << source.getElementType() << ", found " << to;
    }
    if (what.gathered && what.gathered == what.scattered && source != destination &&
        source.getShape() != destination.getShape())
      return what.op->emitOpError("expects a result of the operand's shape where it splits and "
                                  "concatenates one dimension, found ")
             << to;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

/// Encodings are placements, on both types or on none; `typed` says which.
static LogicalResult verifyEncodings(const Redistribution &what, ArrayRef<Type> types,
                                     bool &typed) {
  for (Type type : types) {
    Attribute encoding = tensorOf(type).getEncoding();
    if (encoding && !isa<PlacementAttr>(encoding))
      return what.op->emitOpError("expects a placement (#dist.on) or no encoding, found ") << type;
    PlacementAttr placement = getPlacement(type);
    if (placement && placement.getMesh() != what.mesh)
      return what.op->emitOpError("runs over mesh ")
             << what.mesh << ", but a type is on mesh " << placement.getMesh() << ": " << type;
  }
  typed = bool(getPlacement(types.front()));
  for (Type type : types.drop_front())
    if (bool(getPlacement(type)) != typed)
      return what.op->emitOpError("expects placements on operand and result or on neither, found ")
             << types.front() << " and " << type;
  return success();
}

/// `axes` are, in this order, the minor ones of those that shard dimension `dim` of the type.
static LogicalResult verifyShardingOrder(const Redistribution &what, Type type, int64_t dim,
                                         ArrayRef<StringAttr> axes) {
  SmallVector<StringAttr> sharding = getPlacement(type).getShardingAxes(dim);
  if (ArrayRef(sharding).take_back(axes.size()) == axes)
    return success();
  InFlightDiagnostic diagnostic = what.op->emitOpError("expects the axes that shard dimension ")
                                  << dim << " major first: ";
  return listAxes(diagnostic, ArrayRef(sharding).take_back(axes.size()));
}

static ShapeEffect effectOf(const Redistribution &what) {
  if (what.gathered)
    return what.scattered ? ShapeEffect::Exchange : ShapeEffect::Gather;
  return what.scattered ? ShapeEffect::Scatter : ShapeEffect::Same;
}

/// An error that says what the op takes and which ops to use instead.
static LogicalResult refuse(const Redistribution &what, StringAttr axis,
                            const AxisPlacement &source, const AxisPlacement &destination) {
  StringRef name = what.op->getName().stripDialect();
  InFlightDiagnostic diagnostic = what.op->emitOpError();
  const Transition *row = findTransition(name, source.kind, destination.kind);
  if (row && row->reduction == ReductionRule::Own) {
    diagnostic << "reduces " << source << " by '" << stringifyReduction(*what.reduction)
               << "' along axis '" << axis.getValue()
               << "': a pending reduction requires its own, '"
               << stringifyReduction(source.reduction) << "'";
    return diagnostic;
  }
  diagnostic << "cannot take " << source << " to " << destination << " along axis '"
             << axis.getValue() << "'";
  std::string instead =
      source == destination ? "" : suggestOps(name, source, destination, effectOf(what));
  if (source.isSameOnAllRanks() && source == destination)
    diagnostic << ": the value is the same on all ranks already";
  else if (!instead.empty())
    diagnostic << ": use " << instead;
  diagnostic << " (" << what.op->getName() << " takes " << describeTransitions(name) << ")";
  return diagnostic;
}

/// Both types have placements on the same axes.
static LogicalResult verifySameAxes(const Redistribution &what, Type from, Type to) {
  auto nameOf = [](const AxisEntry &entry) { return entry.axis; };
  if (llvm::equal(llvm::map_range(getPlacement(from).getEntries(), nameOf),
                  llvm::map_range(getPlacement(to).getEntries(), nameOf)))
    return success();
  return what.op->emitOpError("expects placements on the same axes, found ")
         << from << " and " << to;
}

LogicalResult cleave::dist::verifyOtherAxes(const Redistribution &what, Type from, Type to) {
  bool typed;
  if (failed(verifyEncodings(what, {from, to}, typed)))
    return failure();
  if (!typed)
    return success();
  if (failed(verifySameAxes(what, from, to)))
    return failure();
  for (const AxisEntry &entry : getPlacement(from).getEntries()) {
    AxisPlacement after = *getPlacement(to).get(entry.axis.getValue());
    if (llvm::is_contained(what.axes, entry.axis) || after == entry.placement)
      continue;
    InFlightDiagnostic diagnostic = what.op->emitOpError("does not run along axis '")
                                    << entry.axis.getValue() << "', which must stay "
                                    << entry.placement << ", found " << after;
    if (after.isShard(entry.placement.dim) && entry.placement.isShard())
      diagnostic << ": of axes that shard one dimension the minor one is gathered first and "
                    "scattered last";
    return diagnostic;
  }
  return success();
}

/// One operand and its result.
static LogicalResult verifyTransition(const Redistribution &what, Type from, Type to) {
  bool typed;
  if (failed(verifyEncodings(what, {from, to}, typed)))
    return failure();
  if (!typed)
    return success();
  PlacementAttr source = getPlacement(from), destination = getPlacement(to);
  if (failed(verifySameAxes(what, from, to)))
    return failure();

  StringRef name = what.op->getName().stripDialect();
  SmallVector<StringAttr> axes; // those that the types mention
  for (StringAttr axis : what.axes) {
    if (!source.get(axis.getValue()))
      continue;
    AxisPlacement a = *source.get(axis.getValue()), b = *destination.get(axis.getValue());
    const Transition *row = findTransition(name, a.kind, b.kind);
    if (!row || !takesReduction(*row, a, b, what.reduction))
      return refuse(what, axis, a, b);
    if (!axes.empty()) {
      AxisPlacement first = *source.get(axes.front().getValue());
      AxisPlacement second = *destination.get(axes.front().getValue());
      if (first.kind != a.kind || second.kind != b.kind)
        return what.op->emitOpError("makes the same transition on all its axes, found ")
               << first << " to " << second << " along axis '" << axes.front().getValue()
               << "' and " << a << " to " << b << " along axis '" << axis.getValue()
               << "': use one op for each";
    }
    // A type's sharded dimension is the one that the op gathers or scatters.
    std::pair<const AxisPlacement *, std::optional<int64_t>> sides[] = {{&a, what.gathered},
                                                                        {&b, what.scattered}};
    for (auto [placement, dim] : sides)
      if (placement->isShard() && dim && placement->dim != *dim)
        return what.op->emitOpError("works on dimension ")
               << *dim << ", but axis '" << axis.getValue() << "' shards dimension "
               << placement->dim << " of " << (placement == &a ? from : to);
    if (a.isShard() && b.isShard() && a.dim == b.dim)
      return what.op->emitOpError("takes one sharded dimension to another, found ")
             << a << " to " << b << " along axis '" << axis.getValue() << "'";
    axes.push_back(axis);
  }
  if (failed(verifyOtherAxes(what, from, to)))
    return failure();
  if (axes.empty())
    return success();
  std::pair<Type, AxisPlacement> sides[] = {{from, *source.get(axes.front().getValue())},
                                            {to, *destination.get(axes.front().getValue())}};
  for (auto &[type, placement] : sides)
    if (placement.isShard() && failed(verifyShardingOrder(what, type, placement.dim, axes)))
      return failure();
  return success();
}

LogicalResult cleave::dist::verifyPlacements(const Redistribution &what) {
  for (auto [from, to] : eachTransition(what.op))
    if (failed(verifyTransition(what, from, to)))
      return failure();
  return success();
}

LogicalResult cleave::dist::verifyPlacement(const Redistribution &what, Type type,
                                            PlacementKind kind) {
  bool typed;
  if (failed(verifyEncodings(what, {type}, typed)))
    return failure();
  if (!typed)
    return success();
  for (StringAttr axis : what.axes) {
    std::optional<AxisPlacement> placement = getPlacement(type).get(axis.getValue());
    if (placement && placement->kind != kind)
      return what.op->emitOpError("expects ") << stringifyPlacementKind(kind) << " along axis '"
                                              << axis.getValue() << "', found " << type;
  }
  return success();
}

LogicalResult cleave::dist::verifyRedistribution(const Redistribution &what) {
  if (failed(verifyAxes(what)) || failed(verifyResults(what.op)) ||
      (what.reduction && failed(verifyReduction(what.op, *what.reduction))))
    return failure();
  return success(succeeded(verifyShapes(what)) && succeeded(verifyPlacements(what)));
}

//===----------------------------------------------------------------------===//
// With the mesh
//===----------------------------------------------------------------------===//

static InFlightDiagnostic noteMesh(InFlightDiagnostic diagnostic, MeshOp mesh) {
  diagnostic.attachNote(mesh.getLoc()) << "the mesh is defined here";
  return diagnostic;
}

/// Axes that a type names exist; axes of the op that it leaves out have one rank.
static LogicalResult verifyTypeOnMesh(const Redistribution &what, Type type, MeshOp mesh) {
  PlacementAttr placement = getPlacement(type);
  if (!placement)
    return success();
  for (const AxisEntry &entry : placement.getEntries())
    if (!mesh.findAxis(entry.axis.getValue()))
      return noteMesh(what.op->emitOpError("has a type with axis '")
                          << entry.axis.getValue() << "', which mesh " << what.mesh
                          << " does not have: " << type,
                      mesh);
  for (StringAttr axis : what.axes)
    if (!placement.get(axis.getValue()) && mesh.findAxis(axis.getValue()).getSize() != 1)
      return noteMesh(what.op->emitOpError("runs along axis '")
                          << axis.getValue() << "', on which a type has no placement: " << type,
                      mesh);
  return success();
}

/// Gathered and scattered dimensions are what a rank holds of each other.
static LogicalResult verifySizes(const Redistribution &what, Type from, Type to, MeshOp mesh) {
  RankedTensorType source = tensorOf(from), destination = tensorOf(to);
  SmallVector<int64_t> ranks;
  for (StringAttr axis : what.axes) {
    ranks.push_back(mesh.findAxis(axis.getValue()).getSize());
    if (ranks.back() == 0)
      return noteMesh(what.op->emitOpError("changes a shape by the size of axis '")
                          << axis.getValue() << "', which mesh " << what.mesh
                          << " leaves open ('?'); state the size",
                      mesh);
  }
  // On one dimension, lists of equal parts are exchanged.
  if (what.gathered == what.scattered) {
    int64_t total = 1;
    for (int64_t size : ranks)
      total *= size;
    if (source.getDimSize(*what.gathered) % total == 0)
      return success();
    return what.op->emitOpError("splits and concatenates dimension ")
           << *what.gathered << " of " << from << ", which its " << total << " ranks do not divide";
  }
  SmallVector<DimSplit> splits;
  if (what.gathered)
    splits.push_back({source.getDimSize(*what.gathered), destination.getDimSize(*what.gathered)});
  if (what.scattered)
    splits.push_back({destination.getDimSize(*what.scattered), source.getDimSize(*what.scattered)});
  if (someRankHolds(splits, ranks))
    return success();
  InFlightDiagnostic diagnostic = what.op->emitOpError("has no rank that holds ");
  llvm::interleave(
      splits, [&](DimSplit split) { diagnostic << split.local << " of " << split.whole; },
      [&] { diagnostic << " and "; });
  diagnostic << " elements along ";
  listAxes(diagnostic, what.axes);
  diagnostic << " of ";
  llvm::interleave(ranks, [&](int64_t size) { diagnostic << size; }, [&] { diagnostic << " x "; });
  diagnostic << " ranks: the first holds ";
  SmallVector<int64_t> first(ranks.size(), 0);
  llvm::interleave(
      splits, [&](DimSplit split) { diagnostic << chunkOf(split.whole, ranks, first).size; },
      [&] { diagnostic << " and "; });
  return noteMesh(std::move(diagnostic), mesh);
}

LogicalResult cleave::dist::verifyOnMesh(const Redistribution &what,
                                         SymbolTableCollection &symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(what.op, what.mesh);
  if (!mesh)
    return what.op->emitOpError("refers to mesh ")
           << what.mesh << ", which the module does not define";
  for (StringAttr axis : what.axes)
    if (!mesh.findAxis(axis.getValue()))
      return noteMesh(what.op->emitOpError("runs along axis '")
                          << axis.getValue() << "', which mesh " << what.mesh << " does not have",
                      mesh);
  for (TypeRange types :
       {TypeRange(what.op->getOperandTypes()), TypeRange(what.op->getResultTypes())})
    for (Type type : types)
      if (failed(verifyTypeOnMesh(what, type, mesh)))
        return failure();
  if (!what.gathered && !what.scattered)
    return success();
  for (auto [from, to] : eachTransition(what.op))
    if (failed(verifySizes(what, from, to, mesh)))
      return failure();
  return success();
}

LogicalResult cleave::dist::verifyRankOnMesh(const Redistribution &what, StringRef name,
                                             int64_t index, SymbolTableCollection &symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(what.op, what.mesh);
  Builder b(what.op->getContext());
  std::optional<int64_t> ranks =
      mesh.countRanks(b.getArrayAttr(SmallVector<Attribute>(what.axes.begin(), what.axes.end())));
  if (index >= 0 && (!ranks || index < *ranks))
    return success();
  InFlightDiagnostic diagnostic = what.op->emitOpError("expects `")
                                  << name << "` to be the index of a rank along ";
  listAxes(diagnostic, what.axes);
  if (ranks)
    diagnostic << ", 0 to " << *ranks - 1;
  return diagnostic << ", found " << index;
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

unsigned cleave::dist::getElementBits(Type element) {
  if (auto complex = dyn_cast<ComplexType>(element))
    return 2 * getElementBits(complex.getElementType());
  return element.getIntOrFloatBitWidth();
}

int64_t cleave::dist::bytesOf(Type type) {
  RankedTensorType tensor = tensorOf(type);
  return tensor.getNumElements() *
         static_cast<int64_t>(llvm::divideCeil(getElementBits(tensor.getElementType()), 8));
}

int64_t cleave::dist::bytesOf(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    bytes += bytesOf(type);
  return bytes;
}
