//===- Buckets.cpp - verification of buckets and their users ----------------===//

#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::train;

//===----------------------------------------------------------------------===//
// The type
//===----------------------------------------------------------------------===//

LogicalResult BucketType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 FlatSymbolRefAttr symbol, RankedTensorType flat) {
  if (flat.getRank() == 1 && flat.hasStaticShape() &&
      isa<FloatType, ComplexType>(flat.getElementType()))
    return success();
  return emitError()
         << "expects a flat, statically shaped tensor of a floating-point or complex type for "
         << symbol << ", found " << flat;
}

//===----------------------------------------------------------------------===//
// train.bucket
//===----------------------------------------------------------------------===//

namespace cleave::train {
/// `["a" : tensor<8xf32>, "b" : tensor<4xf32>]`
ParseResult parseMembers(OpAsmParser &parser, ArrayAttr &names, ArrayAttr &types) {
  SmallVector<Attribute> nameList, typeList;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&]() -> ParseResult {
        std::string name;
        Type type;
        if (parser.parseString(&name) || parser.parseColonType(type))
          return failure();
        nameList.push_back(parser.getBuilder().getStringAttr(name));
        typeList.push_back(TypeAttr::get(type));
        return success();
      }))
    return failure();
  names = parser.getBuilder().getArrayAttr(nameList);
  types = parser.getBuilder().getArrayAttr(typeList);
  return success();
}

void printMembers(OpAsmPrinter &printer, Operation *, ArrayAttr names, ArrayAttr types) {
  printer << '[';
  llvm::interleaveComma(llvm::zip_equal(names, types), printer.getStream(), [&](auto member) {
    auto [name, type] = member;
    printer << name << " : " << cast<TypeAttr>(type).getValue();
  });
  printer << ']';
}
} // namespace cleave::train

RankedTensorType BucketOp::getMemberType(unsigned member) {
  return cast<RankedTensorType>(cast<TypeAttr>(getTypes()[member]).getValue());
}

BucketType BucketOp::getBucketType() {
  int64_t size = 0;
  for (unsigned i = 0; i < getTypes().size(); ++i)
    size += getMemberType(i).getNumElements();
  return BucketType::get(getContext(), FlatSymbolRefAttr::get(getSymNameAttr()),
                         RankedTensorType::get({size}, getElement()));
}

int64_t BucketOp::countParts() {
  int64_t parts = 1;
  auto mesh = getScatter()
                  ? SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(*this, getMeshAttr())
                  : dist::MeshOp();
  if (mesh)
    for (StringAttr axis : getScatter()->getAsRange<StringAttr>())
      if (dist::AxisAttr found = mesh.findAxis(axis.getValue()))
        parts *= found.getSize();
  return parts;
}

int64_t BucketOp::getScatteredDim(unsigned member) {
  return getDims() ? (*getDims())[member] : 0;
}

/// R on the axes that are summed over; what waits for the bucket may take it as I.
RankedTensorType BucketOp::getReducedType(unsigned member) {
  RankedTensorType type = getMemberType(member);
  SmallVector<int64_t> shape(type.getShape());
  int64_t dim = getScatteredDim(member);
  if (int64_t parts = countParts(); parts > 1)
    shape[dim] /= parts;
  dist::PlacementAttr placement = dist::getPlacement(type);
  auto reduced = RankedTensorType::get(shape, type.getElementType());
  if (!placement)
    return reduced;
  auto namesOf = [](std::optional<ArrayAttr> list) {
    return list ? llvm::to_vector(list->getAsRange<StringAttr>()) : SmallVector<StringAttr>();
  };
  for (StringAttr axis : namesOf(getAxes()))
    if (placement.get(axis))
      placement = placement.with(axis, dist::AxisPlacement::replicate());
  // The scattering axes divide what the others have left.
  int64_t order = placement.getShardingAxes(dim).size();
  for (StringAttr axis : namesOf(getScatter()))
    if (placement.get(axis))
      placement = placement.with(axis, dist::AxisPlacement::shard(dim, order++));
  return dist::withPlacement(reduced, placement);
}

