//===- BucketMeaning.cpp - gradients that are reduced together --------------===//
//
// A bucket is a value of each of its members: the accumulator, and what is contributed to it. Its
// `train.bucket` is part of the signature: it says how members lie before they are reduced, and
// over which axes that is. How the members lie in the buffer no value depends on.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Contraction.h"
#include "dialects/dist/Placed.h"
#include "dialects/train/Train.h"
#include "lib/prove/Prover.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

train::BucketOp cleave::prove::getBucket(Operation *user, Type type) {
  auto bucket = dyn_cast<train::BucketType>(type);
  return bucket ? SymbolTable::lookupNearestSymbolFrom<train::BucketOp>(user, bucket.getSymbol())
                : train::BucketOp();
}

SmallVector<Member> cleave::prove::getMembers(train::BucketOp bucket, Part part,
                                              train::RoleAttr role) {
  SmallVector<Member> members;
  for (auto [i, name] : llvm::enumerate(bucket.getNames().getAsRange<StringAttr>())) {
    auto own = train::RoleAttr::get(bucket.getContext(), role.getKind(), name.getValue());
    members.push_back({name.getValue().str(), own, bucket.getMemberType(i)});
  }
  return members;
}

/// What is added to a member: a gradient, or the product of matrices that is one.
std::optional<Tensor> Prover::contributionOf(Operation *op, Evaluator &evaluator,
                                             const llvm::DenseMap<mlir::Value, Tensor> &values) {
  if (auto contribute = dyn_cast<train::ContributeOp>(op))
    return values.find(contribute.getGradient())->second;
  auto product = cast<train::ContributeMmOp>(op);
  std::optional<Tensor> value =
      evaluator.multiplyMatrices(values.find(product.getSelf())->second,
                                 withOwnDigits(terms, values.find(product.getMat2())->second),
                                 product.getBucket().getType().getFlat().getElementType());
  if (value && product.getTransposed())
    std::swap(value->dims[0], value->dims[1]);
  return value;
}

void Prover::walkBucket(Operation *op, Evaluator &evaluator,
                        llvm::DenseMap<mlir::Value, Tensor> &values, std::string &unknown) {
  auto fail = [&] {
    unknown = ("'" + op->getName().getStringRef() + "' has no meaning for the prover here").str();
  };
  mlir::Value used = *llvm::find_if(op->getOperands(), [](mlir::Value operand) {
    return isa<train::BucketType>(operand.getType());
  });
  train::BucketOp bucket = getBucket(op, used.getType());
  if (auto wait = dyn_cast<train::WaitBucketOp>(op)) {
    const BucketState &state = buckets[used];
    for (auto [i, result] : llvm::enumerate(wait.getGradients())) {
      StringRef name = cast<StringAttr>(bucket.getNames()[i]).getValue();
      auto found = state.members.find(name);
      auto type = cast<RankedTensorType>(result.getType());
      std::optional<Tensor> value;
      // A sum in another type is another sum.
      if (found != state.members.end() && bucket.getElement() == type.getElementType())
        do
          value = evaluator.reduceMember(found->second, bucket.getAxes(), bucket.getScatter(),
                                         bucket.getScatteredDim(i));
        while (splitAxes());
      if (!value) {
        fail();
        value = evaluator.opaque(type);
      }
      values[result] = std::move(*value);
    }
    buckets.erase(used);
    return;
  }
  // The value has no other user.
  BucketState state = std::move(buckets[used]);
  buckets.erase(used);
  mlir::Value result = op->getResult(0);
  values[result] = Tensor();
  if (isa<train::ReduceBucketOp>(op)) {
    state.isReduced = true;
    buckets[result] = std::move(state);
    return;
  }
  StringRef name = op->getAttrOfType<StringAttr>("member").getValue();
  RankedTensorType type = bucket.getMemberType(*bucket.findMember(name));
  std::optional<Tensor> added = contributionOf(op, evaluator, values);
  auto found = state.members.find(name);
  std::optional<Tensor> total;
  if (added && found != state.members.end() && !state.isReduced &&
      bucket.getElement() == type.getElementType())
    total = evaluator.addValues(std::move(found->second), std::move(*added));
  if (!total) {
    fail();
    total = evaluator.opaque(type);
  }
  state.members[name] = std::move(*total);
  state.contributions[name] = op->getOperand(0);
  buckets[result] = std::move(state);
}

/// The accumulators that a function returns as a bucket.
void Prover::returnBucket(Part part, unsigned number, mlir::Value returned,
                          SmallVectorImpl<Result> &results) {
  train::BucketOp bucket = getBucket(part.function, returned.getType());
  train::RoleAttr role = train::getResultRole(part.function, number);
  if (!bucket || !role)
    return;
  BucketState state = std::move(buckets[returned]);
  buckets.erase(returned);
  bool reduces = (bucket.getAxes() && !bucket.getAxes()->empty()) ||
                 (bucket.getScatter() && !bucket.getScatter()->empty());
  for (const Member &member : getMembers(bucket, part, role)) {
    Result result{part, number, returned};
    result.role = member.role;
    result.placement = dist::getPlacement(member.type);
    result.isMember = true;
    auto found = state.contributions.find(member.name);
    if (found == state.contributions.end())
      result.missing = "nothing is contributed to it";
    else if (reduces && !state.isReduced)
      result.missing = "its bucket is not reduced";
    else {
      result.returned = found->second;
      result.member = std::move(state.members[member.name]);
    }
    results.push_back(std::move(result));
  }
}
