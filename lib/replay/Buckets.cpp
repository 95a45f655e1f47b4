//===- Buckets.cpp - gradients that are reduced together ---------------------===//
//
// A bucket is a value of each of its members. Its `train.bucket` is of the signature: it says how
// members lie before they are reduced, and over which axes that is.
//
//===----------------------------------------------------------------------===//

#include "dialects/train/Train.h"
#include "lib/replay/Replayer.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;
using train::BucketOp;
using train::BucketType;
using train::RoleAttr;

BucketOp cleave::replay::bucketOf(func::FuncOp function, Type type) {
  auto bucket = dyn_cast<BucketType>(type);
  return bucket ? SymbolTable::lookupNearestSymbolFrom<BucketOp>(function, bucket.getSymbol())
                : BucketOp();
}

static StringRef nameOf(BucketOp bucket, unsigned member) {
  return cast<StringAttr>(bucket.getNames()[member]).getValue();
}

SmallVector<Held> cleave::replay::heldBy(func::FuncOp function, Type type, RoleAttr role) {
  BucketOp bucket = bucketOf(function, type);
  if (!bucket || !role)
    return {{role, type, nullptr}};
  SmallVector<Held> members;
  for (unsigned i = 0; i < bucket.getNames().size(); ++i)
    members.push_back({RoleAttr::get(role.getContext(), role.getKind(), ::nameOf(bucket, i)),
                       bucket.getMemberType(i), bucket.getSymNameAttr()});
  return members;
}

/// Makes of a bucket what the op does; false if it is of another form.
bool Replay::walkBucket(Program &program, Operation *op) {
  mlir::Value used = *llvm::find_if(
      op->getOperands(), [](mlir::Value operand) { return isa<BucketType>(operand.getType()); });
  auto found = program.buckets.find(used);
  BucketOp bucket = bucketOf(op->getParentOfType<func::FuncOp>(), used.getType());
  // A bucket value has one user.
  if (!program.isLocal || !bucket || found == program.buckets.end())
    return false;
  Bucket state = std::move(found->second);
  program.buckets.erase(used);
  if (auto wait = dyn_cast<train::WaitBucketOp>(op)) {
    for (auto [i, result] : llvm::enumerate(wait.getGradients())) {
      auto member = state.members.find(::nameOf(bucket, i).str());
      if (member == state.members.end() ||
          bucket.getElement() != tensorOf(result.getType()).getElementType())
        return false;
      std::optional<Tensor> reduced =
          ops.reduceMember(member->second, bucket.getAxes().value_or(ArrayAttr()),
                           bucket.getScatter().value_or(ArrayAttr()), bucket.getScatteredDim(i));
      if (!reduced)
        return false;
      program.values[result] = std::move(*reduced);
    }
    return true;
  }
  if (isa<train::ReduceBucketOp>(op)) {
    state.isReduced = true;
  } else {
    std::string name = op->getAttrOfType<StringAttr>("member").getValue().str();
    auto member = state.members.find(name);
    std::optional<unsigned> number = bucket.findMember(name);
    // A sum in another type is another sum.
    if (state.isReduced || member == state.members.end() || !number ||
        bucket.getMemberType(*number).getElementType() != bucket.getElement())
      return false;
    std::optional<Tensor> added;
    if (auto contribute = dyn_cast<train::ContributeOp>(op))
      added = program.values[contribute.getGradient()];
    else if (auto product = dyn_cast<train::ContributeMmOp>(op)) {
      added = ops.multiplyMatrices(program.values[product.getSelf()],
                                   program.values[product.getMat2()], bucket.getElement());
      if (added && product.getTransposed())
        std::swap(added->dims[0], added->dims[1]);
    }
    std::optional<Tensor> total = added ? ops.add(member->second, *added) : std::nullopt;
    if (!total)
      return false;
    member->second = std::move(*total);
    state.contributed.insert(name);
  }
  program.buckets[op->getResult(0)] = std::move(state);
  return true;
}

/// The sums that a function returns in a bucket: of all members, and reduced if it is to be.
bool Replay::returnBucket(Program &program, Part part, OpOperand &operand) {
  auto found = program.buckets.find(operand.get());
  BucketOp bucket = bucketOf(part.function, operand.get().getType());
  RoleAttr role = train::getResultRole(part.function, operand.getOperandNumber());
  if (!bucket || !role || found == program.buckets.end())
    return false;
  auto isAlong = [](std::optional<ArrayAttr> axes) { return axes && !axes->empty(); };
  if ((isAlong(bucket.getAxes()) || isAlong(bucket.getScatter())) && !found->second.isReduced)
    return false;
  for (const Held &member : heldBy(part.function, operand.get().getType(), role)) {
    std::string name = member.role.getNameOrEmpty().str();
    if (!found->second.contributed.count(name) ||
        !addResult(program, member.role,
                   {part, operand.getOperandNumber(), found->second.members[name],
                    dist::getPlacement(member.type)}))
      return false;
  }
  program.buckets.erase(operand.get());
  return true;
}