std::optional<unsigned> BucketOp::findMember(StringRef name) {
  for (auto [index, member] : llvm::enumerate(getNames().getAsRange<StringAttr>()))
    if (member.getValue() == name)
      return index;
  return std::nullopt;
}

/// Members are scattered along their first dimensions unless `dims` says otherwise.
LogicalResult BucketOp::canonicalize(BucketOp op, PatternRewriter &rewriter) {
  if (!op.getDims() || llvm::any_of(*op.getDims(), [](int64_t dim) { return dim != 0; }))
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.removeDimsAttr(); });
  return success();
}

LogicalResult BucketOp::verify() {
  // 1.
  if (getNames().empty())
    return emitOpError("expects at least one member");
  if (getNames().size() != getTypes().size())
    return emitOpError("expects a type for each member, found ")
           << getTypes().size() << " for " << getNames().size();
  llvm::StringSet<> names;
  for (StringAttr name : getNames().getAsRange<StringAttr>()) {
    if (name.getValue().empty())
      return emitOpError("has a member without a name");
    if (!names.insert(name.getValue()).second)
      return emitOpError("has two members named '") << name.getValue() << "'";
  }
  // 2.
  for (auto [name, type] : llvm::zip_equal(getNames(), getTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(cast<TypeAttr>(type).getValue());
    if (!tensor || !tensor.hasStaticShape() ||
        !isa<FloatType, ComplexType>(tensor.getElementType()))
      return emitOpError(
                 "expects statically shaped tensors of a floating-point or complex type, found ")
             << type << " for " << name;
    if (isa<ComplexType>(tensor.getElementType()) != isa<ComplexType>(getElement()))
      return emitOpError("expects complex members only where its element type is complex, found ")
             << type << " for " << name << " in a bucket of " << getElement();
  }
  if (!isa<FloatType, ComplexType>(getElement()))
    return emitOpError("expects a floating-point or complex element type, found ") << getElement();
  // 3. (the mesh itself is checked in verifySymbolUses)
  if (bool(getMesh()) != bool(getAxes()))
    return emitOpError("expects a mesh together with axes of it");
  SmallVector<StringAttr> axes;
  for (std::optional<ArrayAttr> list : {getAxes(), getScatter()})
    if (list)
      llvm::append_range(axes, list->getAsRange<StringAttr>());
  if (getMesh() && axes.empty())
    return emitOpError("expects at least one mesh axis");
  llvm::StringSet<> seen;
  for (StringAttr axis : axes)
    if (!seen.insert(axis.getValue()).second)
      return emitOpError("lists mesh axis '") << axis.getValue() << "' twice";
  if (getDims() && (!getScatter() || getDims()->size() != getNames().size() ||
                    llvm::any_of(*getDims(), [](int64_t dim) { return dim < 0; })))
    return emitOpError("expects `dims` with `scatter`, with a dimension for each of ")
           << getNames().size() << " members, found [" << *getDims() << "]";
  // 5.
  for (auto [name, type] : llvm::zip_equal(getNames(), getTypes())) {
    auto placement = dist::getPlacement(cast<TypeAttr>(type).getValue());
    for (StringAttr axis : placement ? ArrayRef(axes) : ArrayRef<StringAttr>()) {
      std::optional<dist::AxisPlacement> entry = placement.get(axis);
      if (entry && !entry->isPartialSum())
        return emitOpError("reduces over axis ") << axis << ", on which " << name << " is "
                                                 << toString(*entry) << ", not a pending sum";
    }
  }
  // 6. (4. in verifySymbolUses)
  if (getAccumulations() && *getAccumulations() < 1)
    return emitOpError("expects a positive number of accumulations, found ") << *getAccumulations();
  return success();
}

LogicalResult BucketOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!getMesh())
    return success();
  auto mesh = symbols.lookupNearestSymbolFrom<dist::MeshOp>(*this, getMeshAttr());
  if (!mesh)
    return emitOpError("refers to mesh ") << getMeshAttr() << ", which the module does not define";
  auto atMesh = [&](InFlightDiagnostic diagnostic) {
    diagnostic.attachNote(mesh.getLoc()) << "the mesh is defined here";
    return failure();
  };
  for (std::optional<ArrayAttr> list : {getAxes(), getScatter()})
    for (StringAttr axis : list ? list->getAsRange<StringAttr>()
                                : ArrayAttr::get(getContext(), {}).getAsRange<StringAttr>())
      if (!mesh.findAxis(axis.getValue()))
        return atMesh(emitOpError("reduces over axis '")
                      << axis.getValue() << "', which mesh " << getMeshAttr() << " does not have");
  // 4.
  if (!getScatter())
    return success();
  int64_t parts = countParts();
  if (parts == 0)
    return atMesh(emitOpError("scatters over axes ")
                  << *getScatter() << ", one of which has an open size");
  for (unsigned i = 0; i < getTypes().size(); ++i) {
    int64_t dim = getScatteredDim(i);
    if (dim >= getMemberType(i).getRank() || getMemberType(i).getDimSize(dim) % parts != 0)
      return atMesh(emitOpError("cannot divide dimension ")
                    << dim << " of " << getNames()[i] << ", " << getMemberType(i) << ", into "
                    << parts << " parts");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// What contribute, reduce_bucket and wait_bucket share
//===----------------------------------------------------------------------===//

/// A bucket value that two ops took would be in two states at once.
static LogicalResult verifyLinear(Operation *op, Value bucket) {
  if (bucket.hasOneUse())
    return success();
  for (Operation *other : bucket.getUsers())
    if (other != op) {
      InFlightDiagnostic diagnostic = op->emitOpError(
          "uses a bucket value that another op uses too; a bucket value has exactly one user");
      diagnostic.attachNote(other->getLoc()) << "taken here";
      return diagnostic;
    }
  return op->emitOpError("uses a bucket value twice");
}

/// The definition of a bucket value's bucket, if the type says what it says.
static FailureOr<BucketOp> findBucket(Operation *op, BucketType type,
                                      SymbolTableCollection &symbols) {
  auto bucket = symbols.lookupNearestSymbolFrom<BucketOp>(op, type.getSymbol());
  if (!bucket)
    return op->emitOpError("refers to bucket ")
           << type.getSymbol() << ", which the module does not define";
  if (bucket.getBucketType() != type) {
    InFlightDiagnostic diagnostic = op->emitOpError("has a bucket of type ") << type;
    diagnostic.attachNote(bucket.getLoc())
        << "the bucket's values have type " << bucket.getBucketType();
    return diagnostic;
  }
  return bucket;
}

static bool contains(std::optional<ArrayAttr> axes, StringAttr axis) {
  return axes && llvm::is_contained(*axes, axis);
}

/// Whether `type` is what reducing a member gives.
static bool isReduced(Type type, BucketOp bucket, unsigned member) {
  RankedTensorType expected = bucket.getReducedType(member);
  if (dist::erasePlacement(type) != dist::erasePlacement(expected))
    return false;
  dist::PlacementAttr wanted = dist::getPlacement(expected), found = dist::getPlacement(type);
  if (!wanted || !found)
    return !wanted && !found;
  return wanted.getMesh() == found.getMesh() &&
         wanted.getEntries().size() == found.getEntries().size() &&
         llvm::all_of(wanted.getEntries(), [&](const dist::AxisEntry &entry) {
           std::optional<dist::AxisPlacement> now = found.get(entry.axis);
           if (now && contains(bucket.getAxes(), entry.axis))
             return now->isSameOnAllRanks();
           return now == entry.placement;
         });
}

/// `member` is null if the bucket has no member `name`.
static LogicalResult verifyMember(Operation *op, BucketOp bucket, StringRef name, Type member,
                                  Type gradient) {
  if (member && gradient == member)
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError("contributes ")
                                  << gradient << " to '" << name << "'";
  auto &note = diagnostic.attachNote(bucket.getLoc());
  if (member)
    note << "the bucket has it with type " << member;
  else
    note << "the bucket has no member with that name";
  return diagnostic;
}

LogicalResult ContributeOp::verify() {
  // 2. (1. in verifySymbolUses)
  return verifyLinear(*this, getBucket());
}

/// The product that the op adds.
static RankedTensorType getProductType(ContributeMmOp op, RankedTensorType member) {
  int64_t rows = op.getSelf().getType().getDimSize(0);
  int64_t columns = op.getMat2().getType().getDimSize(1);
  auto product = RankedTensorType::get(op.getTransposed() ? ArrayRef<int64_t>{columns, rows}
                                                          : ArrayRef<int64_t>{rows, columns},
                                       op.getSelf().getType().getElementType());
  // Which placement a product of two placed matrices has is a matter of the function.
  return member ? dist::withPlacement(product, dist::getPlacement(member)) : product;
}

/// Verifies all contributions that follow each other, at the first of them: what the bucket says
/// of its members is read once.
static LogicalResult verifyContributions(Operation *op, TypedValue<BucketType> value,
                                         SymbolTableCollection &symbols) {
  if (isa_and_nonnull<ContributeOp, ContributeMmOp>(value.getDefiningOp()))
    return success();
  FailureOr<BucketOp> bucket = findBucket(op, value.getType(), symbols);
  if (failed(bucket))
    return failure();
  llvm::StringMap<RankedTensorType> members;
  for (auto [index, name] : llvm::enumerate(bucket->getNames().getAsRange<StringAttr>()))
    members[name.getValue()] = bucket->getMemberType(index);
  while (true) {
    LogicalResult result = success();
    if (auto product = dyn_cast<ContributeMmOp>(op)) {
      RankedTensorType member = members.lookup(product.getMember());
      result =
          verifyMember(op, *bucket, product.getMember(), member, getProductType(product, member));
    } else if (auto contribution = dyn_cast<ContributeOp>(op)) {
      result = verifyMember(op, *bucket, contribution.getMember(),
                            members.lookup(contribution.getMember()),
                            contribution.getGradient().getType());
    } else {
      return success();
    }
    // What else takes the value is no valid program (verifyLinear).
    if (failed(result) || !op->getResult(0).hasOneUse())
      return result;
    op = *op->getResult(0).user_begin();
  }
}

LogicalResult ContributeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyContributions(*this, getBucket(), symbols);
}

LogicalResult ContributeMmOp::verify() {
  // 1.
  RankedTensorType self = getSelf().getType(), mat2 = getMat2().getType();
  Type element = getBucket().getType().getFlat().getElementType();
  if (self.getRank() != 2 || mat2.getRank() != 2 || self.getDimSize(1) != mat2.getDimSize(0) ||
      self.getElementType() != element || mat2.getElementType() != element)
    return emitOpError("expects matrices M x K and K x N of ")
           << element << ", found " << self << " and " << mat2;
  // 3. (2. in verifySymbolUses)
  return verifyLinear(*this, getBucket());
}

int64_t ContributeMmOp::countFlops() {
  return 2 * getSelf().getType().getNumElements() * getMat2().getType().getDimSize(1);
}

LogicalResult ContributeMmOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyContributions(*this, getBucket(), symbols);
}

LogicalResult ReduceBucketOp::verify() {
  return verifyLinear(*this, getBucket());
}

LogicalResult ReduceBucketOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return findBucket(*this, getBucket().getType(), symbols);
}

LogicalResult WaitBucketOp::verify() {
  return verifyLinear(*this, getBucket());
}

LogicalResult WaitBucketOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<BucketOp> bucket = findBucket(*this, getBucket().getType(), symbols);
  if (failed(bucket))
    return failure();
  unsigned count = bucket->getNames().size();
  bool matches = getNumResults() == count;
  for (unsigned i = 0; matches && i < count; ++i)
    matches = isReduced(getResult(i).getType(), *bucket, i);
  if (matches)
    return success();
  InFlightDiagnostic diagnostic = emitOpError("expects a result for each of the bucket's ")
                                  << count << " members, found types " << getResultTypes();
  diagnostic.attachNote(bucket->getLoc()) << "the bucket is defined here";
  return diagnostic;
}
